"""Connections that send nothing, or half a request, beside calls that are good."""

import asyncio
import resource
import sys
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import psutil
import pytest

from proxy.store.sql.database import open_database
from tests.fakes.background_loop import running_in_thread
from tests.fakes.gateway_fixture import running_simulator
from tests.fakes.ledger import ledger_of
from tests.fakes.serve_process import ServeProcess, serve_process

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="needs prlimit")
_HALF_OPEN = 3000
_CALLS = 200
#: What half-open connections send: nothing, half of the headers, half of the body.
_HEAD = "POST /v1/chat/completions HTTP/1.1\r\nhost: gateway\r\nauthorization: Bearer {key}\r\n"
_BODY = "content-length: 100\r\n\r\nhalf"

Half = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@pytest.fixture
def gateway(tmp_path: Path) -> Iterator[ServeProcess]:
    """A gateway not started yet, before a simulator, and room for the test's own connections."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = 4 * _HALF_OPEN  # one address gets half of what clients get, and they half of all
    if hard < needed:
        pytest.skip(f"{hard} files may be open, and {needed} are needed")
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    with (
        running_in_thread(lambda: running_simulator(tmp_path)) as (_, catalog),
        serve_process(tmp_path, catalog) as running,
    ):
        yield running
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@asynccontextmanager
async def half_open(gateway: ServeProcess, count: int) -> AsyncIterator[list[Half]]:
    """So many connections, a third of each kind."""
    head = _HEAD.format(key=gateway.key)
    kinds = [b"", head.encode(), (head + _BODY).encode()]
    opened: list[Half] = []
    try:
        for number in range(count):
            opened.append(await asyncio.open_connection("127.0.0.1", gateway.port))
            opened[-1][1].write(kinds[number % len(kinds)])
        yield opened
    finally:
        for _, writer in opened:
            writer.transport.abort()


async def statuses_of_calls(gateway: ServeProcess, calls: int) -> Counter[int]:
    """Number of good calls had which status; each on a connection of its own."""
    body = {"model": "gpt-lab", "messages": [{"role": "user", "content": "hello"}]}
    headers = {"authorization": f"Bearer {gateway.key}"}
    statuses: Counter[int] = Counter()
    alone = httpx.Limits(max_keepalive_connections=0)
    async with httpx.AsyncClient(timeout=60, limits=alone, verify=False) as client:  # noqa: S501 - no TLS here
        for _ in range(calls):
            url = f"{gateway.url}/v1/chat/completions"
            statuses[(await client.post(url, json=body, headers=headers)).status_code] += 1
    return statuses


async def ends(opened: list[Half]) -> Counter[bytes]:
    """Return how the gateway ended these connections: the first line of what it said."""

    async def end(reader: asyncio.StreamReader) -> bytes:
        try:
            return (await asyncio.wait_for(reader.read(), 60)).partition(b"\r\n")[0]
        except ConnectionResetError:
            return b"reset"

    return Counter(await asyncio.gather(*(end(reader) for reader, _ in opened)))


def test_three_thousand_half_open_connections_disturb_no_call_and_are_closed(gateway):
    gateway.start(THRIFTGATE_HEADER_TIMEOUT="4", THRIFTGATE_BODY_RATE_WINDOW="4")

    async def work() -> None:
        async with half_open(gateway, _HALF_OPEN) as opened:
            assert await statuses_of_calls(gateway, _CALLS) == {200: _CALLS}
            endings = await ends(opened)
        third = _HALF_OPEN // 3
        assert endings == {b"": third, b"HTTP/1.1 408 Request Timeout": 2 * third}

    asyncio.run(work())


def test_a_gateway_out_of_descriptors_goes_on_once_it_has_some_and_books_its_calls(gateway):
    gateway.start(THRIFTGATE_HEADER_TIMEOUT="5", THRIFTGATE_BODY_RATE_WINDOW="5")
    low = psutil.Process(gateway.pid).num_fds() + 100
    resource.prlimit(gateway.pid, resource.RLIMIT_NOFILE, (low, low))

    async def work() -> None:
        async with half_open(gateway, 300) as opened:
            endings = await ends(opened)
            assert endings[b"HTTP/1.1 408 Request Timeout"] > 0
        assert await statuses_of_calls(gateway, 3) == {200: 3}

    asyncio.run(work())
    assert gateway.stop() == 0
    assert len(ledger_of(open_database(gateway.database_url))) == 3


def test_connections_over_the_limit_of_an_address_are_refused_and_logged(gateway):
    gateway.start(
        THRIFTGATE_CONNECTIONS_PER_ADDRESS="20",
        THRIFTGATE_HEADER_TIMEOUT="2",
        THRIFTGATE_BODY_RATE_WINDOW="2",
    )

    async def work() -> None:
        async with half_open(gateway, 60) as opened:
            endings = await ends(opened)
        assert endings[b"HTTP/1.1 503 Service Unavailable"] + endings[b"reset"] >= 40
        assert await statuses_of_calls(gateway, 1) == {200: 1}

    asyncio.run(work())
    log = (gateway.folder / "serve.log").read_text()
    assert "the most that THRIFTGATE_CONNECTIONS_PER_ADDRESS allows" in log
