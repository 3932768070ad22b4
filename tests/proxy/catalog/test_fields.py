from datetime import date

import pytest

from proxy.catalog.fields import TableFields, checked_choice, describe_value, suggest_name
from proxy.catalog.problems import Problem
from proxy.catalog.source import parse

KNOWN = ("text", "count", "flag", "day", "list", "table", "choice")


def fields(text: str) -> TableFields:
    return TableFields(parse(text, "c.toml"), KNOWN, [])


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
    assert (table.text("text"), table.choice("choice", [])) == ("", "")
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
def test_values_of_another_type_are_said_with_their_fix(
    written: str, kind: type, what: str, fix: str
) -> None:
    table = fields(written)
    assert table.get(written.split(" ", maxsplit=1)[0], kind) is None
    assert len(table.problems) == 1
    assert table.problems[0].what == what
    assert table.problems[0].fix.startswith(fix)


def test_models_written_as_tables_are_said_with_how_to_name_them() -> None:
    table = fields('[list."house-llm"]\nupstream = "gpu"')

    assert table.elements("list", named_by="id") == []
    assert str(table.problems[0]).endswith(
        'list: is a table; write [[list]] before each, and id = "house-llm" in it'
    )


def test_an_unknown_key_is_said_with_what_was_meant() -> None:
    assert (
        str(fields('\ntxet = "a"').problems[0])
        == "c.toml:2: txet: is not known; did you mean text?"
    )


def test_what_should_be_a_table_and_is_none_has_no_fields() -> None:
    problems: list[Problem] = []
    table = TableFields(parse("a = 1", "c.toml").value["a"], KNOWN, problems)
    assert table.nodes == {}
    assert [problem.fix for problem in problems] == ["write a { table }"]


def test_a_name_must_be_one_of_those_known() -> None:
    problems: list[Problem] = []
    nodes = parse('a = "opanai"\nb = 1\nc = ""', "c.toml").value
    assert [checked_choice(node, {"openai"}, problems) for node in nodes.values()] == ["", "", ""]
    assert [problem.what for problem in problems] == [
        'names "opanai", which is not known',
        "is 1",
        'names "", which is not known',
    ]


def test_advice_names_the_nearest_or_else_all() -> None:
    assert suggest_name("opanai", ["openai", "google"]) == "did you mean openai?"
    assert suggest_name("zzz", ["openai", "google"]) == "known are: google, openai"
    assert suggest_name("zzz", []) == "known are: none"


def test_values_are_spoken_as_toml_writes_them() -> None:
    assert (describe_value({}), describe_value([]), describe_value("a")) == (
        "a table",
        "an array",
        'the string "a"',
    )
    assert (describe_value(True), describe_value(3)) == ("true", "3")  # noqa: FBT003 - the value is the point
