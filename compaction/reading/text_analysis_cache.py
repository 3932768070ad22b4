"""What was found in texts, found once: every call brings most of its texts again.

A text is looked through at several places: where a result is said shorter, on each rung of the
ladder, and again at the next call. What is found depends on the text alone.
"""

from collections.abc import Callable
from typing import Any, Final, Protocol, TypeVar

import msgspec

from compaction.reading.bounded_cache import Remembered

F = TypeVar("F", str, tuple[Any, ...])

#: What an entry takes beside its text, and what each thing found takes beside its letters.
_BESIDE: Final = 300
_EACH: Final = 200
#: Bytes of a letter, at most.
_LETTER: Final = 4
#: Shorter texts are looked through as quickly as they are found.
_SHORT: Final = 24


class Find(Protocol):
    """What a look at a text finds."""

    def __call__(self, look: Callable[[str], F], text: str, /) -> F:
        """What a look finds; it always finds the same in the same text."""


def afresh(look: Callable[[str], F], text: str) -> F:
    """What is found without a memory."""
    return look(text)


class Findings:
    """What was found lately; one thread at a time may use it.

    Args:
        most: Texts remembered, each as often as something else was looked for.
        heaviest: Bytes that they may take, with what was found.
    """

    def __init__(self, most: int = 200_000, heaviest: int = 64 << 20) -> None:
        self._known: Remembered[tuple[bytes, object, str], Any] = Remembered(most, heaviest)

    def __len__(self) -> int:
        return len(self._known)

    def of(self, scope: bytes) -> Find:
        """What is found in somebody's texts; nothing that others sent makes that quicker."""
        known, keep = self._known.get, self._known.put

        def find(look: Callable[[str], F], text: str) -> F:
            if len(text) < _SHORT:
                return look(text)
            key = scope, look, text
            found: F | None = known(key)
            if found is None:
                found = look(text)
                keep(key, found, _weight(text, found))
            return found

        return find


def _weight(text: str, found: str | tuple[Any, ...]) -> int:
    """Bytes that an entry takes, about."""
    if isinstance(found, str):
        return _BESIDE + _LETTER * (len(text) + len(found))
    return _BESIDE + 2 * _LETTER * len(text) + _EACH * _things(found)


def _things(found: tuple[Any, ...]) -> int:
    """Number of things were found, with those that they hold."""
    return len(found) + sum([_held(each) for each in found if type(each) is not str])


def _held(thing: object) -> int:
    """Number of things a thing holds that was found."""
    if isinstance(thing, tuple):
        return _things(thing)
    fields = msgspec.structs.astuple(thing) if isinstance(thing, msgspec.Struct) else ()
    return sum([_things(each) for each in fields if isinstance(each, tuple)])
