"""Watches the replicas of engines: their load, their caches, whether they answer.

::

    supervisor's state file ─┐
                             ├─ each second ─► ReplicaStatus ─► routing, metrics, commands
    metrics page of each ────┘

A page that hangs, is missing or says less than it should never makes a replica unhealthy: the
status says what is not known. Nothing but a refused connection and the supervisor's word do that.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, Protocol

from proxy.catalog.engine_layer import replica_upstream
from proxy.engines.adapters.adapter import EngineAdapter
from proxy.engines.adapters.by_engine import ADAPTERS
from proxy.engines.metrics.metrics_page import (
    EngineMetrics,
    EngineProperties,
    parse_engine_properties,
    parse_metrics_page,
)
from proxy.engines.profiles import EngineProfile
from proxy.engines.state.replica_report import ProcessState, ReplicaReport
from proxy.engines.state.state_file import EngineState

INTERVAL_S: Final = 1.0
#: Seconds that a page may take; a page that takes longer is as good as none.
DEADLINE_S: Final = 1.0
#: Pages from this size on are parsed on a thread.
_MIN_THREADED_CHARS: Final = 32 * 1024
#: Readings whose quickest is taken for the round trip.
_MAX_ROUND_TRIPS: Final = 30
#: Weight of the newest prefill rate, and the seconds of prefill that one is worked out from.
_RATE_WEIGHT: Final = 0.3
_MIN_PREFILL_S: Final = 0.02


class PageFetcher(Protocol):
    """Sends a GET and returns the body, which is bounded."""

    async def __call__(self, url: str, key_env: str = "") -> bytes:
        """The body.

        Args:
            url: Address of the page.
            key_env: Variable that holds the engine's key; "" for none.

        Raises:
            ConnectionRefusedError: Nobody listens there.
            OSError: There is no good answer, for a reason that its text says.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaStatus:
    """A replica as it is now, as far as the gateway knows.

    Attributes:
        name: Name of its upstream, such as ``house-llm:0``.
        base_url: Where it answers; it may change with a rolling change.
        is_healthy: False if no call may go there.
        process: The supervisor's word; None without a supervisor.
        reason: Reason that it is unhealthy, or what is not known of it; "" if all is well.
        metrics: The latest reading; None before the first good one.
        read_at: When that was read, by the monotonic clock.
        answered_at: When its page last told its load, as only an engine's does; None for not yet.
        cache_tokens: Room of its prefix cache; None where unknown.
        prefill_tokens_per_s: As measured; 0 where unknown.
        slots: Calls that it runs at once; 0 where unknown.
        round_trip_s: The quickest answer of late, in seconds.
        starts: Starts that were noticed; a higher number means an empty cache.
    """

    name: str
    profile: str
    model: str
    base_url: str
    is_healthy: bool = True
    process: ProcessState | None = None
    reason: str = ""
    metrics: EngineMetrics | None = None
    read_at: float = 0.0
    answered_at: float | None = None
    cache_tokens: int | None = None
    prefill_tokens_per_s: float = 0.0
    slots: int = 0
    round_trip_s: float = 0.0
    starts: int = 0


@dataclass(slots=True)
class _Replica:
    """A replica that is watched."""

    adapter: EngineAdapter
    status: ReplicaStatus
    key_env: str = ""
    round_trips: deque[float] = field(default_factory=lambda: deque(maxlen=_MAX_ROUND_TRIPS))
    pid: int = 0


class ReplicaMonitor:
    """Keeps the status of every replica of some profiles.

    Args:
        fetch: Fetches pages.
        read_states: Reads the supervisors' state files; called on a thread.
    """

    def __init__(
        self,
        profiles: Mapping[str, EngineProfile],
        fetch: PageFetcher,
        read_states: Callable[[], Sequence[EngineState]],
        ticks: Callable[[], float],
    ) -> None:
        self._fetch = fetch
        self._read_states = read_states
        self._ticks = ticks
        self._profiles: Mapping[str, EngineProfile] = {}
        self._replicas: dict[str, _Replica] = {}
        self._listeners: list[Callable[[ReplicaStatus], None]] = []
        self.update(profiles)

    @property
    def profiles(self) -> Mapping[str, EngineProfile]:
        """The profiles that are watched, by name."""
        return self._profiles

    def update(self, profiles: Mapping[str, EngineProfile]) -> None:
        """Watch the replicas of these profiles from now on; what is known of them stays."""
        replicas: dict[str, _Replica] = {}
        for profile in profiles.values():
            adapter = ADAPTERS[profile.engine]
            for number in range(profile.replica_count):
                name = replica_upstream(profile.name, number)
                status = ReplicaStatus(
                    name=name,
                    profile=profile.name,
                    model=profile.served_name,
                    base_url=adapter.urls(profile, number).base_url,
                    slots=profile.max_sequences,
                )
                watched = self._replicas.get(name)
                is_same = watched is not None and self._profiles.get(profile.name) == profile
                replicas[name] = (
                    watched
                    if watched is not None and is_same
                    else _Replica(adapter, status, profile.key_env)
                )
        self._profiles, self._replicas = profiles, replicas

    def listen(self, listener: Callable[[ReplicaStatus], None]) -> None:
        """Hand each replica's status with a new reading of its metrics to this function, too."""
        self._listeners.append(listener)

    def status(self, name: str) -> ReplicaStatus | None:
        """The status of a replica; None if it is not watched."""
        replica = self._replicas.get(name)
        return None if replica is None else replica.status

    def statuses(self) -> list[ReplicaStatus]:
        """The status of each replica."""
        return [replica.status for replica in self._replicas.values()]

    async def run(self) -> None:
        """Read all of it each second, until cancelled."""
        while True:
            began = self._ticks()
            await self.read_all()
            await asyncio.sleep(max(0.1, began + INTERVAL_S - self._ticks()))

    async def read_all(self) -> None:
        """Read the supervisors' states and every metrics page once."""
        if not self._replicas:
            return
        if any(not profile.is_attached for profile in self._profiles.values()):
            self._note_states(await asyncio.to_thread(self._read_states))
        await asyncio.gather(*map(self._read, list(self._replicas.values())))

    def _note_states(self, states: Sequence[EngineState]) -> None:
        running = {state.profile: state.replicas for state in states if state.is_running}
        for profile in self._profiles.values():
            if profile.is_attached:
                continue
            reports = reports_by_replica(profile, running.get(profile.name, ()))
            for number, report in enumerate(reports):
                _note_process(self._replicas[replica_upstream(profile.name, number)], report)

    async def _read(self, replica: _Replica) -> None:
        """One replica's metrics page."""
        before = replica.status
        origin, key_env = before.base_url.removesuffix("/v1"), replica.key_env
        began = self._ticks()
        try:
            async with asyncio.timeout(DEADLINE_S):
                body = await self._fetch(origin + replica.adapter.metrics_path, key_env)
                took = self._ticks() - began
                metrics = await _parse(body, replica.adapter)
                properties = EngineProperties(
                    metrics.cache_tokens or before.cache_tokens, before.slots
                )
                if properties.cache_tokens is None and replica.adapter.properties_path:
                    url = origin + replica.adapter.properties_path
                    properties = await self._read_properties(url, key_env) or properties
        except ConnectionRefusedError:
            self._note_refused(replica)
        except TimeoutError:
            self._note_unread(replica, f"its metrics did not come within {DEADLINE_S:g} s")
        except (OSError, ValueError) as error:
            self._note_unread(replica, f"its metrics cannot be read: {error}")
        else:
            replica.round_trips.append(took)
            replica.status = replace(replica.status, slots=properties.slots)
            self._note_metrics(replica, replace(metrics, cache_tokens=properties.cache_tokens))

    async def _read_properties(self, url: str, key_env: str) -> EngineProperties | None:
        try:
            return parse_engine_properties(await self._fetch(url, key_env))
        except OSError:
            return None

    def _note_refused(self, replica: _Replica) -> None:
        """Mark a replica whose address refuses connections as unhealthy."""
        status = replica.status
        if status.process in (None, ProcessState.READY):
            why = "its address refuses connections"
            replica.status = replace(status, is_healthy=False, reason=why, answered_at=None)

    def _note_unread(self, replica: _Replica, why: str) -> None:
        status = replica.status
        is_healthy = status.process in (None, ProcessState.READY)
        if is_healthy:
            replica.status = replace(status, is_healthy=True, reason=why)

    def _note_metrics(self, replica: _Replica, metrics: EngineMetrics) -> None:
        before = replica.status
        if before.process not in (None, ProcessState.READY):
            return
        is_restarted = before.metrics is not None and _has_restarted(before.metrics, metrics)
        replica.status = replace(
            before,
            is_healthy=True,
            reason=metrics.shortcoming,
            metrics=metrics,
            read_at=(now := self._ticks()),
            answered_at=before.answered_at if metrics.value("running") is None else now,
            cache_tokens=metrics.cache_tokens,
            prefill_tokens_per_s=_prefill_rate(replica, metrics),
            round_trip_s=min(replica.round_trips),
            starts=before.starts + is_restarted,
        )
        for listener in self._listeners:
            listener(replica.status)


def reports_by_replica(
    profile: EngineProfile, reports: Sequence[ReplicaReport]
) -> list[ReplicaReport | None]:
    """The supervisor's report of each replica; None where it has none.

    A rolling change moves replicas to other ports. One that is ready goes before one that is not.
    """
    by_port = {report.name: report for report in reports}
    by_replica = [by_port.pop(str(port), None) for port in profile.ports]
    spare = [report for report in by_port.values() if report.state is ProcessState.READY]
    for number, report in enumerate(by_replica):
        if spare and (report is None or report.state is not ProcessState.READY):
            by_replica[number] = spare.pop(0)
    return by_replica


def _note_process(replica: _Replica, report: ReplicaReport | None) -> None:
    """Take over what the supervisor says of a replica; where it says nothing, others may run it."""
    status = replica.status
    if report is None:
        replica.status = replace(status, process=None)
        return
    is_ready = report.state is ProcessState.READY
    state = report.state.value.replace("_", " ")
    why = "" if is_ready else f"{state}: {report.reason}" if report.reason else state
    is_new = bool(replica.pid and report.pid and report.pid != replica.pid)
    replica.pid = report.pid or replica.pid
    replica.status = replace(
        status,
        base_url=report.base_url,
        process=report.state,
        is_healthy=is_ready and (status.is_healthy or status.process is not ProcessState.READY),
        reason=why or (status.reason if status.process is ProcessState.READY else ""),
        starts=status.starts + is_new,
        metrics=None if is_new else status.metrics,
    )


async def _parse(body: bytes, adapter: EngineAdapter) -> EngineMetrics:
    text = body.decode(errors="replace")
    if len(text) < _MIN_THREADED_CHARS:
        return parse_metrics_page(text, adapter)
    return await asyncio.to_thread(parse_metrics_page, text, adapter)


def _has_restarted(before: EngineMetrics, now: EngineMetrics) -> bool:
    """True if a counter fell."""
    names = ("prompt_tokens", "generation_tokens")
    return any(now.values.get(name, 0.0) < before.values.get(name, 0.0) for name in names)


def _prefill_rate(replica: _Replica, now: EngineMetrics) -> float:
    """Tokens that were computed per second of prefill since the reading before, smoothed."""
    status = replica.status
    if status.metrics is None:
        return status.prefill_tokens_per_s
    tokens_before, seconds_before = _prefill_totals(status.metrics, replica.adapter)
    tokens, seconds = _prefill_totals(now, replica.adapter)
    if seconds - seconds_before < _MIN_PREFILL_S or tokens <= tokens_before:
        return status.prefill_tokens_per_s
    rate = (tokens - tokens_before) / (seconds - seconds_before)
    usual = status.prefill_tokens_per_s or rate
    return usual + _RATE_WEIGHT * (rate - usual)


def _prefill_totals(metrics: EngineMetrics, adapter: EngineAdapter) -> tuple[float, float]:
    """Prompt tokens computed so far, and the seconds that they took."""
    tokens = metrics.values.get("prompt_tokens", 0.0)
    if not adapter.prompt_tokens_exclude_cached:
        tokens -= metrics.values.get("cached_prompt_tokens", 0.0)
    histogram = metrics.histograms.get("prefill_seconds")
    seconds = histogram[0] if histogram else metrics.values.get("prefill_seconds_total", 0.0)
    return tokens, seconds
