"""Schemas, of pydantic among others, rewritten to what providers take."""

import json
import re
from typing import Any

import orjson
import pytest
from anthropic import transform_schema
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw
from pydantic import TypeAdapter

from proxy.providers.fitting.schema_fitting import FittedSchema, InliningBudget, fit_schema
from proxy.providers.fitting.schema_rules import (
    ANTHROPIC,
    DEEPSEEK,
    GEMINI,
    GOOGLE_CHAT,
    XAI,
    SchemaRules,
)
from tests.proxy.providers.fitting.schemas import Order, Part, TreeNode, fitted_schema

_OPEN: dict[str, Any] = {"type": "object"}
_SHUT: dict[str, Any] = {"type": "object", "additionalProperties": False}
#: Numbers in descriptions, by keyword.
_CONSTRAINT = re.compile(r"(\w+): (\d+)")
_RULES = (ANTHROPIC, GEMINI, GOOGLE_CHAT, XAI, DEEPSEEK)


def subschemas(schema: object) -> list[dict[str, Any]]:
    """A schema and all within it, by the keywords that these tables take."""
    if not isinstance(schema, dict):
        return []
    inner: list[Any] = [schema.get("items"), schema.get("additionalProperties")]
    for name in ("properties", "$defs", "definitions"):
        value = schema.get(name)
        inner += value.values() if isinstance(value, dict) else ()
    for name in ("anyOf", "allOf", "oneOf", "prefixItems"):
        value = schema.get(name)
        inner += value if isinstance(value, list) else ()
    return [
        schema,
        *(subschema for inner_schema in inner for subschema in subschemas(inner_schema)),
    ]


def refused_keywords(schema: object, rules: SchemaRules) -> list[str]:
    return [
        name
        for subschema in subschemas(schema)
        for name, value in subschema.items()
        if name not in rules.keywords or not rules.keywords[name](value, subschema)
    ]


@pytest.mark.parametrize("rules", _RULES)
@pytest.mark.parametrize("model", [Part, Order, TreeNode])
def test_pydantic_models_hold_only_what_the_provider_takes(model, rules):
    schema, fitted = fitted_schema(model.model_json_schema(), rules)

    assert fitted.moved or (rules in (GOOGLE_CHAT, XAI) and model is Part)
    assert refused_keywords(schema, rules) == []
    again = fit_schema(fitted.schema, rules)
    assert again.schema is fitted.schema
    assert again.moved == ()


@pytest.mark.parametrize("model", [Part, Order, TreeNode])
def test_descriptions_say_the_constraints_that_anthropics_own_sdk_says(model):
    schema, _ = fitted_schema(model.model_json_schema(), ANTHROPIC)
    own = transform_schema(model)

    def constraints(root: object) -> set[tuple[str, str]]:
        texts = (str(subschema.get("description", "")) for subschema in subschemas(root))
        return {entry for text in texts for entry in _CONSTRAINT.findall(text)}

    assert constraints(schema) == constraints(own)
    assert len(constraints(schema)) > 1
    assert schema["additionalProperties" if model is not TreeNode else "$ref"] == own.get(
        "additionalProperties", own.get("$ref")
    )


def test_anthropic_gets_bounds_in_the_description():
    given_schema = {"type": "integer", "minimum": 1, "maximum": 10, "description": "A number"}
    schema, fitted = fitted_schema(given_schema, ANTHROPIC)

    assert schema == transform_schema(given_schema)
    assert schema["description"] == "A number\n\n{minimum: 1, maximum: 10}"
    assert fitted.notes("response_format") == [
        "said minimum, maximum of response_format in descriptions: the model takes no such keywords"
    ]


def test_schema_that_anthropics_sdk_has_transformed_stays_byte_for_byte():
    for model in (Part, Order):
        raw = Raw(orjson.dumps(transform_schema(model)))
        assert fit_schema(raw, ANTHROPIC).schema is raw


def test_reference_keeps_what_stands_beside_it():
    schema, _ = fitted_schema(Order.model_json_schema(), ANTHROPIC)

    assert schema["properties"]["main"] == {
        "anyOf": [{"$ref": "#/$defs/Part"}],
        "description": "The main part",
    }


def test_googles_older_schema_gets_definitions_in_place_of_references():
    schema, _ = fitted_schema(Order.model_json_schema(), GOOGLE_CHAT)
    properties = schema["properties"]

    assert b"$ref" not in orjson.dumps(schema)
    assert properties["main"]["properties"]["count"]["minimum"] == 1
    assert properties["main"]["description"] == "The main part"
    assert properties["spare"]["nullable"] is True
    assert properties["spare"]["properties"].keys() == {"sku", "count"}
    assert (properties["code"]["type"], properties["code"]["nullable"]) == ("string", True)
    assert properties["only"]["enum"] == ["order"]
    assert properties["level"]["description"] == "{enum: [1,2]}"
    assert properties["even"]["minimum"] == 1
    assert properties["price"]["description"] == "{exclusiveMaximum: 10, exclusiveMinimum: 0}"


@pytest.mark.parametrize(
    ("given_schema", "expected"),
    [
        ({"type": ["string", "null"]}, {"type": "string", "nullable": True}),
        (
            {"type": ["string", "integer"]},
            {"anyOf": [{"type": "string"}, {"type": "integer"}]},
        ),
        ({"propertyNames": {"pattern": "a"}}, {"description": '{propertyNames: {"pattern":"a"}}'}),
        ({"type": "object", "additionalProperties": False, "$schema": "x"}, {"type": "object"}),
        ({"oneOf": [{"type": "string"}]}, {"anyOf": [{"type": "string"}]}),
        (
            {"allOf": [{"$ref": "#/$defs/A"}], "$defs": {"A": {"type": "string"}}},
            {"type": "string"},
        ),
        ({"$ref": "#/nowhere"}, {"type": "object", "description": "{$ref: nowhere}"}),
        (
            {"type": "string", "format": "uri", "description": "A page"},
            {"type": "string", "description": "A page\n\n{format: uri}"},
        ),
        ({"type": "string", "format": "date-time"}, {"type": "string", "format": "date-time"}),
        ({"enum": ["a", "b"]}, {"type": "string", "enum": ["a", "b"]}),
        (
            {"type": ["string", "null"], "enum": ["a", None]},
            {"type": "string", "enum": ["a"], "nullable": True},
        ),
        ({"type": "integer", "enum": ["1"]}, {"type": "integer", "description": '{enum: ["1"]}'}),
        (
            {"$ref": "#/definitions/A~1B", "definitions": {"A/B": {"type": "string"}}},
            {"type": "string"},
        ),
        (
            {"$ref": "#/definitions/A~0%3CB%3E", "definitions": {"A~<B>": {"type": "string"}}},
            {"type": "string"},
        ),
        (
            {
                "anyOf": [{"type": "string"}],
                "properties": {"a": {"$ref": "#/anyOf/0"}, "b": {"$ref": "#/anyOf/" + "9" * 5_000}},
            },
            {
                "anyOf": [{"type": "string"}],
                "properties": {
                    "a": {"type": "string"},
                    "b": {"type": "object", "description": "{$ref: " + "9" * 5_000 + "}"},
                },
            },
        ),
        (
            {"$ref": "#/$defs/A", "anyOf": [{"type": "integer"}], "$defs": {"A": {"anyOf": []}}},
            {"anyOf": [], "description": '{anyOf: [{"type":"integer"}]}'},
        ),
        (
            {"type": "object", "allOf": [{"type": "string"}]},
            {"type": "object", "description": '{allOf: [{"type":"string"}]}'},
        ),
    ],
)
def test_googles_older_schema_says_it_in_its_own_words(given_schema, expected):
    assert fitted_schema(given_schema, GOOGLE_CHAT)[0] == expected


def definitions_in_a_circle(*names: str) -> dict[str, Any]:
    """A schema whose definitions refer to one another in a circle."""
    pointers = [name.replace("/", "~1").replace("<", "%3C") for name in names]
    definitions = {
        name: {"type": "object", "properties": {"next": {"$ref": f"#/$defs/{following}"}}}
        for name, following in zip(names, [*pointers[1:], pointers[0]], strict=True)
    }
    return {"$defs": definitions, "$ref": f"#/$defs/{pointers[0]}"}


@pytest.mark.parametrize("rules", _RULES)
@pytest.mark.parametrize(
    ("given_schema", "is_recursive"),
    [
        (TreeNode.model_json_schema(), True),
        (definitions_in_a_circle("A", "B"), True),
        (definitions_in_a_circle("A/B<C"), True),
        ({"properties": {"a": {"$ref": "#"}}}, True),
        (Order.model_json_schema(), False),
    ],
)
def test_schema_that_refers_to_itself_is_recursive(given_schema, rules, *, is_recursive):
    assert fitted_schema(given_schema, rules)[1].is_recursive is is_recursive


@pytest.mark.parametrize("rules", [ANTHROPIC, GEMINI])
def test_reference_with_definitions_beside_it_is_fitted_once(rules):
    properties = {f"p{number}": {"type": "integer", "maximum": 9} for number in range(300)}
    definitions = {
        "X": {"type": "object", "properties": {"y": {"$ref": "#/definitions/Y"}}},
        "Y": {"type": "object", "properties": properties},
    }
    given_schema = {"$ref": "#/definitions/X", "description": "All", "definitions": definitions}
    schema, fitted = fitted_schema(given_schema, rules)

    assert schema["anyOf"] == [{"$ref": "#/definitions/X"}]
    assert fitted_schema({"$ref": "#/$defs/X", "$defs": definitions}, rules)[0].keys() == {
        "$ref",
        "$defs",
    }
    assert fitted.is_closed is (rules is ANTHROPIC)
    assert (len(fitted.moved) > 0) is (rules is ANTHROPIC)
    assert not fitted.is_recursive
    assert not fitted.is_too_deep


def test_alternatives_beside_a_reference_go_into_its_description():
    given_schema = {
        "anyOf": [{"type": "string"}],
        "$ref": "#/definitions/A",
        "definitions": {"A": {"type": "string"}},
    }
    for rules in (ANTHROPIC, GEMINI):
        schema, _ = fitted_schema(given_schema, rules)
        assert schema["anyOf"] == [{"$ref": "#/definitions/A"}]
        assert schema["description"] == '{anyOf: [{"type":"string"}]}'


def bomb(word_bytes: int) -> dict[str, Any]:
    """A schema whose definitions hold four references each to the next, with long words."""
    definitions = {
        f"D{number}": {
            "type": "object",
            "description": "x" * word_bytes,
            "properties": {letter: {"$ref": f"#/$defs/D{number - 1}"} for letter in "abcd"},
        }
        for number in range(1, 20)
    }
    return {"$defs": definitions | {"D0": {"type": "string"}}, "$ref": "#/$defs/D19"}


@pytest.mark.parametrize("word_bytes", [0, 500, 12_000])
def test_references_cannot_blow_a_schema_up(word_bytes):
    raw = orjson.dumps(bomb(word_bytes))
    fitted = fit_schema(Raw(raw), GOOGLE_CHAT)

    assert len(bytes(fitted.schema)) < 4 * len(raw) + 256 * 1024
    assert b"$ref: D" in bytes(fitted.schema)
    assert fitted.moved == ("$ref",)


def test_schemas_of_a_call_share_what_references_may_add():
    raw = Raw(orjson.dumps(bomb(1_000)))
    budget = InliningBudget(0)
    sizes = [len(bytes(fit_schema(raw, GOOGLE_CHAT, budget).schema)) for _ in range(9)]

    assert sum(sizes) < 300 * 1024
    assert sizes[0] > 10 * sizes[8]


@pytest.mark.parametrize("rules", _RULES)
def test_schema_that_is_too_deep_is_left_with_a_note(rules):
    fitted = fit_schema(Raw(b'{"items":' * 5_000 + b"{}" + b"}" * 5_000), rules)

    assert fitted.notes("tools") == ["left a schema of tools unmodified: it is too deep to rewrite"]


@pytest.mark.parametrize(
    ("given_schema", "expected"),
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
def test_each_object_that_does_not_say_is_closed_with_a_note(given_schema, expected):
    schema, fitted = fitted_schema(given_schema, ANTHROPIC)

    assert schema == expected
    assert fitted.notes("response_format") == [
        "closed the objects of response_format: the model supports no others"
    ]


@pytest.mark.parametrize(
    "given_schema",
    [
        _SHUT,
        {"type": "object", "additionalProperties": True},
        {"type": "object", "additionalProperties": {"type": "string"}},
        {"type": "string", "enum": ["a"], "const": "a", "default": _OPEN},
        {"properties": 5, "anyOf": "x", "items": [], "type": ["string"]},
        TypeAdapter(str | None).json_schema(),
        5,
    ],
)
def test_schema_that_anthropic_takes_keeps_its_bytes(given_schema):
    raw = Raw(json.dumps(given_schema).encode())
    fitted = fit_schema(raw, ANTHROPIC)

    assert fitted == FittedSchema(raw)
    assert fitted.notes("x") == []


@pytest.mark.parametrize("raw", [b"{", b'"\xff"', b"[" * 100_000, b'{"items":' * 5_000])
@pytest.mark.parametrize("rules", _RULES)
def test_an_unreadable_schema_is_left_unmodified(raw, rules):
    assert bytes(fit_schema(Raw(raw), rules).schema) == raw


_NAMES = st.sampled_from(
    [
        "type", "properties", "items", "anyOf", "oneOf", "allOf", "$ref", "$defs", "enum", "const",
        "minimum", "exclusiveMinimum", "minItems", "format", "nullable", "additionalProperties",
        "prefixItems", "not", "description", "definitions",
    ]
)  # fmt: skip
_VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(0, 3)
    | st.sampled_from(
        ["string", "object", "integer", "null", "#", "#/$defs/a", "#/$defs/type", "a"]
    ),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(_NAMES, inner, max_size=4)
        | st.dictionaries(st.sampled_from(["a", "type"]), inner, max_size=2)
    ),
    max_leaves=16,
)


@pytest.mark.parametrize("rules", _RULES)
@given(schema=st.dictionaries(_NAMES, _VALUES, max_size=6))
def test_any_schema_is_fitted_once_and_for_all(schema, rules):
    once, fitted = fitted_schema(schema, rules)

    assert refused_keywords(once, rules) == []
    assert orjson.loads(bytes(fit_schema(fitted.schema, rules).schema)) == once
