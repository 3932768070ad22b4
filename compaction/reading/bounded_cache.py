"""A cache that is bounded by the number of its values and by their sizes."""

from typing import Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")


class BoundedCache(Generic[K, V]):
    """Values by key; what was not used for longest goes, half of all at a time.

    A value that is found in the older half moves to the newer, which is all that use costs.

    Args:
        max_entries: Most entries kept.
        max_weight: Most that all of them may weigh, in bytes.
    """

    def __init__(self, max_entries: int, max_weight: int) -> None:
        self._most = max(1, max_entries // 2)
        self._heaviest = max_weight // 2
        self._weight = 0
        self._newer: dict[K, tuple[V, int]] = {}
        self._older: dict[K, tuple[V, int]] = {}

    def __len__(self) -> int:
        return len(self._newer.keys() | self._older.keys())

    def get(self, key: K) -> V | None:
        """The value of a key, which is used by this; None where there is none."""
        entry = self._newer.get(key)
        if entry is not None:
            return entry[0]
        entry = self._older.get(key)
        if entry is None:
            return None
        self._insert(key, entry)
        return entry[0]

    def store(self, key: K, value: V, weight: int) -> None:
        """Keep a value, if it alone does not weigh too much."""
        if weight <= self._heaviest:
            self._insert(key, (value, weight))

    def _insert(self, key: K, entry: tuple[V, int]) -> None:
        if len(self._newer) >= self._most or self._weight + entry[1] > self._heaviest:
            self._older, self._newer, self._weight = self._newer, {}, 0
        self._newer[key] = entry
        self._weight += entry[1]
