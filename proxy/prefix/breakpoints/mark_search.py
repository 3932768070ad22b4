"""Searches the most profitable set of marks: the most promising one first, until none is left.

``SavingsOutlook`` bounds what later calls can save from each place of a prompt on; ``MarkSearch``
drops every set that cannot reach the best so far. Lifetimes are ranks, the shortest 0; blocks are
indices, -1 for "none".
"""

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from heapq import heappop, heappush
from typing import Final

import msgspec

#: Partial mark sets looked at before the best so far is taken; bounds what odd prompts cost.
_MAX_STEPS: Final = 2_000
#: Least advantage of a larger set, in tokens; below that the smaller set wins.
_MIN_GAIN_TOKENS: Final = 1e-6

_NEVER: Final = float("-inf")

_Chosen = tuple[tuple[int, int], ...]


class LaterCalls(msgspec.Struct, frozen=True):
    """Later calls that share the same prefix.

    Attributes:
        upto: The last block shared.
        worth: Savings, by rank, of a token that can be read for so long and no longer.
    """

    upto: int
    worth: tuple[float, ...]


class SavingsOutlook:
    """Sums over later calls, by how far they share the prompt.

    Attributes:
        ends: Ends of what is shared, in order.
    """

    def __init__(
        self, tokens: Sequence[int], kinds: Sequence[LaterCalls], fees: Sequence[float]
    ) -> None:
        ranks = range(len(fees))
        self.ends = sorted({kind.upto for kind in kinds})
        self._tokens = tokens
        self._all = self._worth_sums(kinds, ranks)
        self._density = [
            [_best_token_saving(sums, fees, rank) for sums in self._all] for rank in ranks
        ]
        self._paid = [self._sums_beyond(density) for density in self._density]
        self._sum = [sum(sums) for sums in self._all]
        self._free = self._sums_beyond(self._sum)

    def token_worths(self, block: int) -> tuple[float, ...]:
        """By rank, what a token is worth to all kinds that share a block."""
        return self._all[bisect_left(self.ends, block)]

    def savings_bound(self, block: int, rank: int) -> float:
        """Upper bound on what marks of at most this rank save beyond a block, fees taken off."""
        return self._sum_from(block, self._density[rank], self._paid[rank])

    def savings_bound_without_fees(self, block: int) -> float:
        """Upper bound on savings beyond a block if writing cost nothing extra."""
        return self._sum_from(block, self._sum, self._free)

    def _worth_sums(self, kinds: Sequence[LaterCalls], ranks: range) -> list[tuple[float, ...]]:
        """By place and rank, what a token is worth to the kinds that share it."""
        return [
            *(
                tuple(sum(kind.worth[rank] for kind in kinds if kind.upto >= end) for rank in ranks)
                for end in self.ends
            ),
            (0.0,) * len(ranks),
        ]

    def _sums_beyond(self, density: Sequence[float]) -> list[float]:
        """By place, the sum over all tokens beyond its end."""
        tokens = self._tokens
        sums = [0.0]
        for at in range(len(self.ends) - 1, 0, -1):
            size = tokens[self.ends[at]] - tokens[self.ends[at - 1]]
            sums.append(sums[-1] + density[at] * size)
        return sums[::-1]

    def _sum_from(self, block: int, density: Sequence[float], beyond: Sequence[float]) -> float:
        at = bisect_left(self.ends, block)
        if at == len(self.ends):
            return 0.0
        return density[at] * (self._tokens[self.ends[at]] - self._tokens[block]) + beyond[at]


def _best_token_saving(sums: Sequence[float], fees: Sequence[float], rank: int) -> float:
    """Tokens that a written token saves at the best lifetime up to a rank; 0 where none pays."""
    best = worth = 0.0
    for each in range(rank + 1):
        worth += sums[each]
        best = max(best, worth - fees[each])
    return best


class SearchProblem(msgspec.Struct, frozen=True, kw_only=True):
    """A call and its cache, in numbers.

    Attributes:
        tokens: Tokens up to the end of each block, and 0 for block -1.
        cached: Rank of the live entry at the end of a block.
        given: Rank of the caller's mark at a block.
        fees: Price of a token written over a fresh one, by rank.
        gain: Price of a token read below a fresh one.
        least: Tokens below which nothing is written.
        reach: Number of blocks searched backwards from a mark, its own included.
    """

    tokens: tuple[int, ...]
    cached: Mapping[int, int]
    given: Mapping[int, int]
    fees: tuple[float, ...]
    gain: float
    least: int
    reach: int

    def is_in_reach(self, mark: int, entry: int) -> bool:
        """True if a lookup from a mark comes past an entry."""
        return entry <= mark < entry + self.reach


class _Set:
    """A mark set from the front, in which marks up to a place are settled.

    Attributes:
        start: The next place to decide on.
        chosen: The marks added.
        found: The block that later calls read up to, by rank.
        front: The last block that is written, or live and marked.
        lowest: The lowest rank of all marks.
        own: The lowest rank of the marks added.
        hit: True if a mark finds what this call reads.
        value: Savings if no mark is added.
    """

    __slots__ = ("chosen", "found", "front", "hit", "lowest", "own", "start", "value")

    start: int
    chosen: _Chosen
    found: tuple[int, ...]
    front: int
    lowest: int
    own: int
    hit: bool
    value: float


class MarkSearch:
    """The best marks to add if this call reads up to the end of one block.

    Attributes:
        best: Block and rank of each mark to add.
        value: Savings by them, later calls included; as given to ``run`` if nothing saves more.
    """

    def __init__(self, board: SearchProblem, outlook: SavingsOutlook, hit: int) -> None:
        self.best: _Chosen = ()
        self.value = _NEVER
        self._board = board
        self._outlook = outlook
        self._hit = hit
        self._rank = board.cached.get(hit, -1)
        self._over = tuple(at for at in board.cached if at > hit)
        self._last_given = max(board.given, default=-1)
        self._places: list[int] = []
        self._seen: dict[tuple[object, ...], float] = {}

    def search(self, room: int, value: float) -> None:
        """Look for a set of at most ``room`` marks that saves more than ``value``."""
        self.value = value
        board = self._board
        if any(board.is_in_reach(mark, at) for mark in board.given for at in self._over):
            return
        root = self._empty_set()
        hope = self._savings_bound(root)
        if hope <= value + _MIN_GAIN_TOKENS:
            return
        self._places = self._candidate_blocks()
        self._keep_if_best(root)
        heap = [(-hope, 0, root)]
        looked = 0
        while heap and looked < _MAX_STEPS and -heap[0][0] > self.value + _MIN_GAIN_TOKENS:
            for each in self._larger_sets(heappop(heap)[2], room):
                looked += 1
                self._keep_if_best(each)
                if len(each.chosen) == room and self._is_past_given(each):
                    continue
                hope = self._savings_bound(each)
                if hope > self.value + _MIN_GAIN_TOKENS and self._is_new(each):
                    heappush(heap, (-hope, looked, each))

    def _is_new(self, each: _Set) -> bool:
        """True if no set that goes on in the same way was as good."""
        key = (each.start, len(each.chosen), each.found, each.lowest, each.own, each.hit)
        if self._seen.get(key, _NEVER) >= each.value:
            return False
        self._seen[key] = each.value
        return True

    def _empty_set(self) -> _Set:
        root = _Set()
        ranks = len(self._board.fees)
        root.start, root.chosen, root.front = 0, (), -1
        root.found = (-1,) * ranks
        root.lowest = root.own = ranks - 1
        root.hit = self._hit < 0
        root.value = self._board.gain * self._board.tokens[self._hit]
        return root

    def _keep_if_best(self, each: _Set) -> None:
        """Take the set as it is, if it is whole and the best so far."""
        if each.value > self.value + _MIN_GAIN_TOKENS and each.hit and self._is_past_given(each):
            self.best, self.value = each.chosen, each.value

    def _is_past_given(self, each: _Set) -> bool:
        last = self._places[each.start - 1] if each.start else -1
        return last >= self._last_given

    def _savings_bound(self, each: _Set) -> float:
        """The upper bound on what the set saves, whatever marks are added to it."""
        outlook, hit, front = self._outlook, self._hit, each.front
        paid = max(hit, self._last_given)
        hope = each.value
        if front >= paid:
            hope += outlook.savings_bound(front, each.lowest)
        else:
            hope += (
                outlook.savings_bound_without_fees(front)
                - outlook.savings_bound_without_fees(paid)
                + outlook.savings_bound(paid, each.lowest)
            )
        if hit >= 0:
            hope += self._longer_lifetime_bound(each)
        return hope

    def _longer_lifetime_bound(self, each: _Set) -> float:
        """The upper bound on what a mark saves by keeping live entries for longer."""
        tokens = self._board.tokens
        upto = min(each.front, self._hit)
        worth = self._outlook.token_worths(each.front)
        high = each.lowest if each.hit else max(each.lowest, self._rank)
        return sum(
            worth[rank] * max(0, tokens[upto] - tokens[each.found[rank]])
            for rank in range(high + 1)
        )

    def _larger_sets(self, each: _Set, room: int) -> Iterator[_Set]:
        """Each set with one mark more."""
        given = self._board.given
        full = len(each.chosen) >= room
        for at in range(each.start, len(self._places)):
            block = self._places[at]
            if block in given:
                if given[block] <= each.own:
                    yield self._with_mark(each, at, given[block])
                return
            if not full:
                for rank in self._allowed_ranks(block, each.lowest):
                    child = self._with_mark(each, at, rank)
                    child.chosen = (*each.chosen, (block, rank))
                    child.own = child.lowest
                    yield child

    def _allowed_ranks(self, block: int, lowest: int) -> range:
        """The lifetimes a mark may have here, after marks down to a rank."""
        if block > self._hit:
            return range(lowest + 1)
        rank = self._board.cached[block]
        return range(rank, rank + (rank <= lowest))

    def _with_mark(self, before: _Set, at: int, rank: int) -> _Set:
        """The set with a mark at a place, by whomever."""
        board, hit = self._board, self._hit
        block = self._places[at]
        each = _Set()
        each.start, each.chosen = at + 1, before.chosen
        each.lowest, each.own = min(before.lowest, rank), before.own
        each.front, each.found, each.value = before.front, before.found, before.value
        each.hit = before.hit
        if not each.hit and board.is_in_reach(block, hit):
            each.hit = True
            worth = self._outlook.token_worths(block)
            self._extend_reads(each, hit, self._rank, worth)
        tokens = board.tokens[block]
        if tokens > board.tokens[hit]:
            if tokens >= board.least:
                base = max(board.tokens[hit], board.tokens[each.front])
                each.value -= board.fees[rank] * (tokens - base)
                self._advance_front(each, block, rank)
        elif block <= hit and block in board.cached:
            self._advance_front(each, block, board.cached[block])
        return each

    def _advance_front(self, each: _Set, block: int, rank: int) -> None:
        """Let later calls read up to a block."""
        self._extend_reads(each, block, rank, self._outlook.token_worths(block))
        each.front = block

    def _extend_reads(self, each: _Set, block: int, rank: int, worth: tuple[float, ...]) -> None:
        tokens, found = self._board.tokens, each.found
        end = tokens[block]
        value = each.value
        for level in range(rank + 1):
            value += worth[level] * (end - tokens[found[level]])
        each.value = value
        each.found = (block,) * (rank + 1) + found[rank + 1 :]

    def _candidate_blocks(self) -> list[int]:
        """The blocks where a mark may stand in the best set, and the caller's, in order."""
        board, hit = self._board, self._hit
        wanted = list(self._outlook.ends)
        wanted += [at - 1 for at in (*board.given, *self._over)]
        places = set(board.given)
        if hit >= 0:
            wanted.append(min(hit + board.reach, len(board.tokens) - 1) - 1)
            places.add(self._first_writable_block(hit + 1))
            places.update(at for at in self._live_entries() if at not in board.given)
        places.update(map(self._last_writable_block, wanted))
        return sorted(places - {-1})

    def _live_entries(self) -> Iterator[int]:
        """The live entries up to the hit that later calls would read, and the hit."""
        yield self._hit
        cached = self._board.cached
        known = sorted(at for at in cached if at < self._hit)
        for rank in range(len(self._board.fees) if known else 0):
            for end in self._outlook.ends:
                yield max((at for at in known if at <= end and cached[at] >= rank), default=-1)

    def _last_writable_block(self, block: int) -> int:
        """The last block up to this one that can be marked to write it; -1 for none."""
        while block > self._hit and not self._is_free(block):
            block -= 1
        return block if block > self._hit else -1

    def _first_writable_block(self, block: int) -> int:
        """The first block from this one on that can be marked to write it; -1 for none."""
        block = max(block, self._hit + 1)
        end = len(self._board.tokens) - 1
        while block < end and not self._is_free(block):
            block += 1
        return block if block < end else -1

    def _is_free(self, block: int) -> bool:
        board = self._board
        return (
            block not in board.given
            and board.tokens[block] >= board.least
            and not any(board.is_in_reach(block, at) for at in self._over)
        )
