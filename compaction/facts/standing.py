"""Which results still stand: the later one of two that tell of the same thing is kept."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec
import orjson

from compaction.facts.call_lines import arguments
from compaction.facts.region_contents import Exchange
from compaction.facts.wrong import is_wrong

#: Later results that one is compared with; more tell of one thing only in a loop.
_MOST: Final = 8
_ID: Final = ("id", "number", "uuid")


class _Told(msgspec.Struct, frozen=True):
    """What a result tells of.

    Attributes:
        asked: The arguments it was asked with.
        keys: Of the object that came back.
    """

    asked: Mapping[str, Any]
    keys: frozenset[str]


def standing(exchanges: Sequence[Exchange]) -> tuple[bool, ...]:
    """True if each result still stands: no later one came for an equal call, or told as much.

    A result tells as much when it is an object with the same ids and at least the same keys, and
    was asked for with at least the same arguments. Failures always stand, and replace nothing.
    """
    stands = [True] * len(exchanges)
    asked: set[str] = set()
    told: dict[bytes, list[_Told]] = {}
    for at in range(len(exchanges) - 1, -1, -1):
        each = exchanges[at]
        if not each.result or is_wrong(each.result):
            continue
        key = each.key
        stands[at] = not key or (key not in asked and not _retold(each, told))
        asked.add(key)
    return tuple(stands)


def _retold(each: Exchange, told: dict[bytes, list[_Told]]) -> bool:
    """True if a later result tells as much; what this one tells of is noted."""
    ids, keys = _object(each.result)
    read = arguments(each.called)
    if not ids or not isinstance(read, dict):
        return False
    later = told.setdefault(ids, [])
    fits = any(keys <= one.keys and _within(read, one.asked) for one in later)
    if len(later) < _MOST:
        later.append(_Told(read, keys))
    return fits


def _object(result: str) -> tuple[bytes, frozenset[str]]:
    """The ids of an object that came back, and its keys; nothing for what is none."""
    if result[:1] != "{":
        return b"", frozenset()
    try:
        read = orjson.loads(result)
    except ValueError:
        return b"", frozenset()
    ids = {
        key: value
        for key, value in read.items()
        if key.lower().endswith(_ID) and isinstance(value, str | int)
    }
    return orjson.dumps(ids, option=orjson.OPT_SORT_KEYS) if ids else b"", frozenset(read)


def _within(few: Mapping[str, Any], many: Mapping[str, Any]) -> bool:
    """True if arguments stand among others, with the same values."""
    return all(key in many and many[key] == value for key, value in few.items())
