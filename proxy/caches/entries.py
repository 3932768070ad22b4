"""A breakpoint cache's entries: a bounded map from a prefix's digest to its lifetime."""

from collections import OrderedDict
from dataclasses import dataclass


@dataclass(slots=True)
class CacheEntry:
    """One stored prefix.

    Attributes:
        lifetime: Seconds it lives after its last use.
        ends: Time at which it dies unless it is used before.
        limit: Time at which it dies even so.
        begun: True if others can see it: an answer that stored it has begun.
    """

    lifetime: float
    ends: float
    limit: float = float("inf")
    begun: bool = False


class CacheEntries:
    """Stored prefixes by digest; beyond ``most``, the least recently used goes first."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._kept: OrderedDict[bytes, CacheEntry] = OrderedDict()

    def __len__(self) -> int:
        return len(self._kept)

    def is_readable(self, digest: bytes, now: float) -> bool:
        """True if the prefix can be read now."""
        entry = self._kept.get(digest)
        return entry is not None and entry.begun and now <= entry.ends

    def renew(self, digest: bytes, now: float) -> None:
        """Start the lifetime of a live prefix anew; a dead or unknown one stays so."""
        if self.is_readable(digest, now):
            entry = self._kept[digest]
            entry.ends = min(max(entry.ends, now + entry.lifetime), entry.limit)
            self._kept.move_to_end(digest)

    def write(self, digest: bytes, entry: CacheEntry) -> None:
        """Store a prefix, in place of what its digest stood for."""
        self._kept[digest] = entry
        self._kept.move_to_end(digest)
        if len(self._kept) > self._most:
            self._kept.popitem(last=False)

    def begin(self, digest: bytes) -> None:
        """Let others see the prefix, if it is still stored."""
        entry = self._kept.get(digest)
        if entry is not None:
            entry.begun = True
