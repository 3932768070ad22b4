"""Output lengths learned by kind of call; kinds used least recently are forgotten."""

from collections import OrderedDict
from collections.abc import Hashable
from math import ceil

from slo.budgets.counter import MAX_AMOUNT
from slo.budgets.reservation_sizing import MIN_LENGTH_SAMPLES, OutputBounds, output_bounds
from slo.quantile_sketch import QuantileSketch

#: Lengths of one kind after which those before count half, so that what is learned stays new.
_MAX_SAMPLES = 4096
#: Lengths after which quantiles are worked out anew.
_REFRESH_EVERY_SAMPLES = 16


class _LearnedLengths:
    """The lengths of one kind, and what they said when last asked."""

    __slots__ = ("added", "bounds", "since", "spread")

    def __init__(self) -> None:
        self.spread = QuantileSketch()
        self.added = 0
        self.since = 0
        self.bounds: OutputBounds | None = None

    def add(self, length: int) -> None:
        self.spread.add(length)
        self.added += 1
        self.since += 1
        if self.added >= _MAX_SAMPLES:
            halves = {key: times // 2 for key, times in self.spread.counts.items() if times > 1}
            self.spread = QuantileSketch(halves)
            self.added = self.spread.total_count

    def output_bounds(self) -> OutputBounds:
        is_young = self.added < 4 * _REFRESH_EVERY_SAMPLES
        if self.bounds is None or self.since >= (1 if is_young else _REFRESH_EVERY_SAMPLES):
            self.bounds, self.since = output_bounds(self.spread, MAX_AMOUNT), 0
        return self.bounds


class OutputLengthModel:
    """The output lengths of each kind of call."""

    def __init__(self, max_kinds: int = 2048) -> None:
        self._most = max_kinds
        self._kinds: OrderedDict[Hashable, _LearnedLengths] = OrderedDict()

    def add(self, kind: Hashable, length: int) -> int:
        """Note that a call of this kind generated so many tokens; the number of such calls."""
        kinds = self._kinds
        learned = kinds.get(kind)
        if learned is None:
            learned = kinds[kind] = _LearnedLengths()
            if len(kinds) > self._most:
                kinds.popitem(last=False)
        else:
            kinds.move_to_end(kind)
        learned.add(length)
        return learned.added

    def output_bounds(self, kind: Hashable, limit: int) -> OutputBounds:
        """The bounds of a call's output tokens by its kind; a guess where little is learned.

        Args:
            kind: Whatever calls of like length have in common.
            limit: The most that may be generated.
        """
        return self.known_output_bounds(kind, limit) or output_bounds(None, limit)

    def known_output_bounds(self, kind: Hashable, limit: int) -> OutputBounds | None:
        """The same; None where little is learned."""
        learned = self._kinds.get(kind)
        if learned is None or learned.added < MIN_LENGTH_SAMPLES:
            return None
        bounds = learned.output_bounds()
        return OutputBounds(
            typical=min(bounds.typical, limit), likely=min(bounds.likely, limit), worst=limit
        )

    def quantile(self, kind: Hashable, part: float) -> int | None:
        """The quantile of output tokens of a kind of call; None where little is learned."""
        if not self.is_learned(kind):
            return None
        return ceil(self._kinds[kind].spread.quantile(part))

    def is_learned(self, kind: Hashable) -> bool:
        """True if enough is learned of a kind to say how long its answers are."""
        learned = self._kinds.get(kind)
        return learned is not None and learned.added >= MIN_LENGTH_SAMPLES
