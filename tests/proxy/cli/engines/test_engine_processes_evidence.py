"""`engine serve` reads its replicas' metrics into the record."""

import asyncio

from proxy.cli.engines.engine_processes import read_pages
from proxy.engines.adapters.llamacpp import LLAMACPP
from proxy.engines.state.replica_report import ProcessState, ReplicaReport

PAGE = b"llamacpp:tokens_predicted_total 7\n"


def a_report(name, url):
    return ReplicaReport(name=name, base_url="", metrics_url=url, state=ProcessState.READY, since=0)


def test_pages_are_read_and_those_that_fail_are_left_out():
    async def answer(reader, writer):
        head = await reader.readuntil(b"\r\n\r\n")
        status = b"200 OK" if b"/metrics" in head else b"404 No"
        length = f"content-length: {len(PAGE)}".encode()
        writer.write(b"HTTP/1.1 " + status + b"\r\n" + length + b"\r\n\r\n" + PAGE)
        writer.close()

    async def story():
        async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
            url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
            paths = {"good": "/metrics", "absent": "/gone"}
            reports = [a_report(name, url + path) for name, path in paths.items()]
            reports.append(a_report("down", "http://127.0.0.1:1/metrics"))
            return await read_pages(reports, LLAMACPP)

    pages = asyncio.run(story())

    assert list(pages) == ["good"]
    assert pages["good"].value("generation_tokens") == 7.0
