"""FastAPI's type adapters, made once for all gateways of a process.

FastAPI makes one of each field of each route of each app, twice: half of the time that the admin
pages of a test take. A process has one gateway, and tests have hundreds of the same routes.
"""

from functools import cache
from typing import Any, get_args

import fastapi._compat.v2 as fastapi_fields
from pydantic import ConfigDict, TypeAdapter


class _Field:
    """A field as FastAPI describes it; two are equal that are described alike."""

    def __init__(self, annotated: Any, config: ConfigDict | None) -> None:
        self.annotated = annotated
        self.config = config
        kind, *described = get_args(annotated)
        self._key = (kind, repr(described), repr(config))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Field) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)


@cache
def _type_adapter(field: _Field) -> TypeAdapter[Any]:
    return TypeAdapter(field.annotated, config=field.config)


def shared_type_adapter(annotated: Any, *, config: ConfigDict | None = None) -> TypeAdapter[Any]:
    """The adapter of an annotated type; the same one for fields that are described alike."""
    return _type_adapter(_Field(annotated, config))


def share_type_adapters() -> None:
    """Have FastAPI take adapters from here."""
    fastapi_fields.TypeAdapter = shared_type_adapter  # type: ignore[attr-defined, assignment]
