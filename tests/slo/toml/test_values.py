"""Values that were written are read as the same again."""

import tomllib
from datetime import date

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slo.toml.values import toml_key, toml_value

PLAIN = st.text(st.characters(codec="utf-8")) | st.booleans() | st.integers(-(2**63), 2**63 - 1)
VALUES = st.recursive(
    PLAIN,
    lambda inner: st.lists(inner) | st.dictionaries(st.text(st.characters(codec="utf-8")), inner),
    max_leaves=8,
)


@given(VALUES)
def test_a_written_value_is_read_as_the_same(value):
    assert tomllib.loads(f"key = {toml_value(value)}") == {"key": value}


@pytest.mark.parametrize(
    ("key", "written"),
    [("gpt-5_4", "gpt-5_4"), ("gpt-5.4", '"gpt-5.4"'), ("", '""'), ("a = 1\n[b]", '"a = 1\\n[b]"')],
)
def test_a_key_is_bare_only_where_it_may_be(key, written):
    assert toml_key(key) == written


def test_a_day_is_written_bare():
    assert toml_value({"since": date(2027, 1, 1)}) == "{ since = 2027-01-01 }"


def test_a_character_that_json_leaves_and_toml_forbids_is_escaped():
    assert toml_value("a\x7f") == '"a\\u007f"'
