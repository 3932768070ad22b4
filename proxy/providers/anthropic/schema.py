"""Schemas for answers, closed: the Messages API promises none whose objects may hold more.

Source: Anthropic, structured outputs (2026-11).
"""

from collections.abc import Iterator
from typing import Any, Final

import msgspec
from msgspec import Raw

#: Keys under which a schema holds schemas: by name, in a list, and as one.
_BY_NAME: Final = ("properties", "$defs", "definitions")
_IN_LIST: Final = ("anyOf", "allOf", "oneOf", "prefixItems")
_ITSELF: Final = "items"

_NOTE: Final = "closed the objects of response_format: the model supports no others"


def close_objects(schema: Raw, notes: list[str]) -> Raw:
    """The schema with ``additionalProperties: false`` in each object that does not set it.

    The caller's own bytes where all do; what says otherwise is left for the upstream to refuse.
    """
    try:
        found = msgspec.json.decode(schema)
        if not _close(found):
            return schema
        written = Raw(msgspec.json.encode(found))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return schema
    notes.append(_NOTE)
    return written


def _close(found: object) -> bool:
    """Close the objects in place; whether any was open."""
    was_open = False
    left = [found]
    while left:
        one = left.pop()
        if not isinstance(one, dict):
            continue
        left.extend(_subschemas(one))
        if _is_object(one) and "additionalProperties" not in one:
            one["additionalProperties"] = False
            was_open = True
    return was_open


def _is_object(schema: dict[str, Any]) -> bool:
    """True if values of this schema may be objects with named properties."""
    kind = schema.get("type")
    return kind == "object" or (isinstance(kind, list) and "object" in kind)


def _subschemas(schema: dict[str, Any]) -> Iterator[Any]:
    """The schemas directly inside this one; examples and constants are none."""
    for name in _BY_NAME:
        inner = schema.get(name)
        yield from inner.values() if isinstance(inner, dict) else ()
    for name in _IN_LIST:
        inner = schema.get(name)
        yield from inner if isinstance(inner, list) else ()
    yield schema.get(_ITSELF)
