"""Everything that gateways export to Prometheus, and the labels of each metric."""

import asyncio
import re
from dataclasses import replace
from pathlib import Path

import httpx
from prometheus_client import CollectorRegistry, generate_latest

from proxy.calls.metering.replica_costs import ReplicaCosts
from proxy.calls.route_health import RouteHealthRegistry
from proxy.catalog.entries import Upstream
from proxy.engines.speculation.auto_choice import SpeculationRecord
from proxy.engines.state.speculation_file import write_record
from proxy.engines.warming.accounts import WarmingAccounts, WarmingKind, WarmingResult
from proxy.records.compaction_settings import SettingsSnapshot
from proxy.services.compaction.alerts import CompactedFeaturesCollector
from proxy.services.engines.replica_routing import ReplicaRouting
from proxy.services.engines.setup import EngineCollector, WarmingCollector
from proxy.services.engines.speculation_metrics import SpeculationCollector
from proxy.services.objectives.route_alerts import RouteHealthMetrics
from proxy.services.objectives.router import ObjectiveRouter
from proxy.services.objectives.setup import ObjectiveMetrics
from proxy.services.telemetry.engine_metrics import ReplicaCostMetrics
from proxy.services.telemetry.telemetry import Telemetry
from slo.replica_cost import ReplicaPrice
from slo.usage import Usage
from tests.fakes.chaos import two_model_catalog
from tests.fakes.engine_fleet import engine_fleet
from tests.fakes.engine_pages import PAGE, PlayedPages
from tests.fakes.engine_profiles import a_profile
from tests.fakes.objective_replicas import tracks
from tests.fakes.plain_http import PLAIN
from tests.fakes.receipts import a_receipt, an_engine_receipt
from tests.fakes.virtual_clock import run_in_virtual_time
from tests.fakes.virtual_gateway import question, virtual_gateway
from tests.proxy.engines.speculation.test_advice import add_samples

SAMPLE = re.compile(r"^(thriftgate_\w+)(?:\{(.*)\})? ", re.MULTILINE)
LABEL = re.compile(r"(\w+)=~?\"")

POLICIES = """
[[objectives]]
name = "chat-ttft"
metric = "ttft"
p = 95
under = "300ms"
enforce = "degrade"
ladder = ["small"]

[[budgets]]
name = "day"
scope = "team"
limit = "100"
unit = "usd"
window = "day"

[[ceilings]]
name = "call"
limit = "1"
on_exceed = ["clamp"]
"""


async def gateway_page(folder: Path) -> str:
    """The metrics of a gateway with policies, after calls that were answered, failed and moved."""
    async with virtual_gateway(folder, POLICIES) as world:
        for number in range(120):
            cue = "503" if number == 1 else "slow=1" if number > 20 else ""
            await world.http_caller.ask(question(number, cue=cue))
            await asyncio.sleep(1)
        async with httpx.AsyncClient(trust_env=False, timeout=60, verify=PLAIN) as client:
            return (await client.get(world.url.removesuffix("/v1") + "/metrics")).text


async def engine_page(folder: Path) -> str:
    """The metrics of a gateway before engines, after a conversation of two turns."""
    async with engine_fleet(folder) as fleet:
        for turns in (1, 2):
            assert (await fleet.ask(1, turns)).status_code == 200
        return await fleet.metrics()


async def draft_page() -> str:
    """The metrics of a replica that speculates."""
    pages, registry = PlayedPages(), CollectorRegistry()
    monitor = pages.monitor(a_profile('replicas = ["http://a:1/v1"]\nserved_name = "m"'))
    pages.answers["http://a:1/metrics"] = PAGE + (
        b"vllm:spec_decode_num_draft_tokens_total 40\n"
        b"vllm:spec_decode_num_accepted_tokens_total 30\n"
    )
    await monitor.read_all()
    registry.register(EngineCollector(monitor, ReplicaRouting(monitor, lambda: 0.0)))
    return generate_latest(registry).decode()


def speculation_metrics(folder: Path) -> SpeculationCollector:
    """The advice on a profile that speculation was measured with."""
    profile = a_profile('gpu = "H100"')
    evidence = add_samples(draft_model=(180, 0.7, 1), none=(100, None, 1))
    write_record(folder / "engines" / profile.name, SpeculationRecord(evidence=evidence))
    return SpeculationCollector(folder, lambda: {profile.name: profile})


def rarer_metrics(folder: Path) -> str:
    """The metrics that take more than a story: engines' phases and costs, compaction, misses."""
    catalog, health = two_model_catalog(), RouteHealthRegistry()
    route = next(iter(catalog.models.values())).routes[0]
    health.health_of(replace(route, upstream=replace(route.upstream, adapts=True)))
    router = ObjectiveRouter(tracks(), catalog)
    router.not_enforced["chat-ttft", "small"] = 1
    router.misses.totals["chat-ttft", "prefill"] += 1
    accounts, costs = WarmingAccounts(), ReplicaCosts()
    kind = WarmingKind.NEXT_TURN
    accounts.results["house", kind, WarmingResult.CANCELLED] += 1
    accounts.tokens["house", kind] += 1
    accounts.nanos["house", kind] += 1
    accounts.note_use("house", kind, 1, rate=1.0)
    price = ReplicaPrice(gpus=1, gpu_hour_nanos=1_000_000_000)
    costs.update(
        [Upstream(name="gpu", kind="openai", base_url="http://gpu/v1", replica_price=price)], 0.0
    )
    for second in range(100):
        costs._meters["gpu"].rates.learn(10**6, Usage(input=1000, output=90), 0.4, 0.6, second)
    telemetry = Telemetry(log_calls=False)
    telemetry.register(
        CompactedFeaturesCollector(SettingsSnapshot),
        ObjectiveMetrics(router),
        RouteHealthMetrics(health, lambda: 0.0),
        WarmingCollector(accounts),
        speculation_metrics(folder),
        ReplicaCostMetrics(costs, lambda: 1.0),
    )
    telemetry.observe(an_engine_receipt(1))
    telemetry.observe(a_receipt(1, compaction="facts", compacted=True))
    telemetry.observe(a_receipt(1, compaction="facts+recall", recalls=1, recalled_tokens=9))
    telemetry.observe(a_receipt(1, compaction="facts", compaction_why="control"))
    telemetry.observe(a_receipt(1, miss="expired", miss_tokens=1024))
    telemetry.observe(a_receipt(1, fast_path_nanos=-1))
    return telemetry.prometheus_text().decode()


def exported_metrics(folder: Path) -> dict[str, set[str]]:
    """The labels of each metric that gateways export, by name as it is scraped."""
    metrics: dict[str, set[str]] = {}
    (folder / "engines").mkdir()
    pages = (
        run_in_virtual_time(lambda: gateway_page(folder)),
        asyncio.run(engine_page(folder / "engines")),
        run_in_virtual_time(draft_page),
        rarer_metrics(folder),
    )
    for name, labels in (sample for page in pages for sample in SAMPLE.findall(page)):
        metrics.setdefault(name, set()).update(LABEL.findall(labels))
    return metrics
