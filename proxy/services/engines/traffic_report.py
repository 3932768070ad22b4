"""Reports what a gateway sees of its engines: reuse by model and replica, and load."""

import asyncio
from collections.abc import Callable

from proxy.engines.routing.router import ReuseCounters
from proxy.engines.traffic_file import (
    REPORT_INTERVAL_S,
    EngineTraffic,
    PrefixReuse,
    ReplicaTraffic,
    TrafficFile,
)
from proxy.services.engines.replica_monitor import ReplicaMonitor, ReplicaStatus
from proxy.services.engines.replica_routing import ReplicaRouting


class TrafficReport:
    """Keeps the report of one gateway up to date.

    Args:
        monitor: Knows the replicas.
        routing: Knows the calls.
        pid: The gateway's process.
        now: Seconds since the epoch.
    """

    def __init__(
        self, monitor: ReplicaMonitor, routing: ReplicaRouting, pid: int, now: Callable[[], float]
    ) -> None:
        self._monitor = monitor
        self._routing = routing
        self._pid = pid
        self._now = now

    async def run(self, file: TrafficFile) -> None:
        """Write it every few seconds, for ever."""
        while True:
            await asyncio.to_thread(file.write, self.traffic())
            await asyncio.sleep(REPORT_INTERVAL_S)

    def traffic(self) -> EngineTraffic:
        """The report as of now."""
        models = self._routing.models
        return EngineTraffic(
            pid=self._pid,
            at=self._now(),
            models={name: _reuse(each.router.reuse) for name, each in models.items()},
            replicas=tuple(map(self._replica, self._monitor.statuses())),
        )

    def _replica(self, status: ReplicaStatus) -> ReplicaTraffic:
        routing, metrics = self._routing.models.get(status.model), status.metrics
        counted = None if routing is None else routing.router.reuse_at(status.base_url)
        running, waiting, kv_usage = (
            None if metrics is None else metrics.value(name)
            for name in ("running", "waiting", "kv_usage")
        )
        return ReplicaTraffic(
            name=status.name,
            profile=status.profile,
            model=status.model,
            base_url=status.base_url,
            is_healthy=status.is_healthy,
            reason=status.reason,
            running=running,
            waiting=waiting,
            kv_usage=kv_usage,
            calls_in_flight=self._routing.calls_in_flight(status),
            events=routing is not None and routing.router.has_events(status.base_url),
            reuse=PrefixReuse() if counted is None else _reuse(counted),
        )


def _reuse(counted: ReuseCounters) -> PrefixReuse:
    return PrefixReuse(
        prompt_tokens=counted.prompt_tokens,
        available=counted.available,
        captured=counted.captured,
        delivered=counted.delivered,
    )
