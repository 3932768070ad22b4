import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from compaction.reading.message import CannotCompactError
from compaction.results.json_tables import compact_json
from compaction.results.json_values import Number, parse_json, parse_json_at


@given(st.text() | st.lists(st.text()) | st.dictionaries(st.text(), st.none() | st.booleans()))
def test_a_value_is_what_its_text_says(value):
    assert parse_json(json.dumps(value)) == value


@pytest.mark.parametrize("spelled", ["1", "-0", "1.10", "1e400", "12345678901234567890123", "NaN"])
def test_a_number_keeps_its_spelling(spelled):
    number = parse_json(spelled)

    assert isinstance(number, Number)
    assert number == spelled


@pytest.mark.parametrize(
    "text", ["", "{", "words", '{"a":1,"a":2}', '[{"b":{"a":1,"a":1}}]', "[" * 100_000]
)
def test_json_that_cannot_be_written_again_without_loss_is_unreadable(text):
    with pytest.raises(CannotCompactError):
        parse_json(text)


def test_a_value_inside_of_words_says_where_it_ends():
    assert parse_json_at('see {"a": 1} there', 4) == ({"a": "1"}, 12)


def test_words_open_no_value():
    with pytest.raises(CannotCompactError):
        parse_json_at("see there", 4)


def test_a_value_is_written_again_up_to_48_levels_below_its_top():
    assert compact_json(parse_json("[" * 49 + "]" * 49)) == "[" * 49 + "]" * 49
    with pytest.raises(CannotCompactError):
        compact_json(parse_json("[" * 50 + "]" * 50))
