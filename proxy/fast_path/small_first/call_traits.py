"""Cheap traits of a call, read before it is sent: its form, its kind of task, its words as bits."""

import re
from itertools import pairwise
from math import log2
from typing import Final
from zlib import crc32

import msgspec

#: Characters of a call's newest text that are read, from its beginning and from its end.
_MAX_CHARS: Final = 1_000
_MAX_WORDS: Final = 160
_SIGNATURE_BITS: Final = 256
_WORD: Final = re.compile(r"\w+")
_CODE: Final = re.compile(r"```|[{};]\s*\n|\bdef \w|\bSELECT\b|</\w+>|=>|::")
_EXCEPTIONS: Final = frozenset(
    b"not except never least unless without incorrect false neither nicht kein pas sauf".split()
)
_REASONING: Final = frozenset(
    b"why prove derive calculate compute solve explain compare plan debug many much step"
    b" warum berechne pourquoi".split()
)
_SIMPLE_TASKS: Final = frozenset(
    b"translate summarize summarise classify extract label rewrite correct format convert list"
    b" tag".split()
)
#: Names of the traits, in the order of ``CallTraits.values``.
TRAIT_NAMES: Final = (
    "length",
    "lines",
    "word length",
    "digits",
    "symbols",
    "other scripts",
    "code",
    "question",
    "exception words",
    "reasoning words",
    "simple task words",
    "schema",
    "tools",
    "turns",
)


class CallTraits(msgspec.Struct, frozen=True):
    """The traits of a call.

    Attributes:
        values: Numbers between about 0 and 1, in the order of ``TRAIT_NAMES``.
        signature: Bits of hashed words and pairs of words, 0 for no words.
    """

    values: tuple[float, ...]
    signature: int = 0


def read_traits(text: str, *, has_schema: bool, tools: int, turns: int) -> CallTraits:
    """The traits of a call by the newest text of its caller; at most 2,000 characters are read."""
    size = len(text)
    if size > 2 * _MAX_CHARS:
        text = f"{text[:_MAX_CHARS]} {text[-_MAX_CHARS:]}"
    words = _WORD.findall(text)
    chars = max(len(text), 1)
    letters = sum(map(len, words))
    digits = sum(map(text.count, "0123456789"))
    names = [word.lower().encode(errors="replace") for word in words]
    known = frozenset(names)
    values = (
        log2(1 + size) / 16,
        log2(1 + text.count("\n")) / 8,
        letters / (10 * max(len(words), 1)),
        min(4 * digits / chars, 1.0),
        min(4 * (chars - letters - text.count(" ")) / chars, 1.0),
        min((len(text.encode(errors="replace")) - len(text)) / chars, 1.0),
        float(_CODE.search(text) is not None),
        float("?" in text),
        float(not known.isdisjoint(_EXCEPTIONS)),
        float(not known.isdisjoint(_REASONING)),
        float(not known.isdisjoint(_SIMPLE_TASKS)),
        float(has_schema),
        min(tools, 20) / 20,
        min(log2(1 + turns) / 6, 1.0),
    )
    return CallTraits(values, _signature(names[:_MAX_WORDS]))


def similarity(first: int, second: int) -> float:
    """The share of two calls' words that both have, from 0 to 1, by their signatures."""
    either = (first | second).bit_count()
    return (first & second).bit_count() / either if either else 0.0


def _signature(names: list[bytes]) -> int:
    """A bit for each hashed word and pair of words."""
    pairs = (b" ".join(pair) for pair in pairwise(names))
    bits = 0
    for name in (*names, *pairs):
        bits |= 1 << crc32(name) % _SIGNATURE_BITS
    return bits
