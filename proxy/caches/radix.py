"""A radix tree of token sequences: finds the longest stored prefix of a prompt."""

from collections.abc import Iterator
from heapq import heapify, heappop, heappush
from itertools import count
from math import inf

from proxy.caches.prefixes import WORD


def common_length(one: bytes, other: bytes, start: int = 0) -> int:
    """Number of bytes ``one`` has in common with ``other`` from ``start`` on."""
    high = min(len(one), len(other) - start)
    if one[:high] == other[start : start + high]:
        return high
    low = 0
    while high - low > 1:
        middle = (low + high) // 2
        if one[low:middle] == other[start + low : start + middle]:
            low = middle
        else:
            high = middle
    return low


class _Node:
    """An edge and what follows it; the top is its own parent. Used: last stored or read."""

    __slots__ = ("children", "edge", "key", "parent", "used")

    def __init__(self, key: bytes, edge: bytes, parent: "_Node | None", used: float) -> None:
        self.key = key
        self.edge = edge
        self.parent: _Node = parent or self
        self.used = used
        self.children: dict[bytes, _Node] = {}


class Radix:
    """Sequences of whole pages, each under an owner; the least recently used leaf goes first.

    Source: SGLang 0.5.23, RadixAttention (2026-11).

    Args:
        lifetime: Seconds a stretch lives after its last use.
    """

    def __init__(self, page: int, room: int, lifetime: float = inf) -> None:
        self._page = page * WORD
        self._room = room * WORD
        self._lifetime = lifetime
        self._top = _Node(b"", b"", None, -inf)
        self._size = 0

    def __len__(self) -> int:
        """Tokens kept."""
        return self._size // WORD

    def match(self, owner: bytes, content: bytes, now: float) -> int:
        """Tokens of the longest live prefix of the content, in whole pages."""
        return sum(same for _, same in self._path(owner, content, now)) // WORD

    def insert(self, owner: bytes, content: bytes, now: float) -> None:
        """Store the content's whole pages, and count what they share as used now."""
        node, offset = self._top, 0
        content = content[: len(content) // self._page * self._page]
        for child, same in self._path(owner, content, -inf):
            node = child if same == len(child.edge) else self._split(child, same)
            node.used = now
            offset += same
        if offset < len(content):
            key = (b"" if offset else owner) + content[offset : offset + self._page]
            node.children[key] = _Node(key, content[offset:], node, now)
            self._size += len(content) - offset
            self._make_room()

    def _path(self, owner: bytes, content: bytes, now: float) -> Iterator[tuple[_Node, int]]:
        """Each live node on the content's way down, and how many bytes of its edge are shared."""
        node, offset, head = self._top, 0, owner
        while True:
            child = node.children.get(head + content[offset : offset + self._page])
            if child is None or child.used + self._lifetime < now:
                return
            same = common_length(child.edge, content, offset) // self._page * self._page
            whole = same == len(child.edge)
            yield child, same  # the reader may split the child
            if not whole:
                return
            node, offset, head = child, offset + same, b""

    def _split(self, lower: _Node, offset: int) -> _Node:
        """Part an edge in two; comes back with the upper part."""
        parent = lower.parent
        upper = _Node(lower.key, lower.edge[:offset], parent, lower.used)
        parent.children[upper.key] = upper
        lower.edge = lower.edge[offset:]
        lower.key = lower.edge[: self._page]
        lower.parent = upper
        upper.children[lower.key] = lower
        return upper

    def _make_room(self) -> None:
        if self._size <= self._room:
            return
        order = count()
        leaves = [(node.used, next(order), node) for node in self._leaves()]
        heapify(leaves)
        while self._size > self._room:
            _, _, leaf = heappop(leaves)
            parent = leaf.parent
            del parent.children[leaf.key]
            self._size -= len(leaf.edge)
            if not parent.children and parent is not self._top:
                heappush(leaves, (parent.used, next(order), parent))

    def _leaves(self) -> Iterator[_Node]:
        waiting = list(self._top.children.values())
        while waiting:
            node = waiting.pop()
            waiting += node.children.values()
            if not node.children:
                yield node
