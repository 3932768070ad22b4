import tomllib
from decimal import Decimal
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slo.toml.line_numbers import Path as Place
from slo.toml.line_numbers import line_numbers

TEXT = r'''# a comment with [brackets] = and "quotes"
title = "a # no comment"

[owner]                     # line 4
name = 'a \'
"quoted \u0061.b" = 1
a.b = 2                     # line 7
a.c = 1.5

[[models]]
id = "one"
text = """
[not a table]
id = \"""no key"""
routes = [                  # line 15
  { upstream = "x", price = { input = "1" } },   # line 16
  # between
  { upstream = "y" },
]
[models.price]
input = "2"
[[models.price.changes]]
since = 2026-10-07
[[models]]
id = "two"                  # line 25
[models.price.deep]
dates = [2026-01-01,
  2026-01-02]
[[models.price.changes]]
late = 2026-10-07 08:00:00
nested = [[1], [2,
  3]]
'''


@pytest.mark.parametrize(
    ("place", "line"),
    [
        (("title",), 2),
        (("owner",), 4),
        (("owner", "name"), 5),
        (("owner", "quoted a.b"), 6),
        (("owner", "a"), 7),
        (("owner", "a", "b"), 7),
        (("owner", "a", "c"), 8),
        (("models",), 10),
        (("models", 0), 10),
        (("models", 0, "id"), 11),
        (("models", 0, "text"), 12),
        (("models", 0, "routes"), 15),
        (("models", 0, "routes", 0, "price", "input"), 16),
        (("models", 0, "routes", 1), 18),
        (("models", 0, "price"), 20),
        (("models", 0, "price", "changes", 0, "since"), 23),
        (("models", 1), 24),
        (("models", 1, "id"), 25),
        (("models", 1, "price"), 26),
        (("models", 1, "price", "deep", "dates", 1), 28),
        (("models", 1, "price", "changes", 0, "late"), 30),
        (("models", 1, "price", "changes", 0, "nested", 1, 1), 32),
    ],
)
def test_every_entry_stands_on_its_line(place: Place, line: int) -> None:
    tomllib.loads(TEXT)
    assert line_numbers(TEXT)[place] == line


def places(value: object, path: Place = ()) -> list[Place]:
    if isinstance(value, dict):
        return [path, *(p for key, element in value.items() for p in places(element, (*path, key)))]
    if isinstance(value, list):
        return [path, *(p for i, element in enumerate(value) for p in places(element, (*path, i)))]
    return [path]


def test_every_key_of_the_shipped_catalog_is_found_on_its_line() -> None:
    source = (Path(__file__).resolve().parents[3] / "proxy/catalog/models.toml").read_text()
    lines = line_numbers(source)
    expected = set(places(tomllib.loads(source))) - {()}
    assert set(lines) == expected
    rows = source.splitlines()
    for place, line in lines.items():
        if isinstance(place[-1], str):
            assert place[-1] in rows[line - 1]


values = st.recursive(
    st.integers() | st.booleans() | st.text("ab#[]{}=,.\"'\\\n", max_size=6),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text('ab."# =[', max_size=3), inner)
    ),
    max_leaves=8,
)


def write_toml(value: object, newline: str) -> str:
    """The value as TOML; arrays spread over lines where ``newline`` is one."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return quote(value)
    if isinstance(value, list):
        inside = ",".join(newline + write_toml(element, newline) for element in value)
        return f"[{inside}{newline}]"
    if isinstance(value, dict):
        inside = ", ".join(
            f"{quote(key)} = {write_toml(member, '')}" for key, member in value.items()
        )
        return f"{{{inside}}}"
    return str(value)


def quote(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'


@pytest.mark.slow
@given(st.dictionaries(st.text("abc", min_size=1, max_size=3), values), st.sampled_from(["", "\n"]))
def test_any_document_is_found_whole(document: dict[str, object], newline: str) -> None:
    text = "".join(
        f"{key} = {write_toml(member, newline)} # [x\n" for key, member in document.items()
    )
    assert tomllib.loads(text, parse_float=Decimal) == document
    assert set(line_numbers(text)) == set(places(document)) - {()}
