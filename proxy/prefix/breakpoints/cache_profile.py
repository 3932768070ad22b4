"""Upper bounds on what later calls can save, from each place of a prompt on."""

from bisect import bisect_left
from collections.abc import Sequence

import msgspec


class LaterCalls(msgspec.Struct, frozen=True):
    """Later calls that share the same prefix.

    Attributes:
        upto: The last block shared.
        worth: What it saves, by rank, that a token can be read for so long and no longer.
    """

    upto: int
    worth: tuple[float, ...]


class SavingsOutlook:
    """Sums over later calls, by how far they share the prompt.

    Attributes:
        ends: Where what is shared ends, in order.
    """

    def __init__(
        self, tokens: Sequence[int], kinds: Sequence[LaterCalls], fees: Sequence[float]
    ) -> None:
        ranks = range(len(fees))
        self.ends = sorted({kind.upto for kind in kinds})
        self._tokens = tokens
        self._all = self._sums(kinds, ranks)
        self._density = [[_best(sums, fees, rank) for sums in self._all] for rank in ranks]
        self._paid = [self._beyond(density) for density in self._density]
        self._sum = [sum(sums) for sums in self._all]
        self._free = self._beyond(self._sum)

    def token_worths(self, block: int) -> tuple[float, ...]:
        """By rank, what a token is worth to all kinds that share a block."""
        return self._all[bisect_left(self.ends, block)]

    def savings_bound(self, block: int, rank: int) -> float:
        """Upper bound on what marks of at most this rank save beyond a block, fees taken off."""
        return self._rest(block, self._density[rank], self._paid[rank])

    def savings_bound_without_fees(self, block: int) -> float:
        """Upper bound on savings beyond a block if writing cost nothing extra."""
        return self._rest(block, self._sum, self._free)

    def _sums(self, kinds: Sequence[LaterCalls], ranks: range) -> list[tuple[float, ...]]:
        """By place and rank, what a token is worth to the kinds that share it."""
        return [
            *(
                tuple(sum(kind.worth[rank] for kind in kinds if kind.upto >= end) for rank in ranks)
                for end in self.ends
            ),
            (0.0,) * len(ranks),
        ]

    def _beyond(self, density: Sequence[float]) -> list[float]:
        """By place, the sum over all tokens beyond its end."""
        tokens = self._tokens
        sums = [0.0]
        for at in range(len(self.ends) - 1, 0, -1):
            size = tokens[self.ends[at]] - tokens[self.ends[at - 1]]
            sums.append(sums[-1] + density[at] * size)
        return sums[::-1]

    def _rest(self, block: int, density: Sequence[float], beyond: Sequence[float]) -> float:
        at = bisect_left(self.ends, block)
        if at == len(self.ends):
            return 0.0
        return density[at] * (self._tokens[self.ends[at]] - self._tokens[block]) + beyond[at]


def _best(sums: Sequence[float], fees: Sequence[float], rank: int) -> float:
    """What a written token saves at the best lifetime up to a rank; 0 where none pays."""
    best = worth = 0.0
    for each in range(rank + 1):
        worth += sums[each]
        best = max(best, worth - fees[each])
    return best
