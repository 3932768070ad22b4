"""Parses JSON from tools without loss: numbers keep their spelling."""

import json
from typing import Final, TypeAlias

from compaction.reading.message import CannotCompactError

#: Maximum nesting of a result that is parsed.
MAX_DEPTH: Final = 48


class Number(str):
    """A number as it was spelled: 1.10 is not 1.1, and no digit of a long id is lost."""

    __slots__ = ()


Value: TypeAlias = "str | bool | list[Value] | dict[str, Value] | None"


def parse_json(text: str) -> Value:
    """The value that a text is.

    Raises:
        CannotCompactError: If it is none, is nested too deep, or has a key twice in one object.
    """
    try:
        return _decoder.decode(text)  # type: ignore[no-any-return]
    except (ValueError, RecursionError) as error:
        raise CannotCompactError(str(error)) from None


def parse_json_at(text: str, start: int) -> tuple[Value, int]:
    """The value that begins there, and where it ends.

    Raises:
        CannotCompactError: As above.
    """
    try:
        return _decoder.raw_decode(text, start)
    except (ValueError, RecursionError) as error:
        raise CannotCompactError(str(error)) from None


def _object(pairs: list[tuple[str, Value]]) -> dict[str, Value]:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise CannotCompactError("a key stands twice")
    return members


_decoder: Final = json.JSONDecoder(
    object_pairs_hook=_object, parse_int=Number, parse_float=Number, parse_constant=Number
)
