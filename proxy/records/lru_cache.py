"""A cache, bounded by number or weight, that drops the least recently used values."""

import sys
from collections.abc import Callable, ItemsView, Sequence
from itertools import islice, repeat
from typing import Any, Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")

#: Of more values than so many, one in so many more goes at a time: to find the oldest takes long.
_BATCH_PART = 128


class LruCache(Generic[K, V]):
    """Values by key; what was used longest ago goes first.

    Args:
        most: Most values kept, or the most that all of them may weigh; no bound where left out.
        weigh: Weight of a value; None for 1 each.
        entry_bytes: Bytes of a key, its place, and its value where that is not weighed.

    Attributes:
        peek: The value of a key, which is not used by this; None where there is none.
    """

    __slots__ = ("_entry_bytes", "_held", "_most", "_weigh", "_weight", "peek")

    def __init__(
        self,
        most: int = sys.maxsize,
        weigh: Callable[[V], int] | None = None,
        entry_bytes: int = 0,
    ) -> None:
        self._most = most
        self._weigh = weigh
        self._weight = 0
        self._entry_bytes = entry_bytes
        # In the order of their use; an OrderedDict takes 75 bytes more for each.
        self._held: dict[K, V] = {}
        self.peek: Callable[[K], V | None] = self._held.get

    def __len__(self) -> int:
        return len(self._held)

    def __contains__(self, key: K) -> bool:
        return key in self._held

    @property
    def size_bytes(self) -> int:
        """About how many bytes it takes, as far as its arguments tell."""
        return self._weight + self._entry_bytes * len(self._held)

    @staticmethod
    def total_bytes(caches: "Sequence[LruCache[Any, Any]]") -> int:
        """About how many bytes several take; in one loop, as each call measures dozens."""
        return sum([one._weight + one._entry_bytes * len(one._held) for one in caches])  # noqa: SLF001

    def items(self) -> ItemsView[K, V]:
        """Every key and its value, the longest unused first."""
        return self._held.items()

    def values(self) -> list[V]:
        """Every value as of now, the longest unused first; 100,000 take about 1 ms."""
        return [*self._held.values()]

    def get(self, key: K) -> V | None:
        """The value of a key, which is used by this; None where there is none."""
        value = self._held.get(key)
        if value is not None:
            self._held[key] = self._held.pop(key)
        return value

    def get_or_make(self, key: K, make: Callable[[], V]) -> V:
        """The value of a key, which is used by this; made where there is none."""
        value = self.get(key)
        if value is None:
            value = make()
            self.put(key, value)
        return value

    def use_all(self, keys: Sequence[K]) -> None:
        """Use the values of these keys, all of which are there."""
        self._held.update(zip(keys, map(self._held.pop, keys), strict=False))

    def put(self, key: K, value: V) -> None:
        """Keep a value; it is used by this."""
        held, weigh = self._held, self._weigh
        before = held.pop(key, None)
        held[key] = value
        if weigh is not None:
            self._weight += weigh(value) - (weigh(before) if before is not None else 0)
        while held and (len(held) if weigh is None else self._weight) > self._most:
            self.drop_oldest()

    def drop(self, key: K) -> None:
        """Drop the value of a key, if there is one."""
        value = self._held.pop(key, None)
        if value is not None and self._weigh is not None:
            self._weight -= self._weigh(value)

    def put_all(self, keys: Sequence[K], value: V) -> list[V | None]:
        """Keep one value for each of these keys, the last used last; returns what each had."""
        held, weigh = self._held, self._weigh
        # A long prompt has many, so the loops are the interpreter's own.
        before: list[V | None] = [*map(held.pop, keys, repeat(None))]
        held.update(dict.fromkeys(keys, value))
        if weigh is not None:
            dropped = sum(
                [weigh(dropped_value) for dropped_value in before if dropped_value is not None]
            )
            self._weight += weigh(value) * len(set(keys)) - dropped
        while held and (len(held) if weigh is None else self._weight) > self._most:
            self.drop_oldest()
        return before

    def reweigh(self, more: int) -> None:
        """Take note that a value that is kept weighs so much more now."""
        self._weight += more

    def drop_oldest(self, kept: int = 0) -> None:
        """Drop a small part of what was used longest ago, of more values than so many."""
        held, weigh = self._held, self._weigh
        if len(held) <= kept:
            return
        for key in [*islice(held, 1 + (len(held) - kept) // _BATCH_PART)]:
            value = held.pop(key)
            self._weight -= weigh(value) if weigh is not None else 0
