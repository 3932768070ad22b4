import msgspec
import pytest

from slo.policies.entries import MAX_ENTRIES, name_field, read_entries
from slo.toml.fields import Field, read_fields
from slo.toml.nodes import parse_toml
from slo.toml.problems import Problem
from slo.toml.table_reader import TableReader


class Entry(msgspec.Struct, frozen=True):
    name: str
    size: int


FIELDS = (name_field("example"), Field("size", int, 0, "its length"))


def read(table: TableReader) -> Entry:
    return Entry(**read_fields(table, FIELDS))


def entries(text: str) -> tuple[tuple[Entry, ...], list[str]]:
    problems: list[Problem] = []
    top = TableReader(parse_toml(text, "f.toml"), ("fruits",), problems)
    return read_entries(top, "fruits", FIELDS, read), [str(problem) for problem in problems]


def test_entries_come_in_the_order_of_the_file() -> None:
    assert entries('[[fruits]]\nname = "b"\nsize = 2\n[[fruits]]\nname = "a"\n') == (
        (Entry("b", 2), Entry("a", 0)),
        [],
    )
    assert entries("") == ((), [])


@pytest.mark.parametrize(
    ("table", "problem"),
    [
        ("", '1: fruits[0].name: is missing; write name = "example", or another'),
        ("name = 3", '2: fruits[0].name: is 3; write name = "example"'),
        ('name = "a b"', '2: fruits[0].name: is the string "a b"; write up to 64 letters, digits'),
        ('name = "a/b"', '2: fruits.a/b.name: is the string "a/b"; write up to 64 letters, digi'),
        ('name = "a"\nsise = 1', "3: fruits.a.sise: is not known; did you mean size?"),
    ],
)
def test_a_problem_of_an_entry_is_named_by_the_entry(table: str, problem: str) -> None:
    (message,) = entries(f"[[fruits]]\n{table}\n")[1]
    assert message.startswith(f"f.toml:{problem}")


def test_a_second_entry_of_one_name_is_a_problem() -> None:
    _, problems = entries('[[fruits]]\nname = "a"\n' * 2)
    assert problems == [
        "f.toml:4: fruits.a.name: names a second fruit; give each a name of its own"
    ]


def test_entries_beyond_the_limit_are_one_problem_and_are_not_read() -> None:
    text = "".join(f'[[fruits]]\nname = "a{i}"\n' for i in range(MAX_ENTRIES + 2))
    fruits, problems = entries(text)
    assert len(fruits) == MAX_ENTRIES
    assert problems == ["f.toml:2001: fruits: are over 1,000; merge some"]
