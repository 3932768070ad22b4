"""Schemas for answers, with every object closed."""

from typing import Any

import orjson
import pytest
from msgspec import Raw

from proxy.providers.anthropic.schema import close_objects

_OPEN: dict[str, Any] = {"type": "object"}
_SHUT: dict[str, Any] = {"type": "object", "additionalProperties": False}


def _close(schema: object) -> tuple[bytes, list[str]]:
    notes: list[str] = []
    return bytes(close_objects(Raw(orjson.dumps(schema)), notes)), notes


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (_OPEN, _SHUT),
        ({"type": ["object", "null"]}, {"type": ["object", "null"], "additionalProperties": False}),
        ({"properties": {"type": _OPEN}}, {"properties": {"type": _SHUT}}),
        ({"type": "array", "items": _OPEN}, {"type": "array", "items": _SHUT}),
        ({"anyOf": [_OPEN, _SHUT]}, {"anyOf": [_SHUT, _SHUT]}),
        ({"$defs": {"a": {"items": _OPEN}}}, {"$defs": {"a": {"items": _SHUT}}}),
        (_SHUT | {"properties": {"a": _OPEN}}, _SHUT | {"properties": {"a": _SHUT}}),
    ],
)
def test_each_object_that_does_not_say_is_closed_with_a_note(given: Any, expected: Any) -> None:
    found, notes = _close(given)

    assert orjson.loads(found) == expected
    assert notes == ["closed the objects of response_format: the model supports no others"]


@pytest.mark.parametrize(
    "given",
    [
        _SHUT,
        {"type": "object", "additionalProperties": True},
        {"type": "object", "additionalProperties": {"type": "string"}},
        {"type": "string", "enum": [_OPEN], "const": _OPEN, "default": _OPEN},
        {"properties": 5, "anyOf": "x", "items": [], "type": ["string"]},
        5,
    ],
)
def test_a_schema_whose_objects_all_say_keeps_its_bytes(given: Any) -> None:
    found, notes = _close(given)

    assert found == orjson.dumps(given)
    assert notes == []


@pytest.mark.parametrize("raw", [b"{", b'"\xff"', b"[" * 100_000])
def test_an_unreadable_schema_is_left_unmodified(raw: bytes) -> None:
    assert bytes(close_objects(Raw(raw), [])) == raw


def test_a_closed_schema_is_the_same_each_time() -> None:
    schema = {"type": "object", "properties": {"z": _OPEN, "a": {"minimum": 1.0}}, "title": "é"}

    assert _close(schema)[0] == _close(schema)[0]
    assert list(orjson.loads(_close(schema)[0])["properties"]) == ["z", "a"]
