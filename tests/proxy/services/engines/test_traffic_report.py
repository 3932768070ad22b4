"""A gateway's reports of its engines' traffic."""

import asyncio
import json
from contextlib import suppress
from pathlib import Path

import pytest

from proxy.calls.route_choice import RouteChoice
from proxy.catalog.entries import Route, Upstream
from proxy.engines.routing.router import ReuseCounters
from proxy.engines.speculation.advice import advise
from proxy.engines.state.traffic_file import EngineTraffic, TrafficFile, read_traffic
from proxy.engines.warming.accounts import WarmingKind, WarmingResult
from proxy.services.engines.replica_routing import ReplicaRouting
from proxy.services.engines.speculation_metrics import ProfileAdvice
from proxy.services.engines.traffic_report import TrafficReport, available_tokens
from slo.usage import Usage
from tests.fakes.call_dependencies import call
from tests.fakes.engine_pages import PlayedPages
from tests.fakes.engine_profiles import a_profile
from tests.fakes.virtual_clock import run_in_virtual_time
from tests.proxy.engines.speculation.test_advice import add_samples

TABLE = 'replicas = ["http://a:1/v1", "http://b:2/v1"]\nserved_name = "m"'
PROMPT = {"role": "system", "content": "What was agreed on so far. " * 400}
CALL = call(json.dumps({"model": "m", "messages": [PROMPT]}).encode(), conversation="chat")


def choices() -> tuple[RouteChoice, ...]:
    return tuple(
        RouteChoice(
            Route(
                name=f"house:{n}/m",
                upstream=Upstream(name=f"house:{n}", kind="openai", base_url=url, engine="house"),
                model="m",
            ),
            "m",
        )
        for n, url in enumerate(("http://a:1/v1", "http://b:2/v1"))
    )


def test_reuse_is_reported_by_model_and_replica_and_load_by_replica(tmp_path: Path):
    async def story() -> tuple[EngineTraffic, list[EngineTraffic]]:
        loop = asyncio.get_running_loop()
        monitor = PlayedPages().monitor(a_profile(TABLE))
        await monitor.read_all()
        routing = ReplicaRouting(monitor, loop.time)
        for cached in (0, 900):
            ticket = (await routing.order(CALL, choices())).ready[0].replica
            assert ticket is not None
            ticket.send()
            ticket.begin_answer()
            ticket.end(Usage(input=1_000 - cached, cache_read=cached), is_comparable=True)
        report = TrafficReport(monitor, routing, 7, loop.time)
        with suppress(TimeoutError):
            async with asyncio.timeout(11.0):
                await report.run(TrafficFile(tmp_path, 7))
        return report.traffic({}), read_traffic(tmp_path, loop.time())

    now, (written,) = run_in_virtual_time(story)

    assert (written.pid, written.at, written.replicas) == (7, 10.0, now.replicas)
    (whole,) = now.models.values()
    used, other = sorted(now.replicas, key=lambda replica: -replica.reuse.prompt_tokens)
    assert used.reuse == whole
    assert other.reuse.prompt_tokens == 0
    assert whole.prompt_tokens > whole.available >= whole.captured > 0.4 * whole.prompt_tokens
    assert 0.4 * whole.prompt_tokens < whole.delivered < 0.5 * whole.prompt_tokens
    assert (used.running, used.waiting, used.kv_usage) == (2.0, 1.0, 0.5)
    assert (used.is_healthy, used.calls_in_flight, used.events) == (True, 0, False)


def test_replica_without_calls_or_pages_has_no_reuse_and_no_load():
    async def story() -> EngineTraffic:
        pages = PlayedPages()
        pages.answers["http://a:1/metrics"] = OSError("none")
        monitor = pages.monitor(a_profile(TABLE))
        await monitor.read_all()
        routing = ReplicaRouting(monitor, asyncio.get_running_loop().time)
        return TrafficReport(monitor, routing, 7, lambda: 0.0).traffic({})

    outcome = run_in_virtual_time(story)

    first = outcome.replicas[0]
    assert (outcome.models, first.running, first.kv_usage) == ({}, None, None)
    assert first.reuse.prompt_tokens == 0
    assert "none" in first.reason


def test_warming_and_the_advice_on_speculation_are_reported_by_profile():
    house = a_profile('gpu = "H100"')
    advised = advise(house, add_samples(draft_model=(180, 0.7, 1), none=(100, None, 1)))

    async def story() -> EngineTraffic:
        monitor = PlayedPages().monitor(a_profile(TABLE))
        routing = ReplicaRouting(monitor, asyncio.get_running_loop().time)
        accounts, kind = routing.gains.accounts, WarmingKind.TYPED
        accounts.results["house", kind, WarmingResult.WARMED] += 3
        accounts.tokens["house", kind] += 900
        accounts.nanos["house", kind] += 7_000
        accounts.note_use("house", kind, 800, rate=400.0)
        return TrafficReport(monitor, routing, 7, lambda: 0.0).traffic(
            {"house": ProfileAdvice(advised, "More KV.")}
        )

    report = run_in_virtual_time(story)

    (warming,), (advice,) = report.warming, report.speculation
    assert (warming.profile, warming.kind, warming.prompts) == ("house", "typed", 3)
    assert (warming.computed_tokens, warming.cost_nanos) == (900, 7_000)
    assert (warming.used_calls, warming.used_tokens, warming.saved_s) == (1, 800, 2.0)
    assert (advice.recommended, advice.kv_cache) == ("draft_model:3", "More KV.")
    assert report.replicas[0].kv_dtype == "auto"
    best = advice.settings[0]
    assert (best.setting, best.measured) == ("draft_model:3", 1.8)
    assert best.acceptance == pytest.approx(0.7)


def test_tokens_that_an_engine_delivered_count_as_available() -> None:
    """Engines hold prompts from before the gateway started, which it cannot know of."""
    counted = ReuseCounters(prompt_tokens=1_000, available=100, captured=50, delivered=400)

    assert available_tokens(counted) == 400
    assert available_tokens(ReuseCounters(prompt_tokens=1_000, available=700, delivered=400)) == 700
