"""A Responses body read piece by piece; each error names its parameter and fix."""

from collections.abc import Iterable
from typing import Any, TypeVar

import msgspec
import orjson

from proxy.errors import CallerError

Shape = TypeVar("Shape")
Json = dict[str, Any]


def fields(body: bytes) -> Json:
    """The top-level fields of the body."""
    try:
        members = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise CallerError(
            f"The body is not valid JSON: {error}. Send one JSON object.", code="invalid_json"
        ) from None
    if not isinstance(members, dict):
        raise CallerError("The body is not an object. Send one JSON object.", code="invalid_json")
    return members


def convert_value(value: object, shape: type[Shape], place: str) -> Shape:
    """The value in the given shape, an annotation that msgspec understands.

    Args:
        place: The parameter it was found at, such as ``input[2]``.

    Raises:
        CallerError: If it has another shape; its ``param`` is the path of the part that is wrong.
    """
    try:
        return msgspec.convert(value, shape)
    except msgspec.ValidationError as error:
        wrong, _, path = str(error).rpartition(" - at `$")
        param = f"{place}{path.rstrip('`')}" if wrong else place
        sentence = (wrong or str(error)).rstrip(".")
        raise CallerError(
            f"`{param}` is wrong: {sentence}.", code="invalid_value", param=param
        ) from None


def known_kinds(values: Iterable[object], kinds: Iterable[str], path: str, fix: str) -> None:
    """Refuse values whose ``type`` is not a known one; the error says how to fix it."""
    allowed = frozenset(kinds)
    for place, value in enumerate(values):
        kind = value.get("type") if isinstance(value, dict) else None
        if isinstance(kind, str) and kind not in allowed:
            raise CallerError(
                f"`{kind}` is not supported for this model. {fix}",
                code="unsupported_value",
                param=f"{path}[{place}].type",
            )
