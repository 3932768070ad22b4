"""Sets up engines in a running gateway: their monitors, and the choice of replicas."""

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from typing import Any, Final
from urllib.parse import urlsplit

from prometheus_client import Metric
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from proxy.app_context import AppContext
from proxy.catalog.entries import Upstream
from proxy.configuration import Snapshot
from proxy.engines.state.state_file import read_engine_states
from proxy.engines.state.traffic_file import TrafficFile
from proxy.engines.warming.accounts import WarmingAccounts
from proxy.errors import UpstreamError
from proxy.providers.port import PreparedRequest
from proxy.services.engines.attached_evidence import AttachedEvidence
from proxy.services.engines.exact_prefixes import ExactPrefixes
from proxy.services.engines.idle_costs import keep_idle_costs_booked
from proxy.services.engines.kv_event_reader import KvEventReader
from proxy.services.engines.prompt_tokens import PromptTokenizer
from proxy.services.engines.replica_monitor import PageFetcher, ReplicaMonitor, ReplicaStatus
from proxy.services.engines.replica_routing import ReplicaRouting
from proxy.services.engines.speculation_metrics import SpeculationCollector
from proxy.services.engines.traffic_report import TrafficReport, available_tokens
from proxy.services.engines.warming.replica_warming import ReplicaWarming
from proxy.store.sql.ids import call_ids
from proxy.upstream.port import Transport, open_resending
from proxy.upstream.zmq_subscriber import subscribe

#: Bytes of a page that are read; vLLM's has some 150 KB.
_MAX_PAGE_BYTES: Final = 4 * 1024 * 1024
_OK: Final = 200
_NANOS_PER_DOLLAR: Final = 1_000_000_000
_WARMING_LABELS: Final = ("engine", "kind")
_HEADERS: Final = {"accept": "text/plain"}
#: Figures that engines state themselves: kind, name, text, field of ``MetricNames``.
_FIGURES: Final = (
    (GaugeMetricFamily, "running", "Calls in its batch", "running"),
    (GaugeMetricFamily, "waiting", "Calls in its queue", "waiting"),
    (GaugeMetricFamily, "kv_usage", "Part of its KV cache in use", "kv_usage"),
    (CounterMetricFamily, "draft_tokens", "Tokens that speculation proposed", "spec_draft_tokens"),
    (
        CounterMetricFamily,
        "accepted_tokens",
        "Draft tokens that the model accepted",
        "spec_accepted_tokens",
    ),
    (
        CounterMetricFamily,
        "preemptions",
        "Times that a call lost its KV blocks to others",
        "preemptions",
    ),
)


@asynccontextmanager
async def running_engines(
    context: AppContext, transport: Transport, ticks: Callable[[], float]
) -> AsyncIterator[ReplicaRouting | None]:
    """Watches the replicas of engines; yields the choice among them, None without an engines file.

    Profiles may come, go and change while the gateway runs.
    """
    if context.settings.engines is None:
        with _ended_later(context, keep_idle_costs_booked(context, ticks)):
            yield None
        return
    monitor = ReplicaMonitor(
        context.engines,
        page_fetcher(transport),
        partial(read_engine_states, context.settings.folder),
        ticks,
    )
    warming = ReplicaWarming(context.tasks, ticks, context.now, call_ids())
    warming.update(context.engines)
    reader = KvEventReader(monitor, context.tasks, subscribe)
    reader.update(context.engines)
    exact = ExactPrefixes(reader, PromptTokenizer(transport, ticks))
    routing = ReplicaRouting(monitor, ticks, context.settings.region, warming, exact)
    advisor = _publish(context, monitor, routing, warming)

    async def prepare(snapshot: Snapshot) -> Callable[[], None]:
        def commit() -> None:
            monitor.update(snapshot.engines)
            warming.update(snapshot.engines)
            reader.update(snapshot.engines)
            routing.keep_only({profile.served_name for profile in snapshot.engines.values()})

        return commit

    context.follow(prepare)
    file = TrafficFile(context.settings.folder, os.getpid())
    reporter = TrafficReport(monitor, routing, os.getpid(), context.now, advisor.advice)
    tasks = [
        context.tasks.keep(monitor.run),
        context.tasks.keep(_attached_evidence(context, monitor).run),
        context.tasks.keep(partial(reporter.run, file)),
        keep_idle_costs_booked(context, ticks, monitor.status),
    ]
    with _ended_later(context, *tasks):
        try:
            yield routing
        finally:
            reader.close()
            file.remove()


@contextmanager
def _ended_later(context: AppContext, *tasks: asyncio.Task[None]) -> Iterator[None]:
    """A block after which these tasks are ended."""
    try:
        yield
    finally:
        context.tasks.end(*tasks)


def _publish(
    context: AppContext, monitor: ReplicaMonitor, routing: ReplicaRouting, warming: ReplicaWarming
) -> SpeculationCollector:
    """Have Prometheus read the metrics of engines; returns the advisor's."""
    advisor = SpeculationCollector(context.settings.folder, lambda: monitor.profiles)
    for collector in (
        EngineCollector(monitor, routing),
        WarmingCollector(warming.accounts),
        advisor,
    ):
        context.publish(collector)
    return advisor


def _attached_evidence(context: AppContext, monitor: ReplicaMonitor) -> AttachedEvidence:
    """The records of attached engines, by the pages that the monitor reads."""
    evidence = AttachedEvidence(context.settings.folder, lambda: monitor.profiles, context.now)
    monitor.listen(evidence.note)
    return evidence


def page_fetcher(transport: Transport) -> PageFetcher:
    """A fetcher of engines' pages over the connections that calls use."""
    upstreams: dict[tuple[str, str], Upstream] = {}

    async def fetch(url: str, key_env: str = "") -> bytes:
        parts = urlsplit(url)
        origin = f"{parts.scheme}://{parts.netloc}"
        name = f"page of {origin}" + (f" with {key_env}" if key_env else "")
        upstream = upstreams.setdefault(
            (origin, key_env), Upstream(name=name, kind="openai", base_url=origin, key_env=key_env)
        )
        page = PreparedRequest(method="GET", path=parts.path, headers=_HEADERS, body=b"")
        try:
            exchange = await open_resending(transport, upstream, page)
            try:
                body = await exchange.read_all(_MAX_PAGE_BYTES)
            finally:
                exchange.close()
        except UpstreamError as error:
            if isinstance(error.__cause__, ConnectionRefusedError):
                raise ConnectionRefusedError(error.message) from error
            raise OSError(error.message) from error
        if exchange.status != _OK:
            raise OSError(f"{url} answered {exchange.status}")
        return body

    return fetch


class EngineCollector(Collector):
    """Metrics of engines: their replicas, and the reuse of prefixes."""

    def __init__(self, monitor: ReplicaMonitor, routing: ReplicaRouting) -> None:
        self._monitor = monitor
        self._routing = routing

    def collect(self) -> Iterator[Metric]:
        """All of it, as Prometheus' own types."""
        yield from self._replicas()
        yield from self._reuse()

    def _replicas(self) -> Iterator[Metric]:
        statuses = self._monitor.statuses()

        def family(
            kind: type[GaugeMetricFamily | CounterMetricFamily],
            name: str,
            text: str,
            value: Callable[[ReplicaStatus], float | None],
        ) -> Metric:
            made = kind(f"thriftgate_engine_{name}", text, labels=["engine", "replica"])
            for status in statuses:
                if (figure := value(status)) is not None:
                    made.add_metric([status.profile, status.name], float(figure))
            return made

        text = "1 if calls may go to the replica"
        yield family(GaugeMetricFamily, "healthy", text, lambda status: status.is_healthy)
        text, calls = "Calls that this gateway has there", self._routing.calls_in_flight
        yield family(GaugeMetricFamily, "calls_in_flight", text, calls)
        for kind, name, text, field in _FIGURES:
            yield family(kind, name, f"{text}, as the engine says", partial(_figure, field))

    def _reuse(self) -> Iterator[Metric]:
        tokens = CounterMetricFamily(
            "thriftgate_engine_prompt_tokens",
            "Tokens of prompts sent to engines: all; available in one cache with the room of all "
            "replicas; captured by routing; delivered by the engines",
            labels=["model", "part"],
        )
        routed = CounterMetricFamily(
            "thriftgate_engine_routed_calls",
            "Calls to engines by the reason for their replica",
            labels=["model", "reason"],
        )
        for name, model in self._routing.models.items():
            reuse = model.router.reuse
            parts = {
                "all": reuse.prompt_tokens,
                "available": available_tokens(reuse),
                "captured": reuse.captured,
                "delivered": reuse.delivered,
            }
            for part, count in parts.items():
                tokens.add_metric([name, part], float(count))
            for reason, calls in model.reasons.items():
                routed.add_metric([name, reason], float(calls))
        yield from (tokens, routed)


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
            labels = (*_WARMING_LABELS, "result") if name == "prompts" else _WARMING_LABELS
            family = CounterMetricFamily(f"thriftgate_engine_warming_{name}", text, labels=labels)
            for key, count in counts.items():
                family.add_metric(key, float(count))
            yield family


def _figure(field: str, status: ReplicaStatus) -> float | None:
    """A figure by its field of ``MetricNames``; None where the engine does not state it."""
    return None if status.metrics is None else status.metrics.value(field)
