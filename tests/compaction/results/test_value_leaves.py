import json
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from compaction.reading.message import CannotCompactError
from compaction.results.json_values import MAX_DEPTH
from compaction.results.value_leaves import find_ids, is_identifier, leaf_strings, value_leaves

MAX_VALUE_CHARS = 160

IDS = [
    "QW4R7T",
    "KLT022",
    "lenas_mar_5150",
    "credit_card_1234987",
    "0b9f1d6e-2f3a-4c8e-9d10-5f6a7b8c9d0e",
    "da39a3ee5e6b4b0d",
    "mark.black-2134@gmail.com",
    "src/app/main.py",
    "../tests",
    "/etc/hosts",
    "report.pdf",
    "https://example.com/a?b=c",
    "s3://bucket/key",
    "C:\\Users\\me",
    "1234567",
    "#W9348897",
    "4111-1111-1111-1111",
    "snake_case",
    "CamelCase",
    "camelCase",
    "HTTPError",
    "module.name",
]
NO_IDS = [
    "word",
    "Berlin",
    "don't",
    "2024",
    "2024-05-17",
    "2024-05-17T10:00:00Z",
    "12/05/2024",
    "999",
    "10pm",
    "3rd",
    "15-minute",
    "1.5x",
    "e.g",
    "n/a",
    "...",
    "well-known",
    "x" * 300,
    "",
]
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=MAX_VALUE_CHARS),
    lambda inner: st.lists(inner) | st.dictionaries(st.sampled_from("abc"), inner),
)


def _leaves(value):
    if isinstance(value, dict | list):
        for member in value.values() if isinstance(value, dict) else value:
            yield from _leaves(member)
    elif value is not None and not isinstance(value, bool) and value != "":
        yield str(value)


@pytest.mark.slow
@given(st.lists(VALUES))
def test_the_leaves_of_json_are_its_values_in_order(value):
    assert value_leaves(json.dumps(value)) == tuple(dict.fromkeys(_leaves(value)))


@given(st.text())
def test_values_and_ids_stand_in_the_text_once(text):
    values, names = value_leaves(text), find_ids(text)

    assert len(set(values)) == len(values)
    assert len(set(names)) == len(names)
    assert all(name in text for name in names) or text.lstrip()[:1] in {"[", "{"}


@pytest.mark.parametrize("word", IDS)
def test_a_word_that_names_one_thing_is_an_id(word):
    assert is_identifier(word)
    assert find_ids(f"Look at {word}, please.") == (word,)
    assert word in value_leaves(f"Look at {word}, please.")


@pytest.mark.parametrize("word", NO_IDS)
def test_words_years_dates_and_measures_are_none(word):
    assert not is_identifier(word)


def test_ids_of_json_are_those_of_its_values_and_of_telling_keys():
    text = json.dumps({"first_name": "Sofia", "credit_card_77": {"user_id": "a_b_c_1"}})

    assert find_ids(text) == ("credit_card_77", "a_b_c_1")


def test_ids_of_the_arguments_of_several_calls_are_those_of_their_values():
    text = '{"user_id": "ann_bell", "text": "one\\nTwo\\nget_it"} {"file_id":"code_desk"}'

    assert find_ids(text) == ("ann_bell", "get_it", "code_desk")


@pytest.mark.parametrize("word", ["Credit/debit", "n/g", "s/a_b/c/g", "y/abc_d/efg"])
def test_choices_and_expressions_of_sed_are_no_paths(word):
    assert not is_identifier(word)


def test_telling_keys_are_values():
    text = json.dumps({"T-Shirt": "9523456873", "plain_key": {"2024-05-17": "available"}})

    assert value_leaves(text) == ("T-Shirt", "9523456873", "2024-05-17", "available")


def test_the_end_of_an_element_is_no_path():
    assert find_ids("<b>bold</b></INFORMATION>") == ()


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("due on 2024-05-17 14:30:00 sharp", "2024-05-17 14:30:00"),
        ("due on May 17, 2024 sharp", "May 17, 2024"),
        ("due on 17th of May or 3 June 2024", "3 June 2024"),
        ("it costs $1,250.50 now", "$1,250.50"),
        ("it costs 99 EUR now", "99 EUR"),
        ("it grew 12.5% so", "12.5%"),
        ("call (555) 123-4567 now", "(555) 123-4567"),
        ("call +49 30 1234 5678 now", "+49 30 1234 5678"),
        ("leave at 10:45 PM today", "10:45 PM"),
        ("leave at 7 pm today", "7 pm"),
        ("version v2.3.1 is out", "v2.3.1"),
        ('the plan "Gold Plus" is', "Gold Plus"),
        ("ask Mei Brown for it", "Mei Brown"),
        ("then ask Berlin, too", "Berlin"),
        ("from JFK, then", "JFK"),
        ("room 42 is", "42"),
    ],
)
def test_values_of_plain_words_are_found(text, value):
    assert value in value_leaves(text)


def test_a_label_and_a_quote_leave_an_id_in_them_to_itself():
    assert value_leaves("See Reference KB-2203 of Mei Brown Z1X9") == (
        *("See Reference", "KB-2203", "Mei Brown", "Z1X9"),
    )
    assert value_leaves('the "see KB-2203 now" and "Gold Plus"') == ("KB-2203", "Gold Plus")


def test_a_long_string_counts_by_the_values_in_it():
    text = json.dumps({"body": "Your code is 463820. " + "Thanks for it. " * 40})

    assert value_leaves(text) == ("463820",)


def test_a_value_nested_too_deep_has_no_leaf_strings():
    with pytest.raises(CannotCompactError):
        leaf_strings(eval("[" * (MAX_DEPTH + 2) + "'a'" + "]" * (MAX_DEPTH + 2)))  # noqa: S307


@pytest.mark.parametrize(
    "piece",
    [".", "1,", "a_", "a_a-", "Ab ", '"', "/", "(12) ", "aB.", "'ab ", "A", "1-", "+1 11 ", "a@",
     "a://", " ", "</", "a.b/", "Jan ", "- ", "${"],
)  # fmt: skip
@pytest.mark.parametrize("finds", [find_ids, value_leaves])
def test_no_text_takes_long(piece, finds):
    text = piece * (30_000 // len(piece))

    before = time.process_time()
    finds(text)

    assert time.process_time() - before < 2


def test_a_string_of_160_characters_is_one_value_and_a_longer_one_is_searched():
    text = "the code is KB-2203".ljust(160, " ")

    assert value_leaves(json.dumps([text])) == (text,)
    assert value_leaves(json.dumps([f"{text} "])) == ("KB-2203",)


def test_a_word_of_256_characters_may_be_an_id_and_a_longer_one_is_none():
    assert is_identifier("a1" * 128)
    assert not is_identifier("a1" * 128 + "a")


def test_a_dotted_name_of_letters_has_at_least_six_characters():
    assert is_identifier("a.bcde")
    assert not is_identifier("a.bcd")
