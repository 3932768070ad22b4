"""Finds the first difference of two prompts, and the part of the request that holds it."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice, zip_longest
from typing import Any, Final

#: Characters of a prompt that are looked at; the rest is as good as equal.
MAX_COMPARED_CHARS: Final = 512 * 1024
_MAX_PARTS: Final = 20_000
_CHARS_BEFORE: Final = 160
_CHARS_AFTER: Final = 400
#: Parts of a request in the order in which providers read them, whatever their order in JSON.
_FIRST_KEYS: Final = ("model", "tools", "system", "instructions", "messages", "input")


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptDifference:
    """The first place at which two prompts differ.

    Attributes:
        part: The part of the request, such as ``messages[2].content``; "" where they are equal as
            far as they were compared.
        common_parts: Parts before it, which are equal.
        common_chars: Characters of this part before the difference, which are equal.
        common: The last of them.
        missed: The text of the call that missed from there on; "" where it has no such part.
        hit: The same of the call that hit.
        is_cut: True if a prompt was longer than what is compared.
    """

    part: str
    common_parts: int
    common_chars: int
    common: str
    missed: str
    hit: str
    is_cut: bool


def prompt_difference(missed: str, hit: str) -> PromptDifference:
    """The first difference of two request bodies; texts that are no JSON are one part each."""
    is_cut = max(len(missed), len(hit)) > MAX_COMPARED_CHARS
    pairs = zip_longest(_parts(missed), _parts(hit))
    for number, (one, other) in enumerate(islice(pairs, _MAX_PARTS)):
        if one != other:
            return _difference(one, other, number, is_cut=is_cut)
    return PromptDifference(
        part="", common_parts=0, common_chars=0, common="", missed="", hit="", is_cut=is_cut
    )


def _difference(
    one: tuple[str, str] | None, other: tuple[str, str] | None, number: int, *, is_cut: bool
) -> PromptDifference:
    missed, hit = (value[1] if value else "" for value in (one, other))
    is_same_part = one is not None and other is not None and one[0] == other[0]
    common = _common_length(missed, hit) if is_same_part else 0
    return PromptDifference(
        part=(one or other or ("", ""))[0],
        common_parts=number,
        common_chars=common,
        common=missed[max(common - _CHARS_BEFORE, 0) : common],
        missed=missed[common : common + _CHARS_AFTER],
        hit=hit[common : common + _CHARS_AFTER],
        is_cut=is_cut,
    )


def _common_length(one: str, other: str) -> int:
    """The number of characters that both begin with, found by halves."""
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if one[:middle] == other[:middle] else (low, middle - 1)
    return low


def _parts(text: str) -> Iterator[tuple[str, str]]:
    """The parts of a request with their texts, in the order in which a provider reads them."""
    try:
        body = json.loads(text[:MAX_COMPARED_CHARS])
    except (ValueError, RecursionError):
        yield "body", text[:MAX_COMPARED_CHARS]
        return
    if isinstance(body, dict):
        first = [key for key in _FIRST_KEYS if key in body]
        rest = sorted(key for key in body if key not in _FIRST_KEYS)
        for key in (*first, *rest):
            yield from _values(key, body[key])
    else:
        yield from _values("body", body)


def _values(path: str, value: Any) -> Iterator[tuple[str, str]]:  # noqa: ANN401 - any JSON
    if isinstance(value, Mapping) and value:
        for key, item in value.items():
            yield from _values(f"{path}.{key}", item)
    elif isinstance(value, Sequence) and not isinstance(value, str) and value:
        for number, item in enumerate(value):
            yield from _values(f"{path}[{number}]", item)
    else:
        yield path, value if isinstance(value, str) else json.dumps(value)
