"""In which order the calls of a feature bring their tools, and in which they are sent.

A caller's own order is kept where it holds still: what its calls share of their tools stands first
in it, and any other order would part them. A set of tools that comes in a second order is sent in
the first. Where a set comes in a third, order means nothing to the caller: from then on tools go
by name, so that all processes agree.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

import msgspec

from proxy.prefix.recent import Recent

#: Sets remembered of a feature.
_SETS: Final = 256
#: Tools above which a set is not remembered.
_TOOLS: Final = 512
#: Orders of one set from which on it is no order.
_SHUFFLED: Final = 3


class Tool(NamedTuple):
    """A tool, by its fingerprint (hex) and its name."""

    known: str
    name: str


class _Set(msgspec.Struct):
    """A set of tools: how it came first, and the other ways it came."""

    first: tuple[str, ...]
    others: frozenset[int] = frozenset()


class Toolsets:
    """The sets of tools of one feature."""

    def __init__(self) -> None:
        self._sets: Recent[frozenset[str], _Set] = Recent(_SETS)
        self._is_shuffled = False

    def order(self, came: Sequence[Tool]) -> tuple[str, ...]:
        """The order in which a conversation sends these tools that it brings with its first call.

        Args:
            came: In the caller's order.

        Returns:
            Their fingerprints.
        """
        order = tuple(tool.known for tool in came)
        if not self._is_shuffled and len(order) <= _TOOLS:
            order = self._usual(order)
        if self._is_shuffled:
            return tuple(tool.known for tool in sorted(came, key=lambda tool: tool.name))
        return order

    def _usual(self, order: tuple[str, ...]) -> tuple[str, ...]:
        """How this set of tools came first."""
        held = self._sets.of(frozenset(order), lambda: _Set(order))
        if order != held.first:
            held.others |= {hash(order)}
            self._is_shuffled = len(held.others) + 1 >= _SHUFFLED
        return held.first
