"""A cache of bounded size that drops what was used longest ago."""

from collections import OrderedDict, deque
from collections.abc import Callable, Collection, ItemsView
from typing import Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")


class LruCache(Generic[K, V]):
    """Values by key; what was used longest ago goes first.

    Args:
        most: Most values kept, or the most that all of them may weigh.
        weigh: Weight of a value; None for 1 each.

    Attributes:
        peek: The value of a key, which is not used by this; None where there is none.
    """

    def __init__(self, most: int, weigh: Callable[[V], int] | None = None) -> None:
        self._most = most
        self._weigh = weigh
        self._weight = 0
        self._held: OrderedDict[K, V] = OrderedDict()
        self.peek: Callable[[K], V | None] = self._held.get

    def __len__(self) -> int:
        return len(self._held)

    def __contains__(self, key: K) -> bool:
        return key in self._held

    def items(self) -> ItemsView[K, V]:
        """Every key and its value, the longest unused first."""
        return self._held.items()

    def get(self, key: K) -> V | None:
        """The value of a key, which is used by this; None where there is none."""
        found = self._held.get(key)
        if found is not None:
            self._held.move_to_end(key)
        return found

    def get_or_make(self, key: K, make: Callable[[], V]) -> V:
        """The value of a key, which is used by this; made where there is none."""
        found = self._held.get(key)
        if found is None:
            found = make()
            self.put(key, found)
        else:
            self._held.move_to_end(key)
        return found

    def put(self, key: K, value: V) -> None:
        """Keep a value; it is used by this."""
        if self._weigh is not None:
            self.put_all((key,), value)
            return
        held = self._held
        held[key] = value
        held.move_to_end(key)
        if len(held) > self._most:
            held.popitem(last=False)

    def put_all(self, keys: Collection[K], value: V) -> None:
        """Keep one value for each of these keys; the last is used last."""
        held, weigh = self._held, self._weigh
        if weigh is None:  # a long prompt has many, so the loops are the interpreter's own
            held.update(dict.fromkeys(keys, value))
            deque(map(held.move_to_end, keys), 0)
            while len(held) > self._most:
                held.popitem(last=False)
            return
        weight = weigh(value)
        for key in keys:
            self._weight += weight - (weigh(held[key]) if key in held else 0)
            held[key] = value
            held.move_to_end(key)
        while held and self._weight > self._most:
            self._weight -= weigh(held.popitem(last=False)[1])
