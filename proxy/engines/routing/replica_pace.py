"""The pace of one replica as the gateway's own calls show it, with or without a metrics page."""

from collections import deque
from collections.abc import Iterable
from typing import Final, NamedTuple

#: Calls whose median is a replica's pace, the least of them, and the seconds for which they count:
#: a prompt that was cold against expectation says nothing, and one that recovered is seen to.
_MAX_CALLS: Final = 8
_MIN_CALLS: Final = 4
_WINDOW_S: Final = 30.0
#: Seconds that a call takes to begin where nothing has to be read.
LEAST_TTFT_S: Final = 0.05
#: Weight of the newest call in the mean time that a call runs.
_RUN_WEIGHT: Final = 0.1


class FleetPace(NamedTuple):
    """The pace of most replicas.

    Attributes:
        ratio: Observed over predicted seconds to the first token, the median.
        run_s: Seconds that a call runs after its first token, the mean; 0 where unknown.
    """

    ratio: float
    run_s: float


class ReplicaPace:
    """Observed over predicted seconds to the first token, and the seconds that calls run after it.

    Attributes:
        run_s: Mean seconds from the first token to the end; 0 until one has ended.
    """

    def __init__(self) -> None:
        self.run_s = 0.0
        self._calls: deque[tuple[float, float]] = deque(maxlen=_MAX_CALLS)
        self._ratio = 1.0

    def note_first_token(self, observed_s: float, predicted_s: float, now: float) -> None:
        """Note a call's seconds to its first token beside what was predicted."""
        self._calls.append((now, (observed_s + LEAST_TTFT_S) / (predicted_s + LEAST_TTFT_S)))
        self._forget_old(now)
        self._ratio = self._median()

    def note_run(self, run_s: float) -> None:
        """Note the seconds that a call ran after its first token."""
        self.run_s += (_RUN_WEIGHT if self.run_s else 1.0) * (run_s - self.run_s)

    def ratio(self, now: float) -> float:
        """The median of observed over predicted seconds of late; 1 where too little was seen."""
        if self._forget_old(now):
            self._ratio = self._median()
        return self._ratio if len(self._calls) >= _MIN_CALLS else 1.0

    def _forget_old(self, now: float) -> bool:
        """Forget the calls that no longer count; True if there were any."""
        calls, count = self._calls, len(self._calls)
        while calls and calls[0][0] < now - _WINDOW_S:
            calls.popleft()
        return len(calls) < count

    def _median(self) -> float:
        ratios = sorted([ratio for _, ratio in self._calls])
        return ratios[(len(ratios) - 1) // 2] if ratios else 1.0


def fleet_pace(paces: Iterable[ReplicaPace], now: float) -> FleetPace:
    """The pace of most of these replicas; 1 for none."""
    paces = list(paces)
    runs = [pace.run_s for pace in paces if pace.run_s]
    ratios = sorted([pace.ratio(now) for pace in paces])
    ratio = ratios[(len(ratios) - 1) // 2] if ratios else 1.0
    return FleetPace(ratio, sum(runs) / len(runs) if runs else 0.0)
