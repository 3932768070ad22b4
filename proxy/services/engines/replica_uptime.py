"""The times that replicas run, as this gateway sees them: what is paid of a replica by the hour.

===============================  ==============================================================
Replica                          Runs
===============================  ==============================================================
under a supervisor               while it starts, is ready or drains
watched, without a supervisor    from the first page of metrics that tells its load to the last,
                                 unless its address refuses connections in between
not watched, or without          for a quarter of an hour from each call that it serves
such a page
===============================  ==============================================================
"""

from collections import deque
from collections.abc import Callable, Sequence
from typing import Final

from proxy.calls.metering.replica_costs import ReplicaCosts
from proxy.engines.state.replica_report import ProcessState
from proxy.services.engines.replica_monitor import ReplicaStatus
from proxy.store.sql.ledger.engine_usage import ReplicaRun

RUNNING_STATES: Final = frozenset(
    {ProcessState.STARTING, ProcessState.READY, ProcessState.DRAINING}
)
#: Seconds between two answers in which a watched replica is taken to run: a busy one may be slow.
MAX_SILENCE_S: Final = 60.0
#: Seconds that a replica which is not watched is taken to run after a call.
RUN_AFTER_CALL_S: Final = 900.0
#: Runs that ended and are not in the database yet; the oldest go first.
_MAX_ENDED_RUNS: Final = 10_000


class ReplicaUptime:
    """Keeps the runs of replicas that are paid by the hour, until they are stored.

    Args:
        costs: Knows the replicas, and is told which run.
        status: The status of a replica by its name; None for one that is not watched.
    """

    def __init__(self, costs: ReplicaCosts, status: Callable[[str], ReplicaStatus | None]) -> None:
        self._costs = costs
        self._status = status
        self._runs: dict[str, ReplicaRun] = {}
        self._ended: deque[ReplicaRun] = deque(maxlen=_MAX_ENDED_RUNS)

    def note(self, now: float, ticks: float) -> None:
        """Note which replicas run at this moment.

        Args:
            now: Seconds since the epoch.
            ticks: The same moment by the clock that goes forward.
        """
        names = self._costs.names()
        for name in names:
            seen_at = self._seen_at(name, ticks)
            if seen_at is None:
                self._end(name)
            else:
                self._extend(name, now - (ticks - seen_at))
            self._costs.set_running(name, is_running=seen_at is not None, now=ticks)
        for name in self._runs.keys() - set(names):
            self._end(name)

    def runs(self) -> list[ReplicaRun]:
        """All that is not stored as it is now: runs that ended, and those under way."""
        return [*self._ended, *(run for run in self._runs.values() if run.ended > run.began)]

    def forget(self, stored: Sequence[ReplicaRun]) -> None:
        """Forget those of these runs that ended."""
        done = frozenset(stored)
        self._ended = deque((run for run in self._ended if run not in done), _MAX_ENDED_RUNS)

    def _seen_at(self, name: str, ticks: float) -> float | None:
        """The tick at which a replica was last seen to run; None if it does not run."""
        status = self._status(name)
        if status is not None and status.process is not None:
            return ticks if status.process in RUNNING_STATES else None
        if status is not None and not status.is_healthy:
            return None
        if status is not None and status.answered_at is not None:
            return status.answered_at if ticks - status.answered_at <= MAX_SILENCE_S else None
        served_at = self._costs.served_at(name)
        if served_at is None or ticks - served_at > RUN_AFTER_CALL_S:
            return None
        return ticks

    def _extend(self, name: str, seen_at: float) -> None:
        run = self._runs.get(name) or ReplicaRun(name, seen_at, seen_at)
        self._runs[name] = run._replace(ended=max(run.ended, seen_at))

    def _end(self, name: str) -> None:
        run = self._runs.pop(name, None)
        if run is not None and run.ended > run.began:
            self._ended.append(run)
