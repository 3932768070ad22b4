"""A cache of text analyses: each call of a conversation sends most of its texts again.

One text is analysed at several places: where a result is shortened, on each detail level, and again
at the next call. The analysis depends on the text alone, or on a few texts, such as a call's
arguments with its result.
"""

from collections.abc import Callable
from itertools import chain
from typing import Any, Final, Protocol, TypeVar

import msgspec

from compaction.reading.bounded_cache import BoundedCache

F = TypeVar("F", bool, str, frozenset[str], tuple[Any, ...])

#: Overhead in bytes of an entry in addition to its text, and of each item found in it.
_ENTRY_OVERHEAD_BYTES: Final = 300
_ITEM_OVERHEAD_BYTES: Final = 200
#: Maximum bytes of a character.
_MAX_LETTER_BYTES: Final = 4
#: Minimum characters of a text that is cached; analysing a shorter one takes no longer than finding
#: it.
_MIN_CACHED_CHARS: Final = 24


class TextAnalyzer(Protocol):
    """Analyzes texts, perhaps from a cache."""

    def __call__(self, analyze: Callable[..., F], /, *texts: str) -> F:
        """The result of an analysis, which is always the same for the same texts."""


def analyze_uncached(analyze: Callable[..., F], /, *texts: str) -> F:
    """Analyzes texts without a cache."""
    return analyze(*texts)


class TextAnalysisCache:
    """A bounded cache of text analyses; one thread at a time may use it.

    Args:
        max_entries: Texts remembered, each as often as something else was looked for.
        max_bytes: Bytes that they may take, with what was found.
    """

    def __init__(self, max_entries: int = 200_000, max_bytes: int = 16 << 20) -> None:
        self._known: BoundedCache[tuple[object, ...], Any] = BoundedCache(max_entries, max_bytes)

    def __len__(self) -> int:
        return len(self._known)

    def analyzer_for(self, scope: bytes) -> TextAnalyzer:
        """The analyzer for a call of one scope; nothing that others sent makes it quicker.

        Sets of words take more room than they are worth beyond a call: it alone knows them.
        """
        lookup, keep = self._known.get, self._known.store
        sets: dict[tuple[object, ...], Any] = {}

        def find(look: Callable[..., F], /, *texts: str) -> F:
            if len(texts) == 1 and len(texts[0]) < _MIN_CACHED_CHARS:
                return look(*texts)
            key = scope, look, *texts
            analysis: F | None = lookup(key)
            analysis = sets.get(key) if analysis is None else analysis
            if analysis is None:
                analysis = look(*texts)
                if isinstance(analysis, frozenset):
                    sets[key] = analysis
                else:
                    keep(key, analysis, _entry_bytes(sum(map(len, texts)), analysis))
            return analysis

        return find


def _entry_bytes(chars: int, findings: object) -> int:
    """Bytes that an entry takes, about; its texts have so many characters."""
    if isinstance(findings, tuple):
        items = _ITEM_OVERHEAD_BYTES * _count_items(findings)
        return _ENTRY_OVERHEAD_BYTES + 2 * _MAX_LETTER_BYTES * chars + items
    more_chars = len(findings) if isinstance(findings, str) else 0
    return _ENTRY_OVERHEAD_BYTES + _MAX_LETTER_BYTES * (chars + more_chars)


def _count_items(findings: tuple[Any, ...]) -> int:
    """The number of things found, with those that they hold, level by level."""
    count, level = 0, findings
    while level:
        count += len(level)
        structs = [thing for thing in level if isinstance(thing, msgspec.Struct)]
        fields = chain.from_iterable(map(msgspec.structs.astuple, structs))
        holders = (thing for thing in chain(level, fields) if isinstance(thing, tuple))
        level = tuple(chain.from_iterable(holders))
    return count
