"""True if the order in which a feature's calls list and spell their tools means anything.

A caller's own order is kept where it holds still: calls that list theirs alike share a prefix in no
other. Where tools come shuffled, they go by name instead. Shuffled is told from neighbours: two
tools that stood one behind the other, and now stand the other way round. What a list leaves out or
brings anew changes no neighbours' order, and lists joined in another order turn none round. Where
all lists begin with the same tools, all stay: those behind them part no prefix that is shared.

Their spelling likewise: the order of a tool's keys stays the caller's while the same tool comes in
no other. Conversations that are sent unmodified, to compare, then share a prefix with the rest.

Each process judges by what it saw itself, so until two have both seen enough, one conversation's
first call may go in the caller's order from one and by name from the other; from its second call on
the plan in the store decides.
"""

from collections.abc import Sequence
from itertools import pairwise, takewhile
from typing import Final, NamedTuple

#: Neighbours remembered of a feature; beyond, it begins anew.
_PAIRS: Final = 512
#: Tools of a list that are looked at.
_TOOLS: Final = 256
#: Tools at the beginning of all lists that are no chance: of fewer, shuffled lists may begin alike.
_HEAD: Final = 4
#: Lists that turned neighbours round, from which on a feature's tools go by name,
_TURNED: Final = 2
#: if they are at least one in so many.
_OFTEN: Final = 10


class ToolRecord(NamedTuple):
    """A tool, by its fingerprint (hex) and its name; its spelling is equal where its bytes are."""

    known: str
    name: str
    spelling: int = 0


class Toolsets:
    """The lists of tools that one feature's conversations began with.

    Attributes:
        is_respelled: Whether a tool came with its keys in another order.
    """

    __slots__ = ("_head", "_is_shuffled", "_lists", "_pairs", "_spelt", "_turned", "is_respelled")

    def __init__(self) -> None:
        self.is_respelled = False
        self._spelt: dict[str, int] = {}
        self._head: tuple[str, ...] | None = None
        self._pairs: set[int] = set()
        self._lists = self._turned = 0
        self._is_shuffled = False

    def order(self, came: Sequence[ToolRecord]) -> tuple[str, ...]:
        """The order in which a conversation sends these tools that it brings with its first call.

        Args:
            came: In the caller's order.

        Returns:
            Their fingerprints.
        """
        self._spell(came[:_TOOLS])
        names = [tool.name for tool in came[:_TOOLS]]
        before = names if self._head is None else self._head
        self._head = tuple(names[: _common(before, names)])
        if not self._is_shuffled:
            self._note(names)
        if self._is_shuffled and len(self._head) < _HEAD:
            came = sorted(came, key=lambda tool: tool.name)
        return tuple(tool.known for tool in came)

    def _spell(self, came: Sequence[ToolRecord]) -> None:
        """Compare tools with the same ones before."""
        if self.is_respelled:
            return
        if len(self._spelt) > _PAIRS:
            self._spelt.clear()
        spelt = (
            (tool.spelling, self._spelt.setdefault(tool.known, tool.spelling)) for tool in came
        )
        self.is_respelled = any(now != before for now, before in spelt)

    def _note(self, names: Sequence[str]) -> None:
        """Compare a list with those before it; of two neighbours their first order counts."""
        pairs = list(pairwise(names))
        same = [hash(pair) for pair in pairs if hash(pair[::-1]) not in self._pairs]
        self._lists += 1
        self._turned += len(same) < len(pairs)
        self._is_shuffled = self._turned >= max(_TURNED, self._lists / _OFTEN)
        if len(self._pairs) > _PAIRS:
            self._pairs.clear()
        self._pairs.update(same)


def _common(one: Sequence[str], other: Sequence[str]) -> int:
    """Number of names both lists begin with."""
    pairs = zip(one, other, strict=False)
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
