"""Finds a value in a JSON document by the names that different tools give it."""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Any, Final

import orjson

Json = dict[str, Any]

#: Exceptions from reading a value of the wrong kind, and the reason that is told for it.
SHAPE_ERRORS: Final = (AttributeError, LookupError, RecursionError, TypeError, ValueError)
WRONG_SHAPE: Final = "one of its fields has the wrong form"
#: Seconds that a number may be at most; what is larger is counted in a smaller unit.
_LATEST_S: Final = 1e11
_UNITS: Final = (1.0, 1e3, 1e6, 1e9)


def lookup(document: Any, path: str) -> Any:  # noqa: ANN401 - JSON
    """The value at a path such as ``request/body``; None where there is none.

    An empty path is the document. Text that holds JSON on the way is read.
    """
    value = document
    for name in path.split("/") if path else ():
        value = decode(value)
        if not isinstance(value, dict):
            return None
        value = value.get(name)
    return value


def values(document: Json, paths: Sequence[str]) -> Iterator[Any]:
    """The values at the paths that hold one, in the order of the paths."""
    for path in paths:
        value = lookup(document, path)
        if value not in (None, "", [], {}):
            yield value


def first_text(document: Json, paths: Sequence[str]) -> str:
    """The first value that is text; "" for none."""
    return next((value for value in values(document, paths) if isinstance(value, str)), "")


def first_count(document: Json, paths: Sequence[str]) -> int | None:
    """The first value that is a count above 0; None for none."""
    counts = (int(value) for value in values(document, paths) if isinstance(value, (int, float)))
    return next((count for count in counts if count > 0), None)


def objects(items: Any) -> list[Json]:  # noqa: ANN401 - JSON
    """The objects of a list; none where it is no list."""
    return [item for item in items if isinstance(item, dict)] if isinstance(items, list) else []


def tool_call(identity: Any, name: Any, arguments: Any) -> Json:  # noqa: ANN401 - JSON
    """A call of a tool as chat has it."""
    text = arguments if isinstance(arguments, str) else orjson.dumps(arguments).decode()
    return {"id": identity, "type": "function", "function": {"name": name, "arguments": text}}


def decode(value: Any) -> Any:  # noqa: ANN401 - JSON
    """The JSON that a text holds; any other value unchanged."""
    if isinstance(value, str) and value.lstrip()[:1] in ("{", "["):
        try:
            return orjson.loads(value)
        except orjson.JSONDecodeError:
            return value
    return value


def seconds(value: Any) -> float | None:  # noqa: ANN401 - JSON
    """A time in seconds since the epoch: of ISO 8601, or a number of s, ms, µs or ns.

    None where it is no time.
    """
    if isinstance(value, str):
        return _text_seconds(value.strip())
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    return next((value / unit for unit in _UNITS if abs(value / unit) <= _LATEST_S), None)


def _text_seconds(text: str) -> float | None:
    try:
        return seconds(float(text))
    except ValueError:
        pass
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
