"""The checks of values that providers take of some keywords."""

import pytest

from proxy.providers.fitting.schema_rules import ANTHROPIC, GOOGLE_CHAT, types_of


@pytest.mark.parametrize(
    ("keyword", "value", "is_taken"),
    [
        ("minItems", 1, True),
        ("minItems", 2, False),
        ("enum", ["a", 1, None, True], True),
        ("enum", [["a"]], False),
        ("enum", "a", False),
        ("const", "a", True),
        ("const", {}, False),
        ("format", "uuid", True),
        ("format", "byte", False),
        ("pattern", r"^[A-Z]{3}\d+$", True),
        ("pattern", r"^.{1,32}$", True),
        ("pattern", r"^.{1,400}$", False),
        ("pattern", r"(?=a)", False),
        ("pattern", r"(a)\1", False),
        ("pattern", r"\bword\b", False),
        ("pattern", 5, False),
    ],
)
def test_anthropic_takes_some_values_of_a_keyword(keyword, value, is_taken):
    assert ANTHROPIC.keywords[keyword](value, {"type": "string"}) is is_taken


def test_anthropic_takes_formats_of_texts_alone():
    assert not ANTHROPIC.keywords["format"]("date", {"type": "integer"})
    assert ANTHROPIC.keywords["format"]("date", {"type": ["string", "null"]})


def test_googles_older_schema_takes_choices_of_texts_alone():
    assert GOOGLE_CHAT.keywords["enum"](["a", "b"], {"type": "string"})
    assert not GOOGLE_CHAT.keywords["enum"](["a", "b"], {"type": "integer"})
    assert not GOOGLE_CHAT.keywords["enum"](["a", "b"], {})
    assert not GOOGLE_CHAT.keywords["enum"]([1, 2], {"type": "string"})


@pytest.mark.parametrize(
    ("value", "kind", "is_taken"),
    [
        ("date-time", "string", True),
        ("enum", "string", True),
        ("uri", "string", False),
        ("int32", "string", False),
        ("int64", "integer", True),
        ("double", "number", True),
        ("date-time", None, False),
        (["date-time"], "string", False),
    ],
)
def test_googles_older_schema_takes_few_formats_of_each_type(value, kind, is_taken):
    assert GOOGLE_CHAT.keywords["format"](value, {"type": kind}) is is_taken


def test_types_are_named_by_one_word_or_a_list():
    assert [list(types_of({"type": kind})) for kind in ("a", ["a", 5, "b"], None)] == [
        ["a"],
        ["a", "b"],
        [],
    ]
