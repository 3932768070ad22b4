"""Warming as metrics: what was read ahead, what it cost, and what calls gained."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from prometheus_client import Metric
from prometheus_client.core import CounterMetricFamily
from prometheus_client.registry import Collector

from proxy.engines.warming.accounts import WarmingAccounts

_NANOS_PER_DOLLAR: Final = 1_000_000_000
_BY: Final = ("engine", "kind")


class WarmingCollector(Collector):
    """Metrics of warming, by engine and kind."""

    def __init__(self, accounts: WarmingAccounts) -> None:
        self._accounts = accounts

    def collect(self) -> Iterator[Metric]:
        """All of it, as Prometheus' own types."""
        accounts = self._accounts
        dollars = {key: nanos / _NANOS_PER_DOLLAR for key, nanos in accounts.nanos.items()}
        counters: tuple[tuple[str, Mapping[Any, float], str], ...] = (
            ("prompts", accounts.results, "Prompts that were to be read ahead, by how that ended"),
            ("tokens", accounts.tokens, "Prompt tokens that engines computed to warm their caches"),
            (
                "cost_usd",
                dollars,
                "Cost of reading ahead, as far as it is known; the ledger has it, too",
            ),
            (
                "used_calls",
                accounts.used_calls,
                "Calls that found their beginning warmed, each warmed prompt once",
            ),
            (
                "used_tokens",
                accounts.used_tokens,
                "Tokens that these calls read of it from the cache",
            ),
            (
                "saved_seconds",
                accounts.saved_s,
                "Seconds of prefill that these calls were spared, by the rate of their replica",
            ),
        )
        for name, counts, text in counters:
            labels = (*_BY, "result") if name == "prompts" else _BY
            family = CounterMetricFamily(f"thriftgate_engine_warming_{name}", text, labels=labels)
            for key, count in counts.items():
                family.add_metric(key, float(count))
            yield family
