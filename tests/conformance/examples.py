"""Example answers, built from the SDK's own models by their annotations."""

import types
from datetime import date, datetime
from typing import Annotated, Any, Final, Literal, TypeVar, Union, get_args, get_origin

from pydantic import BaseModel
from typing_extensions import TypeAliasType

_DEPTH: Final = 12
_PLAIN: Final[dict[Any, object]] = {
    str: "string",
    int: 1,
    float: 0.5,
    bool: True,
    object: "string",
    Any: "string",
    datetime: "2026-01-02T03:04:05Z",
    date: "2026-01-02",
    bytes: "string",
    list: [],
    dict: {},
}


def example(kind: Any, above: tuple[type, ...] = ()) -> Any:
    """A JSON value that this type takes: all fields of models, the first member of unions.

    Args:
        kind: The type.
        above: The models that the value stands in; a model within itself has no optional fields.
    """
    origin, inner = get_origin(kind), get_args(kind)
    if origin is None:
        return _plain(kind, above)
    if origin is Literal:
        return inner[0]
    if origin is Annotated:
        return example(inner[0], above)
    if origin in {Union, types.UnionType}:
        return example(_member(inner, above), above)
    return _container(origin, inner, above)


def _plain(kind: Any, above: tuple[type, ...]) -> Any:
    """The example of a type without arguments."""
    if isinstance(kind, TypeAliasType):
        return example(kind.__value__, above)
    if isinstance(kind, TypeVar):
        return example(kind.__bound__ or object, above)
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        return _model(kind, above)
    return _PLAIN.get(kind)


def _member(members: tuple[Any, ...], above: tuple[type, ...]) -> Any:
    """The first member that does not stand in itself."""
    kinds = [kind for kind in members if kind is not types.NoneType]
    return next((kind for kind in kinds if kind not in above), kinds[0])


def _container(origin: type, inner: tuple[Any, ...], above: tuple[type, ...]) -> Any:
    if issubclass(origin, dict):
        return {"key": example(inner[1], above)} if inner else {}
    within = [arg for arg in inner if arg is not Ellipsis]
    return [] if not within or set(_models(within)) & set(above) else [example(within[0], above)]


def _model(kind: type[BaseModel], above: tuple[type, ...]) -> dict[str, Any]:
    """A model with all its fields, or with the required ones where it stands in itself."""
    is_deep = kind in above or len(above) >= _DEPTH
    return {
        field.alias or name: example(field.annotation, (*above, kind))
        for name, field in kind.model_fields.items()
        if field.is_required() or not is_deep
    }


def _models(kinds: list[Any]) -> list[type]:
    """The models among types, unions opened."""
    models = [one for kind in kinds for one in (get_args(kind) or (kind,))]
    return [one for one in models if isinstance(one, type) and issubclass(one, BaseModel)]
