"""Metric series for the labels with most calls, and one series for all others; pure.

Labels that callers choose freely have no bound. So only ``most`` series are kept apart, the first
that come; all other calls count in ``other``. Labels that pass twice the calls of the least used
series take its place: they begin at 0, as their calls until then stay counted in ``other``, and
the replaced series ends. Nothing ever falls, so that rates hold whatever is replaced.
"""

from collections import OrderedDict
from collections.abc import Callable, Iterator
from typing import Final, Generic, TypeVar

#: Labels without a series whose calls are counted, for each series.
_WAITING: Final = 8
#: Multiple of the least used series' calls at which it is replaced.
_REPLACED_AT: Final = 2

Labels = tuple[str, ...]
S = TypeVar("S")


class TopSeries(Generic[S]):
    """The series of one kind.

    Args:
        begin: Makes a series that has counted nothing.
        max_series: Series that are kept apart.

    Attributes:
        other: The series of all labels that have none of their own.
    """

    def __init__(self, begin: Callable[[], S], max_series: int) -> None:
        self._begin = begin
        self._most = max_series
        self._series: dict[Labels, S] = {}
        self._calls: dict[Labels, int] = {}
        self._waiting: OrderedDict[Labels, int] = OrderedDict()
        self._least = 0
        self.other = begin()
        self.has_other = False

    def series_of(self, labels: Labels) -> S:
        """The series in which the next call with these labels counts."""
        series = self._series.get(labels)
        if series is not None:
            self._calls[labels] += 1
            return series
        calls = self._waiting.pop(labels, 0) + 1
        if len(self._series) < self._most or self._is_replaced(calls):
            self._calls[labels] = calls
            self._series[labels] = new_series = self._begin()
            return new_series
        self._waiting[labels] = calls
        if len(self._waiting) > _WAITING * self._most:
            self._waiting.popitem(last=False)
        self.has_other = True
        return self.other

    def items(self) -> Iterator[tuple[Labels, S]]:
        """The labels that have a series, each with it."""
        yield from self._series.items()

    def _is_replaced(self, calls: int) -> bool:
        """True if so many calls take the place of the least used series, which ends then."""
        if calls <= _REPLACED_AT * self._least:
            return False
        least = min(self._calls, key=self._calls.__getitem__)
        self._least = self._calls[least]
        if calls <= _REPLACED_AT * self._least:
            return False
        del self._series[least]
        self._waiting[least] = self._calls.pop(least)
        return True
