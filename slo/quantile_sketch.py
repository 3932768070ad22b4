"""A quantile sketch: every quantile to within 2 percent of itself, in few numbers.

Values are counted in buckets, each a factor wider than the one before, so spreads of several
processes merge by adding bucket to bucket, in Redis as much as here. Source: Masson, Rim and Lee,
DDSketch (VLDB 2019), whose bounds these are.
"""

from collections.abc import Mapping
from math import ceil, isnan, log

#: Largest error of an estimate, as a part of the true value.
RELATIVE_ERROR = 0.02
_GROWTH = (1 + RELATIVE_ERROR) / (1 - RELATIVE_ERROR)
_SCALE = 1 / log(_GROWTH)
_MIDDLE = 2 / (_GROWTH + 1)
#: Values up to the least count as 0, values from the most on as the most.
LEAST, MOST = 1e-6, 1e16
_LOWEST = ceil(log(LEAST) * _SCALE) - 1
_HIGHEST = ceil(log(MOST) * _SCALE)
#: Of each bucket the value that is as near, in proportion, to its lower end as to its upper.
_VALUES = {key: min(_MIDDLE * _GROWTH**key, MOST) for key in range(_LOWEST, _HIGHEST + 1)}
_VALUES[_LOWEST] = 0.0


def bucket(value: float) -> int:
    """The bucket a value of 0 or more is counted in; one of about 1,270.

    Raises:
        ValueError: If it is not a number.
    """
    if LEAST < value < MOST:
        return ceil(log(value) * _SCALE)
    if isnan(value):
        raise ValueError("cannot be counted: not a number")
    return _LOWEST if value <= LEAST else _HIGHEST


class QuantileSketch:
    """The number of values in each bucket."""

    __slots__ = ("counts",)

    def __init__(self, counts: Mapping[int, int] | None = None) -> None:
        """Start from these counts, or from none.

        Args:
            counts: Number of values in each bucket, as another spread's ``counts``.
        """
        self.counts: dict[int, int] = dict(counts or {})

    def add(self, value: float) -> None:
        """Count a value of 0 or more.

        Raises:
            ValueError: If it is not a number.
        """
        counts = self.counts
        key = ceil(log(value) * _SCALE) if LEAST < value < MOST else bucket(value)
        counts[key] = counts.get(key, 0) + 1

    @property
    def total_count(self) -> int:
        """The number of values."""
        return sum(self.counts.values())

    def mean(self) -> float:
        """The mean, to within ``RELATIVE_ERROR`` of itself; 0.0 of nothing."""
        total = sum(_VALUES[key] * times for key, times in self.counts.items())
        return total / max(self.total_count, 1)

    def quantile(self, part: float) -> float:
        """The value this part of the values stays at or below, to within ``RELATIVE_ERROR``.

        It is an estimate of ``sorted(values)[floor(part * (count - 1))]``; 0.0 of nothing.

        Args:
            part: 0 to 1, such as 0.95.

        Raises:
            ValueError: If the part is another.
        """
        if not 0 <= part <= 1:
            raise ValueError(f"a part is 0 to 1, not {part}")
        rank = part * (self.total_count - 1)
        passed = 0
        for key in sorted(self.counts):
            passed += self.counts[key]
            if passed > rank:
                return _VALUES[key]
        return 0.0
