from enum import StrEnum

import pytest

from proxy.catalog.source import parse
from slo.policies.table import (
    PolicyMistake,
    TableReader,
    describe_value,
    nanos_of_dollars,
    suggestion,
    whole_number,
)


class Fruit(StrEnum):
    APPLE = "apple"
    PEAR = "pear"


def table(text: str, *known: str) -> tuple[TableReader, list[PolicyMistake]]:
    mistakes: list[PolicyMistake] = []
    return TableReader(parse(text, "f.toml"), "it", known, mistakes), mistakes


def test_an_entry_nobody_knows_is_a_mistake() -> None:
    _, mistakes = table("nmae = 1\n", "name")
    assert [str(each) for each in mistakes] == [
        "f.toml:1: it.nmae: is not known; did you mean name?"
    ]


def test_the_tables_of_an_array_know_where_they_stand() -> None:
    read, mistakes = table("a = [\n{ b = 1 },\n{ c = 2 },\n3]\n", "a")
    (first, _, _) = read.tables("a", ("b",))
    first.add_mistake("b", "is bad", "mend it")
    assert [str(each) for each in mistakes] == [
        "f.toml:3: it.a[1].c: is not known; known are: b",
        "f.toml:4: it.a[2]: is 3; write a table",
        "f.toml:2: it.a[0].b: is bad; mend it",
    ]


def test_an_absent_key_has_its_default() -> None:
    read, mistakes = table("", "a")
    assert (read.tables("a", ()), read.array("a")) == ([], [])
    assert (read.flag("a", default=True), read.text("a", "x")) == (True, None)
    assert (read.choice("a", Fruit, Fruit.PEAR), read.whole_number("a")) == (Fruit.PEAR, None)
    assert mistakes == []


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ("1", 'is 1; write a = "apple"'),
        ('"aple"', 'is the string "aple"; did you mean apple?'),
        (f'"{"x" * 300}"', "is too long; write 256 characters at most"),
    ],
)
def test_an_invalid_choice_is_a_mistake_and_gets_its_default(written: str, said: str) -> None:
    read, mistakes = table(f"a = {written}\n", "a")
    assert read.choice("a", Fruit, Fruit.PEAR) is Fruit.PEAR
    assert [str(each) for each in mistakes] == [f"f.toml:1: it.a: {said}"]


@pytest.mark.parametrize(
    ("value", "nanos"),
    [("0.05", 50_000_000), (2, 2_000_000_000), ("1e3", None), (0.5, None), (True, None)],
)
def test_dollars_are_exact_or_none(value: object, nanos: int | None) -> None:
    assert nanos_of_dollars(value) == nanos


def test_a_whole_number_is_no_flag() -> None:
    assert [whole_number(each) for each in (3, True, 3.0, "3")] == [3, None, None, None]


def test_values_are_spoken_of_as_toml_has_them() -> None:
    values: tuple[object, ...] = ({}, [], True, 3, "x", "y" * 50)
    told = ["a table", "an array", "true", "3", 'the string "x"', f'the string "{"y" * 40}…"']
    assert [describe_value(each) for each in values] == told


def test_advice_is_what_comes_close_or_all_there_is() -> None:
    assert suggestion("teem", ["team", "key"]) == "did you mean team?"
    assert suggestion("x", ["team", "key"]) == "known are: team, key"
