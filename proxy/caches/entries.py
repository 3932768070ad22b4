"""Lifetime of a stored prefix, and a breakpoint cache's entries: a bounded map of them."""

from collections import OrderedDict
from dataclasses import dataclass
from math import inf
from typing import Final, NamedTuple

#: Who wrote an entry: a breakpoint that stands in the prompt, or the provider's own rule.
BY_MARK: Final = 1
BY_RULE: Final = 2


class EntryLife(NamedTuple):
    """The span in which a stored prefix can be read.

    Attributes:
        used: Time at which it was written or used last, in seconds.
        lifetime: Seconds it lives after that.
        begins: Time from which on it can be read.
        limit: Time at which it dies however often it is used.
    """

    used: float
    lifetime: float
    begins: float = -inf
    limit: float = inf

    @property
    def ends(self) -> float:
        """Time at which it dies unless it is used before."""
        return min(self.used + self.lifetime, self.limit)

    def is_live(self, now: float) -> bool:
        """True if it can be read now."""
        return self.begins <= now <= self.ends

    def after_use(self, now: float) -> "EntryLife":
        """The same with its lifetime begun anew, if it was live; what is dead stays so."""
        if not self.is_live(now):
            return self
        return EntryLife(max(self.used, now), self.lifetime, self.begins, self.limit)


@dataclass(slots=True)
class _Entry:
    life: EntryLife
    begun: bool = False


class CacheEntries:
    """Stored prefixes by digest; beyond ``most``, the least recently used goes first."""

    def __init__(self, max_entries: int) -> None:
        self._most = max_entries
        self._kept: OrderedDict[bytes, _Entry] = OrderedDict()

    def __len__(self) -> int:
        return len(self._kept)

    def is_readable(self, digest: bytes, now: float) -> bool:
        """True if the prefix can be read now: it lives, and others can see it."""
        entry = self._kept.get(digest)
        return entry is not None and entry.begun and entry.life.is_live(now)

    def renew(self, digest: bytes, now: float) -> None:
        """Start the lifetime of a live prefix anew; a dead or unknown one stays so."""
        if self.is_readable(digest, now):
            entry = self._kept[digest]
            entry.life = entry.life.after_use(now)
            self._kept.move_to_end(digest)

    def write(self, digest: bytes, life: EntryLife) -> None:
        """Store a prefix, in place of what its digest stood for; no other call sees it yet."""
        self._kept[digest] = _Entry(life)
        self._kept.move_to_end(digest)
        if len(self._kept) > self._most:
            self._kept.popitem(last=False)

    def begin(self, digest: bytes) -> None:
        """Let others see the prefix, if it is still stored: an answer that stored it has begun."""
        entry = self._kept.get(digest)
        if entry is not None:
            entry.begun = True
