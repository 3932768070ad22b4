"""Long calls that differ in little: what they share is said once."""

from typing import Any, Final

import msgspec
import orjson

from compaction.facts.call_lines import arguments, said
from compaction.reading.message import Called
from compaction.reading.redaction import redacted

#: Calls are alike that begin with the same characters, so many,
_HEAD: Final = 24
#: and of which this share is the same.
_ALIKE: Final = 0.6
#: A word is not parted where it is found within so many characters.
_WORD: Final = 40


class Said:
    """Says calls one after the other; one like an earlier one by what is other in it."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._whole: dict[tuple[str, str], str] = {}

    def __call__(self, called: Called) -> str:
        """The call on one line, each value at most so many characters."""
        read = arguments(called)
        name, text = _longest(read, called.arguments)
        if len(text) <= self._most:
            return said(called, self._most)
        text = redacted(text)
        kind = (called.name, text[:_HEAD])
        other = _other(self._whole.get(kind, ""), text)
        if not other:
            self._whole[kind] = text
            return said(called, self._most)
        short = f"{text[:_HEAD]}… as above, but …{other}…"
        written = orjson.dumps({**read, name: short}).decode() if name else short
        return said(msgspec.structs.replace(called, arguments=written), self._most + 2 * _HEAD)


def _longest(read: Any, raw: str) -> tuple[str, str]:  # noqa: ANN401 # whatever JSON the model wrote
    """The longest text among arguments with its name; without one the arguments as they came."""
    if not isinstance(read, dict):
        return "", raw
    texts = [(key, value) for key, value in read.items() if isinstance(value, str)]
    return max(texts, key=lambda text: len(text[1]), default=("", ""))


def _other(base: str, text: str) -> str:
    """What of a text is other than in one like it, in whole words; "" where much is."""
    first = _shared(base, text, len(base), len(text))
    rest = min(len(base), len(text)) - first
    last = _shared(base[::-1], text[::-1], rest, rest)
    if first + last < _ALIKE * len(text):
        return ""
    start = max(text.rfind(" ", 0, first + 1), first - _WORD, 0)
    end = text.find(" ", len(text) - last)
    near = len(text) - last + _WORD
    return text[start : min(end if end > 0 else near, near)].strip() or text[-_WORD:]


def _shared(one: str, other: str, most_one: int, most_other: int) -> int:
    """Number of characters two texts begin with alike, at most so many."""
    low, high = 0, min(most_one, most_other)
    while low < high:
        middle = (low + high + 1) // 2
        if one[low:middle] == other[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low
