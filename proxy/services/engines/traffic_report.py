"""Reports what a gateway sees of its engines: reuse, load, warming, advice on speculation."""

import asyncio
from collections.abc import Callable, Iterator, Mapping

from proxy.engines.metrics.decode_speed import band_text
from proxy.engines.routing.router import ReuseCounters
from proxy.engines.state.traffic_file import (
    REPORT_INTERVAL_S,
    EngineTraffic,
    PrefixReuse,
    ReplicaTraffic,
    SettingReport,
    SpeculationReport,
    TrafficFile,
    WarmingReport,
)
from proxy.engines.warming.accounts import WarmingAccounts, WarmingResult
from proxy.services.engines.replica_monitor import ReplicaMonitor, ReplicaStatus
from proxy.services.engines.replica_routing import ReplicaRouting
from proxy.services.engines.speculation_metrics import ProfileAdvice


class TrafficReport:
    """Keeps the report of one gateway up to date.

    Args:
        advice: Returns the advice by profile; it may read files.
    """

    def __init__(
        self,
        monitor: ReplicaMonitor,
        routing: ReplicaRouting,
        pid: int,
        now: Callable[[], float],
        advice: Callable[[], Mapping[str, ProfileAdvice]] = dict,
    ) -> None:
        self._monitor = monitor
        self._routing = routing
        self._pid = pid
        self._now = now
        self._advice = advice

    async def run(self, file: TrafficFile) -> None:
        """Write it every few seconds, until cancelled."""
        while True:
            advice = await asyncio.to_thread(self._advice)
            await asyncio.to_thread(file.write, self.traffic(advice))
            await asyncio.sleep(REPORT_INTERVAL_S)

    def traffic(self, advice: Mapping[str, ProfileAdvice]) -> EngineTraffic:
        """The report as of now, with this advice."""
        models = self._routing.models
        return EngineTraffic(
            pid=self._pid,
            at=self._now(),
            models={name: _reuse(routing.router.reuse) for name, routing in models.items()},
            replicas=tuple(map(self._replica, self._monitor.statuses())),
            warming=tuple(_warming(self._routing.gains.accounts)),
            speculation=tuple(_speculation(*advised) for advised in sorted(advice.items())),
        )

    def _replica(self, status: ReplicaStatus) -> ReplicaTraffic:
        routing, metrics = self._routing.models.get(status.model), status.metrics
        counted = None if routing is None else routing.router.reuse_at(status.base_url)
        running, waiting, kv_usage, preemptions = (
            None if metrics is None else metrics.value(name)
            for name in ("running", "waiting", "kv_usage", "preemptions")
        )
        profile = self._monitor.profiles.get(status.profile)
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
            preemptions=preemptions,
            kv_dtype="" if profile is None else str(profile.kv_dtype),
            calls_in_flight=self._routing.calls_in_flight(status),
            events=routing is not None and routing.router.has_events(status.base_url),
            reuse=PrefixReuse() if counted is None else _reuse(counted),
        )


def _reuse(counted: ReuseCounters) -> PrefixReuse:
    return PrefixReuse(
        prompt_tokens=counted.prompt_tokens,
        available=available_tokens(counted),
        captured=counted.captured,
        delivered=counted.delivered,
    )


def available_tokens(counted: ReuseCounters) -> int:
    """Tokens that one cache of all replicas would have had: at least those that one really had.

    Engines hold prompts from before the gateway started and from other gateways, and templates.
    """
    return max(counted.available, counted.delivered)


def _warming(accounts: WarmingAccounts) -> Iterator[WarmingReport]:
    """Prompts that were read ahead, by profile and kind."""
    warmed = {key[:2]: n for key, n in accounts.results.items() if key[2] is WarmingResult.WARMED}
    for profile, kind in sorted({*warmed, *accounts.tokens, *accounts.used_calls}):
        yield WarmingReport(
            profile=profile,
            kind=kind,
            prompts=warmed.get((profile, kind), 0),
            computed_tokens=accounts.tokens[profile, kind],
            cost_nanos=accounts.nanos[profile, kind],
            used_calls=accounts.used_calls[profile, kind],
            used_tokens=accounts.used_tokens[profile, kind],
            saved_s=accounts.saved_s.get((profile, kind), 0.0),
        )


def _speculation(profile: str, advised: ProfileAdvice) -> SpeculationReport:
    advice = advised.speculation
    settings = [
        SettingReport(
            setting=option.setting,
            acceptance=option.acceptance,
            tokens_per_step=option.tokens_per_step,
            measured=None if option.measured is None else option.measured.value,
            bands=tuple(
                f"{band_text(band.sequences)}: {band.speed_up.value:.2f}x"
                for band in option.bands
                if band.speed_up is not None
            ),
        )
        for option in advice.options
        if option.method is not None
    ]
    return SpeculationReport(
        profile=profile,
        recommended=advice.recommended,
        reason=advice.reason,
        kv_cache=advised.kv_cache,
        settings=tuple(settings),
    )
