"""True if what was predicted of calls came true: the share within the ceiling, and the errors."""

from typing import Final

from slo.quantile_sketch import QuantileSketch

#: Errors after which those before count half, so that they are those of late.
_MAX_SAMPLES: Final = 4096


class PredictionAccuracy:
    """The outcomes of the calls under one ceiling.

    Attributes:
        calls: How many were settled.
        within: How many of them cost no more than the ceiling.
        unpriced: How many have no known cost; they are none of the calls.
    """

    __slots__ = ("_errors", "_noted", "calls", "unpriced", "within")

    def __init__(self) -> None:
        self.calls = 0
        self.within = 0
        self.unpriced = 0
        self._errors = QuantileSketch()
        self._noted = 0

    def record(self, settled: int | None, predicted: int | None, limit: int) -> None:
        """Note what a call cost.

        Args:
            settled: In nano-dollars; None where nobody knows.
            predicted: What it was likely to cost; None where nobody knew.
            limit: The ceiling.
        """
        if settled is None:
            self.unpriced += 1
            return
        self.calls += 1
        self.within += settled <= limit
        if predicted:
            self._add(settled / predicted)

    @property
    def share_within_limit(self) -> float | None:
        """The part of the calls that cost no more than the ceiling; None of none."""
        return self.within / self.calls if self.calls else None

    def error_quantile(self, part: float) -> float | None:
        """Settled cost over predicted, as this part of late calls stays at or below.

        At 0.95 it is about 1 where predictions are honest; None where there are none.
        """
        return self._errors.quantile(part) if self._noted else None

    def _add(self, error: float) -> None:
        self._errors.add(error)
        self._noted += 1
        if self._noted >= _MAX_SAMPLES:
            halves = {key: times // 2 for key, times in self._errors.counts.items() if times > 1}
            self._errors = QuantileSketch(halves)
            self._noted = self._errors.total_count
