"""Cheap traits of a call, read before it is sent: its form, its kind of task, its words as bits."""

import re
from itertools import pairwise
from math import log2
from typing import Final
from zlib import crc32

import msgspec

#: Characters of a call's newest text that are read, from its beginning and from its end.
_MAX_CHARS: Final = 4_000
_MAX_WORDS: Final = 160
_SIGNATURE_BITS: Final = 256
_WORD: Final = re.compile(r"\w+")
_CODE: Final = re.compile(r"```|[{};]\s*\n|\bdef \w|\bSELECT\b|</\w+>|=>|::")
_EXCEPTIONS: Final = re.compile(
    r"\b(?:not|except|never|least|unless|without|incorrect|false|neither|nicht|kein\w*|pas|sauf|nunca)\b",
    re.IGNORECASE,
)
_REASONING: Final = re.compile(
    r"\b(?:why|prove|derive|calculate|compute|solve|explain|compare|plan|debug|how many|how much"
    r"|step by step|warum|berechne\w*|pourquoi)\b",
    re.IGNORECASE,
)
_SIMPLE_TASKS: Final = re.compile(
    r"\b(?:translate|summari[sz]e|classify|extract|label|rewrite|correct|format|convert|list|tag)\b",
    re.IGNORECASE,
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
    """The traits of a call by the newest text of its caller; at most 8,000 characters are read."""
    size = len(text)
    if size > 2 * _MAX_CHARS:
        text = f"{text[:_MAX_CHARS]} {text[-_MAX_CHARS:]}"
    words = _WORD.findall(text)
    chars = max(len(text), 1)
    letters = sum(map(len, words))
    digits = sum(map(str.isdigit, text))
    values = (
        log2(1 + size) / 16,
        log2(1 + text.count("\n")) / 8,
        letters / (10 * max(len(words), 1)),
        min(4 * digits / chars, 1.0),
        min(4 * (chars - letters - text.count(" ")) / chars, 1.0),
        sum(char > "\u024f" for char in text) / chars,
        float(_CODE.search(text) is not None),
        float("?" in text),
        float(_EXCEPTIONS.search(text) is not None),
        float(_REASONING.search(text) is not None),
        float(_SIMPLE_TASKS.search(text) is not None),
        float(has_schema),
        min(tools, 20) / 20,
        min(log2(1 + turns) / 6, 1.0),
    )
    return CallTraits(values, _signature(words))


def similarity(first: int, second: int) -> float:
    """The share of two calls' words that both have, from 0 to 1, by their signatures."""
    either = (first | second).bit_count()
    return (first & second).bit_count() / either if either else 0.0


def _signature(words: list[str]) -> int:
    """A bit for each hashed word and pair of words."""
    names = [word.lower().encode() for word in words[:_MAX_WORDS]]
    pairs = (b" ".join(pair) for pair in pairwise(names))
    bits = 0
    for name in (*names, *pairs):
        bits |= 1 << crc32(name) % _SIGNATURE_BITS
    return bits
