"""The pace of one replica as the gateway's own calls show it, with or without a metrics page."""

from collections.abc import Iterable
from typing import Final, NamedTuple

#: Seconds after which an observation weighs half, so that a replica that recovered is seen to.
_HALF_LIFE_S: Final = 30.0
#: Predicted seconds that weigh as much as no observation.
_PRIOR_S: Final = 0.5
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
        self._observed_s = 0.0
        self._predicted_s = 0.0
        self._faded_at = 0.0

    def note_first_token(self, observed_s: float, predicted_s: float, now: float) -> None:
        """Note a call's seconds to its first token beside what was predicted."""
        self._fade(now)
        self._observed_s += observed_s + LEAST_TTFT_S
        self._predicted_s += predicted_s + LEAST_TTFT_S

    def note_run(self, run_s: float) -> None:
        """Note the seconds that a call ran after its first token."""
        self.run_s += (_RUN_WEIGHT if self.run_s else 1.0) * (run_s - self.run_s)

    def ratio(self, now: float) -> float:
        """Observed over predicted seconds of late; near 1 where little was seen."""
        if not self._predicted_s:
            return 1.0
        self._fade(now)
        return (self._observed_s + _PRIOR_S) / (self._predicted_s + _PRIOR_S)

    def _fade(self, now: float) -> None:
        """Let older observations weigh less."""
        if now > self._faded_at:
            share = 0.5 ** ((now - self._faded_at) / _HALF_LIFE_S)
            self._observed_s *= share
            self._predicted_s *= share
            self._faded_at = now


def fleet_pace(paces: Iterable[ReplicaPace], now: float) -> FleetPace:
    """The pace of most of these replicas; 1 for none."""
    paces = list(paces)
    runs = [pace.run_s for pace in paces if pace.run_s]
    ratios = sorted([pace.ratio(now) for pace in paces])
    ratio = ratios[(len(ratios) - 1) // 2] if ratios else 1.0
    return FleetPace(ratio, sum(runs) / len(runs) if runs else 0.0)
