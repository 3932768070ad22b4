"""Made-up text, and JSON that satisfies a schema."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.tools.simulator.samples import (
    MARK,
    letters,
    pieces,
    prose,
    refusal,
    sample,
    seeded_random,
)


def sample_of(schema: dict[str, Any]) -> Any:
    return sample(schema, seeded_random(1))


def test_an_empty_schema_gives_an_object_that_says_it_is_simulated() -> None:
    assert sample_of({})["simulated"] is True


@pytest.mark.parametrize(
    ("schema", "kind"),
    [
        ({"type": "string"}, str),
        ({"type": "integer"}, int),
        ({"type": "number"}, int),
        ({"type": "boolean"}, bool),
        ({"type": "null"}, type(None)),
        ({"type": "array", "items": {"type": "string"}}, list),
        ({"type": "object"}, dict),
        ({"properties": {}}, dict),
        ({"type": ["string", "null"]}, str),
    ],
)
def test_each_type_is_met(schema: dict[str, Any], kind: type) -> None:
    assert type(sample_of(schema)) is kind


def test_every_property_is_there() -> None:
    schema = {"type": "object", "properties": {"a": {"type": "string"}, "b": {"const": 4}}}

    sampled = sample_of(schema)

    assert sampled["b"] == 4
    assert sampled["a"].startswith("[simulated]")


def test_enums_formats_lengths_and_unions_are_kept() -> None:
    assert sample_of({"enum": ["x"]}) == "x"
    assert sample_of({"type": "string", "format": "date"}) == "2026-11-21"
    assert len(sample_of({"type": "string", "minLength": 90})) == 90
    assert len(sample_of({"type": "string", "maxLength": 5})) == 5
    assert sample_of({"anyOf": [{"const": 1}, {"const": 2}]}) == 1
    assert sample_of({"oneOf": [{"const": 1}]}) == 1
    assert len(sample_of({"type": "array", "items": {"const": 1}, "maxItems": 1})) == 1
    assert sample_of({"type": "array", "items": {"const": 1}, "minItems": 3}) == [1, 1, 1]


@given(seed=st.integers(), low=st.integers(-50, 50), span=st.integers(0, 50))
def test_numbers_stay_within_their_bounds(seed: int, low: int, span: int) -> None:
    schema = {"type": "integer", "minimum": low, "maximum": low + span}
    sampled = sample(schema, seeded_random(seed))

    assert isinstance(sampled, int)
    assert low <= sampled <= low + span


def test_exclusive_bounds_and_steps_are_kept() -> None:
    assert sample_of({"type": "integer", "exclusiveMinimum": 3, "exclusiveMaximum": 5}) == 4
    assert sample_of({"type": "integer", "minimum": 3, "maximum": 9, "multipleOf": 5}) == 5


def test_references_are_followed() -> None:
    schema = {
        "type": "object",
        "properties": {"a": {"$ref": "#/$defs/name"}},
        "$defs": {"name": {"const": "n"}},
    }

    assert sample_of(schema) == {"a": "n"}


@pytest.mark.parametrize(
    "following",
    [
        {"anyOf": [{"$ref": "#"}, {"type": "null"}]},
        {"type": "array", "items": {"$ref": "#"}},
        {"$ref": "#"},
    ],
)
def test_a_schema_that_refers_to_itself_ends(following: dict[str, Any]) -> None:
    schema = {
        "type": "object",
        "properties": {"name": {"const": "n"}, "next": following},
        "required": ["name"],
    }

    assert sample_of(schema)["name"] == "n"


def test_a_nullable_type_ends_a_deep_schema() -> None:
    schema: dict[str, Any] = {
        "type": ["object", "null"],
        "properties": {"next": {"$ref": "#"}},
        "required": ["next"],
    }

    node, depth = sample_of(schema), 0
    while node is not None:
        node, depth = node["next"], depth + 1

    assert depth > 3


@given(seed=st.integers(), words=st.integers(0, 400))
def test_prose_is_marked_and_about_as_long_as_asked(seed: int, words: int) -> None:
    text = prose(seeded_random(seed), "", words)

    assert text.startswith(MARK)
    assert text.endswith(".")
    assert words <= len(text.split()) <= max(words, 0) + 30


def test_prose_is_always_the_same_for_the_same_dice() -> None:
    assert prose(seeded_random(3), "the warranty", 40) == prose(
        seeded_random(3), "the warranty", 40
    )
    assert prose(seeded_random(3), "", 40) != prose(seeded_random(4), "", 40)


def test_prose_mentions_what_it_is_about() -> None:
    assert "warranty" in prose(seeded_random(3), "Is the warranty on?", 10)


def test_a_refusal_is_marked_too() -> None:
    assert refusal().startswith(MARK)


@given(text=st.text())
def test_pieces_join_to_the_text_again(text: str) -> None:
    assert "".join(pieces(text)) == (text if text.strip() else "")


def test_a_piece_is_a_few_words() -> None:
    assert pieces("one two three four ") == ["one two three", " four "]


@given(text=st.text(max_size=60), seed=st.integers(0, 100))
def test_runs_of_letters_join_to_their_text_and_repeat_for_a_seed(text: str, seed: int) -> None:
    runs = letters(text, seed)

    assert "".join(runs) == text
    assert all(1 <= len(run) <= 7 for run in runs)
    assert runs == letters(text, seed)
