"""Finds the marks of a call that cost the least when it is known who reads what later.

``cheapest_marks`` finds the optimum over all mark sets. Costs are in fresh tokens. A call pays for
what it reads, writes and sends fresh; each token once, at the longest lifetime that keeps it. A
later call reads the longest entry it shares and finds.

Between two places that matter (ends of what is shared, live entries, the caller's marks) the cost
is linear in where a mark stands, so only those places are tried.
"""

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from proxy.caches.regime import Regime
from proxy.prefix.breakpoints.mark_search import (
    LaterCalls,
    MarkSearch,
    SavingsOutlook,
    SearchProblem,
)

#: Live entries tried as what this call reads, longest first.
_MAX_READ_CANDIDATES: Final = 3
#: Live entries looked at from either end of a prompt.
_MAX_ENTRIES_PER_END: Final = 8


class Reuse(msgspec.Struct, frozen=True):
    """Later calls of one kind; they repeat the marks of this call up to what they share.

    Attributes:
        upto: The last block that they share with this call.
        uses: Expected number of calls during the life of an entry that each of them refreshes, by
            lifetime.
    """

    upto: int
    uses: Mapping[str, float]


class Mark(msgspec.Struct, frozen=True):
    """A breakpoint at the end of a block."""

    block: int
    ttl: str


class CallToMark(msgspec.Struct, frozen=True, kw_only=True):
    """The call to mark: its blocks, live entries and the caller's marks.

    Attributes:
        ends: Tokens up to the end of each block; never less than the one before.
        cached: The blocks at whose ends a live entry is known, and its lifetime.
        given: The caller's own marks, longer lifetimes first; they stay and use up the budget.
    """

    ends: Sequence[int]
    cached: Mapping[int, str] = {}
    given: Mapping[int, str] = {}


def cheapest_marks(call: CallToMark, reuses: Sequence[Reuse], regime: Regime) -> tuple[Mark, ...]:
    """The marks to add for the least expected cost of this call and the later ones; () for none.

    Added marks keep longer lifetimes before shorter ones; one on a live entry has its lifetime.
    With more than three live entries only the longest three, and the one that the caller's own
    marks find, are tried as what this call reads; with more than sixteen, those in the middle are
    taken for dead.
    """
    room = regime.marks - len(call.given)
    if room <= 0 or not regime.writes or not call.ends:
        return ()
    ttls = sorted(regime.writes, key=lambda ttl: regime.lifetimes.get(ttl, 0.0))
    board = _search_problem(call, regime, ttls)
    kinds = [_later_calls(reuse, board, ttls) for reuse in reuses]
    outlook = SavingsOutlook(board.tokens, kinds, board.fees)
    best: tuple[tuple[int, int], ...] = ()
    value = float("-inf")
    for hit in _readable_entries(board):
        search = MarkSearch(board, outlook, hit)
        search.search(room, value)
        if search.value > value:
            best, value = search.best, search.value
    return tuple(Mark(block, ttls[rank]) for block, rank in best)


def _search_problem(call: CallToMark, regime: Regime, ttls: Sequence[str]) -> SearchProblem:
    last = len(call.ends) - 1
    rank = {ttl: at for at, ttl in enumerate(ttls)}
    live = sorted(at for at in call.cached if 0 <= at <= last)
    return SearchProblem(
        tokens=(*call.ends, 0),
        cached={
            at: rank.get(call.cached[at], 0)
            for at in (*live[:_MAX_ENTRIES_PER_END], *live[-_MAX_ENTRIES_PER_END:])
        },
        given={at: rank.get(ttl, 0) for at, ttl in call.given.items() if 0 <= at <= last},
        fees=tuple(float(regime.writes[ttl]) - 1 for ttl in ttls),
        gain=1 - float(regime.read),
        least=regime.least,
        reach=max(1, regime.lookback),
    )


def _later_calls(reuse: Reuse, board: SearchProblem, ttls: Sequence[str]) -> LaterCalls:
    upto = max(-1, min(reuse.upto, len(board.tokens) - 2))
    worth = []
    before = 0.0
    for ttl in ttls:
        uses = max(before, reuse.uses.get(ttl, 0.0))
        worth.append((uses - before) * board.gain)
        before = uses
    return LaterCalls(upto, tuple(worth))


def _readable_entries(board: SearchProblem) -> list[int]:
    """The live entries that this call may read, longest first; -1 for none."""
    known = sorted(board.cached, reverse=True)
    found = [at for at in known if any(board.is_in_reach(mark, at) for mark in board.given)]
    return list(dict.fromkeys((*known[:_MAX_READ_CANDIDATES], *found[:1], -1)))
