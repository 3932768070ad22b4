"""Warming as metrics: what was read ahead, what it cost, and the first-token times it changed."""

from collections.abc import Iterator
from typing import Final

from prometheus_client import Metric
from prometheus_client.core import CounterMetricFamily, SummaryMetricFamily
from prometheus_client.registry import Collector

from proxy.engines.warming.accounts import WarmingAccounts

_NANOS_PER_DOLLAR: Final = 1_000_000_000
_BY: Final = ("engine", "kind")


class WarmingCollector(Collector):
    """Metrics of warming, by engine and kind.

    Args:
        accounts: Counts of prompts, tokens, cost and first-token times, by engine and kind of
            prompt that was read ahead.
    """

    def __init__(self, accounts: WarmingAccounts) -> None:
        self._accounts = accounts

    def collect(self) -> Iterator[Metric]:
        """All of it, as Prometheus' own types."""
        accounts = self._accounts
        prompts = CounterMetricFamily(
            "thriftgate_engine_warming_prompts",
            "Prompts that were to be read ahead, by how that ended",
            labels=[*_BY, "result"],
        )
        for (engine, kind, result), count in accounts.results.items():
            prompts.add_metric([engine, kind, result], float(count))
        tokens = CounterMetricFamily(
            "thriftgate_engine_warming_tokens",
            "Prompt tokens that engines computed to warm their caches",
            labels=_BY,
        )
        for (engine, kind), count in accounts.tokens.items():
            tokens.add_metric([engine, kind], float(count))
        cost = CounterMetricFamily(
            "thriftgate_engine_warming_cost_usd",
            "Cost of reading ahead, as far as it is known; the ledger has it, too",
            labels=_BY,
        )
        for (engine, kind), nanos in accounts.nanos.items():
            cost.add_metric([engine, kind], nanos / _NANOS_PER_DOLLAR)
        waits = SummaryMetricFamily(
            "thriftgate_engine_warming_ttft_seconds",
            "First-token times of streams that warming could help, by whether it did: the first "
            "one with a system prompt since its replica's start, and later turns",
            labels=[*_BY, "warmed"],
        )
        for (engine, kind, is_warmed), wait in accounts.waits.items():
            labels = [engine, kind, "yes" if is_warmed else "no"]
            waits.add_metric(labels, count_value=wait.calls, sum_value=wait.seconds)
        yield from (prompts, tokens, cost, waits)
        yield from _gains(accounts)


def _gains(accounts: WarmingAccounts) -> Iterator[Metric]:
    """Calls that found their beginning warmed, and their gain."""
    calls = CounterMetricFamily(
        "thriftgate_engine_warming_used_calls",
        "Calls that found their beginning warmed, each warmed prompt once",
        labels=_BY,
    )
    for (engine, kind), count in accounts.used_calls.items():
        calls.add_metric([engine, kind], float(count))
    tokens = CounterMetricFamily(
        "thriftgate_engine_warming_used_tokens",
        "Tokens that these calls read of it from the cache",
        labels=_BY,
    )
    for (engine, kind), count in accounts.used_tokens.items():
        tokens.add_metric([engine, kind], float(count))
    saved = CounterMetricFamily(
        "thriftgate_engine_warming_saved_seconds",
        "Seconds of prefill that these calls were spared, by the rate measured at their replica",
        labels=_BY,
    )
    for (engine, kind), seconds in accounts.saved_s.items():
        saved.add_metric([engine, kind], seconds)
    yield from (calls, tokens, saved)
