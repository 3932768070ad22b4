"""Engines in a running gateway: pages over real connections, and metrics for Prometheus."""

import asyncio
import os
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
import pytest
from prometheus_client import CollectorRegistry, generate_latest

from proxy.engines.manifests.deployment import ManifestOptions, plan_deployment
from proxy.engines.profiles import Engine, EngineProfile
from proxy.engines.speculation.auto_choice import SpeculationRecord
from proxy.engines.state.traffic_file import EngineTraffic, read_traffic
from proxy.engines.warming.accounts import WarmingAccounts, WarmingKind, WarmingResult
from proxy.services.engines.attached_evidence import WRITE_INTERVAL_S
from proxy.services.engines.replica_routing import ReplicaRouting
from proxy.services.engines.setup import EngineCollector, WarmingCollector, page_fetcher
from proxy.upstream.http import open_transport
from tests.fakes.engine_fleet import engine_fleet
from tests.fakes.engine_pages import PAGE, PlayedPages
from tests.fakes.engine_profiles import a_profile
from tests.fakes.free_port import free_port
from tests.fakes.virtual_clock import run_in_virtual_time

ATTACHED = 'replicas = ["http://a:1/v1"]\nserved_name = "m"'


@asynccontextmanager
async def page_server(answer: bytes) -> AsyncIterator[str]:
    """A server that gives one answer to whatever is asked; its origin."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(answer)
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"


async def fetch(url: str, key_env: str = "") -> bytes:
    keys = {"HOUSE_KEY": "s3cret"}
    async with open_transport(keys, connections=4, connect_timeout=5.0) as transport:
        return await page_fetcher(transport)(url, key_env)


@asynccontextmanager
async def page_server_with_key(key: str) -> AsyncIterator[str]:
    """A server whose pages only those with its key get; its origin."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).lower()
        is_known = f"authorization: bearer {key}\r\n".encode() in head
        status = b"200 OK" if is_known else b"401 Unauthorized"
        writer.write(b"HTTP/1.1 %b\r\ncontent-length: %d\r\n\r\n%b" % (status, len(PAGE), PAGE))
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"


def test_the_page_of_an_engine_with_a_key_is_fetched_with_the_key_of_its_profile():
    async def story(key_env: str) -> bytes:
        async with page_server_with_key("s3cret") as origin:
            return await fetch(f"{origin}/metrics", key_env)

    assert asyncio.run(story("HOUSE_KEY")) == PAGE
    with pytest.raises(OSError, match="answered 401"):
        asyncio.run(story(""))
    with pytest.raises(OSError, match="set NO_SUCH_KEY"):
        asyncio.run(story("NO_SUCH_KEY"))


def test_a_page_is_fetched_over_a_real_connection():
    async def story() -> bytes:
        answer = b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n%b" % (len(PAGE), PAGE)
        async with page_server(answer) as origin:
            return await fetch(f"{origin}/metrics")

    assert asyncio.run(story()) == PAGE


def test_a_page_that_is_not_there_is_an_error_with_its_status():
    async def story() -> None:
        async with page_server(b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n") as origin:
            await fetch(f"{origin}/metrics")

    with pytest.raises(OSError, match="/metrics answered 404"):
        asyncio.run(story())


def test_closed_port_of_an_engine_is_a_refused_connection():
    with pytest.raises(ConnectionRefusedError):
        asyncio.run(fetch(f"http://127.0.0.1:{free_port()}/metrics"))


def exported_page(*, reads: bool = True, more: bytes = b"") -> str:
    """The metrics that a gateway exports of one attached replica, whose page it has read or not."""

    async def story() -> str:
        pages = PlayedPages()
        monitor = pages.monitor(a_profile(ATTACHED))
        pages.answers["http://a:1/metrics"] = PAGE + more
        routing = ReplicaRouting(monitor, asyncio.get_running_loop().time)
        if reads:
            await monitor.read_all()
        registry = CollectorRegistry()
        registry.register(EngineCollector(monitor, routing))
        return generate_latest(registry).decode()

    return run_in_virtual_time(story)


def test_state_of_replicas_and_reuse_of_prefixes_are_exported():
    page = exported_page()

    assert 'thriftgate_engine_healthy{engine="house",replica="house:0"} 1.0' in page
    assert 'thriftgate_engine_waiting{engine="house",replica="house:0"} 1.0' in page


def test_metric_by_which_manifests_scale_an_engine_is_exported():
    profile = EngineProfile(name="house", engine=Engine.VLLM, model="m", served_name="m")
    demand, _ = plan_deployment(profile, ManifestOptions(max_replicas=2)).triggers()
    name, label = re.findall(r"(thriftgate_\w+)\{(.*)\}", demand["metadata"]["query"])[0]

    assert f'{name}{{{label},replica="house:0"}} 0.0' in exported_page(reads=False)


def test_draft_tokens_of_each_replica_and_those_accepted_are_exported():
    page = exported_page(
        more=b"vllm:spec_decode_num_draft_tokens_total 40\n"
        b"vllm:spec_decode_num_accepted_tokens_total 30\n"
    )

    assert 'thriftgate_engine_draft_tokens_total{engine="house",replica="house:0"} 40.0' in page
    assert 'thriftgate_engine_accepted_tokens_total{engine="house",replica="house:0"} 30.0' in page


def test_a_running_gateway_reports_what_it_sees_of_engines_and_takes_that_back_when_it_ends(
    tmp_path: Path,
):
    async def story() -> tuple[EngineTraffic, list[EngineTraffic]]:
        folder, reports = tmp_path / "gateway0", list[EngineTraffic]()
        async with engine_fleet(tmp_path) as fleet:
            for turns in (1, 2):
                assert (await fleet.ask(1, turns)).status_code == 200
            for _ in range(600):
                reports = read_traffic(folder, 0.0)
                if reports and reports[0].models:
                    break
                await asyncio.sleep(0.05)
        return reports[0], read_traffic(folder, 0.0)

    running, ended = asyncio.run(story())

    assert running.pid == os.getpid()
    assert [replica.name for replica in running.replicas] == ["house:0", "house:1"]
    assert running.models["house-llm"].prompt_tokens > 0
    assert ended == []


def test_a_running_gateway_keeps_the_evidence_of_attached_engines(tmp_path: Path):
    page = PAGE.replace(b"vllm:num_requests_running", b"llamacpp:requests_processing")
    answer = b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n%b" % (len(page), page)

    @asynccontextmanager
    async def replica() -> AsyncIterator[str]:
        async with page_server(answer) as origin:
            yield f"{origin}/v1"

    async def story() -> SpeculationRecord:
        async with engine_fleet(tmp_path, 1, start=replica) as fleet:
            await asyncio.sleep(2.5 * WRITE_INTERVAL_S)
            folder = fleet.folder / "gateway0/engines/house"
            return msgspec.json.decode(
                (folder / "speculation.json").read_bytes(), type=SpeculationRecord
            )

    record = run_in_virtual_time(story)

    assert record.measured is not None
    assert record.measured.model == "house-llm"
    assert record.kv_sums["auto"].readings  # pages of the replica were taken in


def test_prompts_tokens_cost_and_gains_of_warming_are_exported():
    accounts = WarmingAccounts()
    kind = WarmingKind.NEXT_TURN
    accounts.results["house", kind, WarmingResult.CANCELLED] += 2
    accounts.tokens["house", kind] += 300
    accounts.nanos["house", kind] += 2_500_000
    accounts.note_use("house", kind, 400, rate=1_600.0)
    accounts.note_use("house", kind, 100, rate=0.0)
    registry = CollectorRegistry()
    registry.register(WarmingCollector(accounts))
    page = [line for line in generate_latest(registry).decode().splitlines() if line[0] != "#"]

    name, by = "thriftgate_engine_warming", 'engine="house",kind="next_turn"'
    assert page == [
        f'{name}_prompts_total{{{by},result="cancelled"}} 2.0',
        f"{name}_tokens_total{{{by}}} 300.0",
        f"{name}_cost_usd_total{{{by}}} 0.0025",
        f"{name}_used_calls_total{{{by}}} 2.0",
        f"{name}_used_tokens_total{{{by}}} 500.0",
        f"{name}_saved_seconds_total{{{by}}} 0.25",
    ]
