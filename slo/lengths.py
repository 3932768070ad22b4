"""How long answers are, learned of each kind of call; kinds used least recently are forgotten."""

from collections import OrderedDict
from collections.abc import Hashable
from math import ceil

from slo.hold import FEW, Output, output
from slo.reservations import MOST
from slo.spread import Spread

#: Lengths of one kind after which those before count half, so that what is learned stays new.
_MANY = 4096
#: Lengths after which quantiles are worked out anew.
_EVERY = 16


class _Learned:
    """The lengths of one kind, and what they said when last asked."""

    __slots__ = ("added", "said", "since", "spread")

    def __init__(self) -> None:
        self.spread = Spread()
        self.added = 0
        self.since = 0
        self.said: Output | None = None

    def add(self, length: int) -> None:
        self.spread.add(length)
        self.added += 1
        self.since += 1
        if self.added >= _MANY:
            halves = {key: times // 2 for key, times in self.spread.counts.items() if times > 1}
            self.spread = Spread(halves)
            self.added = self.spread.count

    def output(self) -> Output:
        is_young = self.added < 4 * _EVERY
        if self.said is None or self.since >= (1 if is_young else _EVERY):
            self.said, self.since = output(self.spread, MOST), 0
        return self.said


class Lengths:
    """What is learned of each kind of call.

    Args:
        most: How many kinds are remembered.
    """

    def __init__(self, most: int = 2048) -> None:
        self._most = most
        self._kinds: OrderedDict[Hashable, _Learned] = OrderedDict()

    def add(self, kind: Hashable, length: int) -> None:
        """Note that a call of this kind generated so many tokens."""
        learned = self._kinds.get(kind)
        if learned is None:
            learned = self._kinds[kind] = _Learned()
            if len(self._kinds) > self._most:
                self._kinds.popitem(last=False)
        else:
            self._kinds.move_to_end(kind)
        learned.add(length)

    def output(self, kind: Hashable, limit: int) -> Output:
        """What a call of this kind may generate; a guess where little is learned.

        Args:
            kind: Whatever calls of like length have in common.
            limit: The most that may be generated.
        """
        return self.known_output(kind, limit) or output(None, limit)

    def known_output(self, kind: Hashable, limit: int) -> Output | None:
        """The same; None where little is learned."""
        learned = self._kinds.get(kind)
        if learned is None or learned.added < FEW:
            return None
        said = learned.output()
        return Output(typical=min(said.typical, limit), likely=min(said.likely, limit), worst=limit)

    def quantile(self, kind: Hashable, part: float) -> int | None:
        """What this part of the calls of a kind generates at most; None where little is learned."""
        if not self.knows(kind):
            return None
        return ceil(self._kinds[kind].spread.quantile(part))

    def knows(self, kind: Hashable) -> bool:
        """True if enough is learned of a kind to say how long its answers are."""
        learned = self._kinds.get(kind)
        return learned is not None and learned.added >= FEW
