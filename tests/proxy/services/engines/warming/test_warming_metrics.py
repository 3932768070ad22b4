"""Warming on the metrics page."""

from prometheus_client import CollectorRegistry, generate_latest

from proxy.engines.warming.accounts import WarmingAccounts, WarmingKind, WarmingResult
from proxy.services.engines.warming.warming_metrics import WarmingCollector


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
