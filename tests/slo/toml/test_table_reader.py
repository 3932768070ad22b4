from datetime import date
from enum import StrEnum

import pytest

from slo.toml.nodes import parse_toml
from slo.toml.problems import Problem
from slo.toml.table_reader import TableReader, checked_choice, describe_value, suggest_name

KNOWN = ("text", "count", "flag", "day", "list", "table", "choice")


def fields(text: str) -> TableReader:
    return TableReader(parse_toml(text, "c.toml"), KNOWN, [])


def test_values_of_the_right_type_come_out_as_they_are() -> None:
    table = fields(
        'text = "a"\ncount = 3\nflag = true\nday = 2026-12-01\nlist = [1]\ntable.a = 1\n'
        'choice = "yes"'
    )
    assert table.text("text") == "a"
    assert table.get("count", int) == 3
    assert table.get("flag", bool) is True
    assert table.get("day", date) == date(2026, 12, 1)
    assert [node.value for node in table.elements("list")] == [1]
    assert [node.value for node in table.entries("table").values()] == [1]
    assert table.choice("choice", ["yes", "no"]) == "yes"
    assert table.problems == []


def test_absent_keys_are_empty_and_no_problem() -> None:
    table = fields("")
    assert (table.text("text"), table.choice("choice", [])) == (None, "")
    assert (table.elements("list"), table.entries("table")) == ([], {})
    assert table.get("count", int) is None
    assert table.problems == []


@pytest.mark.parametrize(
    ("written", "kind", "what", "fix"),
    [
        ("text = 3", str, "is 3", 'write a "string"'),
        ('count = "3"', int, 'is the string "3"', "write a whole number of 0 or more"),
        ("count = -3", int, "is -3", "write a whole number of 0 or more"),
        ("count = true", int, "is true", "write a whole number of 0 or more"),
        ("count = 3.0", int, "is 3.0", "write a whole number of 0 or more"),
        ("flag = 1", bool, "is 1", "write true or false"),
        ('day = "soon"', date, 'is the string "soon"', "write a day, such as 2026-12-01"),
        ("day = 2026-12-01T00:00:00Z", date, "is 2026-12-01 00:00:00+00:00", "write a day, such"),
        ("list = {}", list, "is a table", "write an [ array ]"),
        ("table = []", dict, "is an array", "write a { table }"),
    ],
)
def test_value_of_another_type_is_reported_with_its_fix(
    written: str, kind: type, what: str, fix: str
) -> None:
    table = fields(written)
    assert table.get(written.split(" ", maxsplit=1)[0], kind) is None
    assert len(table.problems) == 1
    assert table.problems[0].what == what
    assert table.problems[0].fix.startswith(fix)


def test_array_written_as_tables_is_reported_with_how_to_name_them() -> None:
    table = fields('[list."house-llm"]\nupstream = "gpu"')

    assert table.elements("list", named_by="id") == []
    assert str(table.problems[0]).endswith(
        'list: is a table; write [[list]] before each, and id = "house-llm" in it'
    )


def test_unknown_key_is_reported_with_the_nearest_known_one() -> None:
    assert (
        str(fields('\ntxet = "a"').problems[0])
        == "c.toml:2: txet: is not known; did you mean text?"
    )


def test_a_value_that_is_no_table_has_no_fields() -> None:
    problems: list[Problem] = []
    table = TableReader(parse_toml("a = 1", "c.toml").value["a"], KNOWN, problems)
    assert table.nodes == {}
    assert [problem.fix for problem in problems] == ["write a { table }"]


def test_a_name_must_be_one_of_those_known() -> None:
    problems: list[Problem] = []
    nodes = parse_toml('a = "opanai"\nb = 1\nc = ""', "c.toml").value
    assert [checked_choice(node, {"openai"}, problems) for node in nodes.values()] == ["", "", ""]
    assert [problem.what for problem in problems] == [
        'names "opanai", which is not known',
        "is 1",
        'names "", which is not known',
    ]


def test_a_name_that_is_no_string_is_answered_with_those_known() -> None:
    problems: list[Problem] = []
    node = parse_toml("a = [1]", "c.toml").value["a"].value[0]
    assert checked_choice(node, {"openai", "google"}, problems) == ""
    assert [str(problem) for problem in problems] == [
        "c.toml:1: a[0]: is 1; write one of google, openai"
    ]


def test_a_suggestion_is_the_nearest_name_or_else_all() -> None:
    assert suggest_name("opanai", ["openai", "google"]) == "did you mean openai?"
    assert suggest_name("zzz", ["openai", "google"]) == "known are: openai, google"
    assert suggest_name("zzz", {"openai", "google"}) == "known are: google, openai"
    assert suggest_name("zzz", []) == "known are: none"


def test_values_are_described_as_toml_writes_them_no_longer_than_a_line() -> None:
    values: tuple[object, ...] = ({}, [], True, 3, "x", "y" * 50, 10**60)
    assert [describe_value(value) for value in values] == [
        "a table",
        "an array",
        "true",
        "3",
        'the string "x"',
        f'the string "{"y" * 40}…"',
        f"1{'0' * 39}…",
    ]


def test_a_problem_of_an_absent_key_is_at_the_line_of_its_table() -> None:
    table = TableReader(parse_toml("\n[a]\ntext = 1\n", "c.toml").value["a"], KNOWN, [])
    table.add_problem("count", "is missing", "write count = 1")
    table.add_problem("text", "is odd", "check it", warning=True)
    assert [str(problem) for problem in table.problems] == [
        "c.toml:2: a.count: is missing; write count = 1",
        "c.toml:3: warning: a.text: is odd; check it",
    ]


def test_a_flag_is_its_default_where_the_key_is_absent_or_no_flag() -> None:
    table = fields("flag = false\ncount = 1")
    assert table.flag("flag", default=True) is False
    assert (table.flag("day", default=True), table.flag("count", default=True)) == (True, True)
    assert [problem.fix for problem in table.problems] == ["write true or false"]


def test_the_tables_of_an_array_know_their_name_and_line() -> None:
    read = fields("list = [\n{ b = 1 },\n{ c = 2 },\n3]\n")
    first, _, _ = read.tables("list", ("b",))
    first.add_problem("b", "is bad", "fix it")
    assert [str(problem) for problem in read.problems] == [
        "c.toml:3: list[1].c: is not known; known are: b",
        "c.toml:4: list[2]: is 3; write a { table }",
        "c.toml:2: list[0].b: is bad; fix it",
    ]


class Fruit(StrEnum):
    APPLE = "apple"
    PEAR = "pear"


@pytest.mark.parametrize(
    ("written", "problem"),
    [
        ("1", 'is 1; write choice = "apple"'),
        ('"aple"', 'names "aple", which is not known; did you mean apple?'),
        ('"x"', 'names "x", which is not known; known are: apple, pear'),
        (f'"{"x" * 300}"', "is too long; write 256 characters at most"),
    ],
)
def test_a_value_that_is_no_member_is_a_problem_and_its_default(written: str, problem: str) -> None:
    table = fields(f"choice = {written}\n")
    assert table.member("choice", Fruit, Fruit.PEAR) is Fruit.PEAR
    assert [str(problem) for problem in table.problems] == [f"c.toml:1: choice: {problem}"]


def test_a_member_is_missing_only_where_it_has_no_default() -> None:
    table = fields('choice = "pear"')
    assert table.member("choice", Fruit) is Fruit.PEAR
    assert table.member("text", Fruit, Fruit.APPLE) is Fruit.APPLE
    assert table.problems == []
    assert table.member("text", Fruit) is None
    assert str(table.problems[0]) == "c.toml:1: text: is missing; write one of apple, pear"


def test_a_text_is_answered_with_its_example_where_it_is_none() -> None:
    table = fields("text = 3\nchoice = 4")
    assert (table.text("text", "acme"), table.text("choice"), table.text("day")) == (None,) * 3
    assert [problem.fix for problem in table.problems] == [
        'write text = "acme"',
        'write a "string"',
    ]
