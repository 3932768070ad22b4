from enum import StrEnum
from typing import Any

import pytest

from slo.toml.fields import Field, keys, one_of, read_fields, reference
from slo.toml.nodes import parse_toml
from slo.toml.problems import Problem
from slo.toml.table_reader import TableReader


class Colour(StrEnum):
    RED = "red"
    BLUE = "blue"


def _length(table: TableReader, field: Field) -> int | None:
    length = table.get(field.key, int)
    return None if length is None else length * 2


FIELDS = (
    Field("colour", Colour, None, "of the fruit", missing=one_of(Colour)),
    Field("label", str, "", "what is written on it", example="ripe"),
    Field("length", _length, 4, "in metres"),
    Field("sour", bool, False, "`true` for lemons"),  # noqa: FBT003 - the default
)


def read(text: str) -> tuple[dict[str, Any], list[str]]:
    problems: list[Problem] = []
    table = TableReader(parse_toml(text, "f"), keys(FIELDS), problems)
    return read_fields(table, FIELDS), [str(problem) for problem in problems]


def test_fields_are_read_by_their_types_and_readers() -> None:
    values, problems = read('colour = "blue"\nlabel = "x"\nlength = 3\nsour = true')

    assert values == {"colour": Colour.BLUE, "label": "x", "length": 6, "sour": True}
    assert problems == []


def test_absent_fields_have_their_defaults() -> None:
    assert read('colour = "red"')[0] == {
        "colour": Colour.RED,
        "label": "",
        "length": 4,
        "sour": False,
    }


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "f:1: colour: is missing; write one of red, blue"),
        ('colour = "rad"', 'f:1: colour: names "rad", which is not known; did you mean red?'),
        ('colour = "red"\nlabel = 1', 'f:2: label: is 1; write label = "ripe"'),
        ('colour = "red"\nlength = "x"', 'f:2: length: is the string "x"; write a whole'),
    ],
)
def test_problem_of_a_field_has_its_line_and_its_fix(text: str, problem: str) -> None:
    values, problems = read(text)

    assert [message[: len(problem)] for message in problems] == [problem]
    assert values["length"] == 4


def test_reference_shows_keys_defaults_and_meanings() -> None:
    assert reference(FIELDS).splitlines() == [
        "| Field | Default | Meaning |",
        "|---|---|---|",
        "| `colour` | required | of the fruit |",
        "| `label` | none | what is written on it |",
        "| `length` | `4` | in metres |",
        "| `sour` | `false` | `true` for lemons |",
    ]
