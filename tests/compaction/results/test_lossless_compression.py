import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from compaction.reading.message import CannotCompactError
from compaction.results.json_values import parse_json
from compaction.results.lossless_compression import (
    compress_fully,
    compress_result,
    one_line_json,
    parse_result,
)

MAX_REMAINING_SHARE = 0.9

ORDERS = [
    {"order_id": f"#W{number}", "status": "shipped", "total": f"{number}.10"} for number in range(9)
]


@given(st.text() | st.lists(st.dictionaries(st.text(), st.text())).map(json.dumps))
def test_a_text_stays_or_a_tenth_is_saved(text):
    compressed = compress_result(text)

    assert compressed == text or len(compressed) <= MAX_REMAINING_SHARE * len(text)


@given(st.lists(st.dictionaries(st.sampled_from(["id", "name"]), st.text('ab "é\n')), max_size=9))
def test_every_word_of_a_value_survives(items):
    text = json.dumps(items, indent=2)

    compressed = compress_result(text)

    assert all(
        json.dumps(member, ensure_ascii=False) in compressed or compressed == text
        for item in items
        for member in item.values()
    )


def test_numbers_keep_every_digit():
    text = json.dumps([{"identifier": 0, "amount": 1}] * 9).replace("1}", "1.10}")

    assert "1.10" in compress_result(text.replace("0,", "12345678901234567890123,"))
    assert "12345678901234567890123" in compress_result(
        text.replace("0,", "12345678901234567890123,")
    )


def test_words_around_json_stay():
    text = "Found these:\n" + json.dumps(ORDERS, indent=1) + "\nThat is all of them."

    compressed = compress_result(text)

    assert compressed.startswith('Found these:\n{"every_row":{"status":"shipped"},"columns":')
    assert compressed.endswith("\nThat is all of them.")


def test_json_inside_of_json_inside_of_words_is_said_once():
    text = "Now:\n" + json.dumps([ORDERS, {"more": ORDERS}], indent=1) + "\n"

    assert one_line_json(parse_json(text[5:])) in compress_result(text)


def test_small_or_broken_json_inside_of_words_stays():
    text = 'Try\n{"a": 1}\nor\n{"a": \n' + "[1, 2\n" * 40

    assert compress_fully(text).startswith('Try\n{"a": 1}\nor\n{"a": ')


def test_a_line_an_object_becomes_one_table():
    text = "\n".join(map(json.dumps, ORDERS))

    assert compress_result(text) == one_line_json(parse_json(json.dumps(ORDERS)))


@pytest.mark.parametrize("text", ["plain", "", '{"a":', "[1", '{"a":1}\n[1]', "{a}\n{b}"])
def test_text_that_is_no_json_has_no_compact_json(text):
    with pytest.raises(CannotCompactError):
        parse_result(text)


def test_a_table_of_the_caller_is_only_said_without_white_space():
    text = json.dumps({"columns": ["a"], "rows": ORDERS}, indent=4)

    assert compress_result(text) == json.dumps(
        {"columns": ["a"], "rows": ORDERS}, separators=(",", ":")
    )


@pytest.mark.parametrize(
    "text",
    [
        "short",
        "[" * 60 + '"deep"' + "]" * 60,
        '{"twice":1,"twice":2,                                                          "b": 3}',
    ],
)
def test_a_result_that_cannot_be_written_again_stays(text):
    assert compress_result(text) == text


def test_errors_are_never_cut():
    text = "step 1 error: disk full\r 99%\n" + "\x1b[32mok\x1b[0m fine\n" * 30

    assert "error: disk full" in compress_result(text)


def test_half_a_letter_stays_escaped():
    text = json.dumps([{"half": "\ud800", "name": f"{number}"} for number in range(9)])

    assert '"\\ud800"' in compress_result(text)
    assert compress_result(text).encode()


def test_a_result_that_a_tenth_shortens_is_compressed_and_another_stays():
    value = json.dumps(["x" * 86], separators=(",", ":"))

    assert compress_result(value + " " * 10) == value
    assert compress_result(value + " " * 9) == value + " " * 9


def test_a_result_of_64_characters_is_compressed_and_a_shorter_one_stays():
    assert compress_result('{"a":1}'.ljust(64)) == '{"a":1}'
    assert compress_result('{"a":1}'.ljust(63)) == '{"a":1}'.ljust(63)


def test_the_first_eight_lines_that_may_begin_json_are_tried():
    value = json.dumps(ORDERS, indent=1)

    assert compress_fully("{x\n" * 7 + value) == "{x\n" * 7 + one_line_json(parse_json(value))
    assert compress_fully("{x\n" * 8 + value) == "{x\n" * 8 + value


def test_json_of_200_characters_inside_of_words_is_compressed_and_a_shorter_one_stays():
    value, shorter = (f'{{ "a": "{"x" * chars}" }}' for chars in (189, 188))

    assert len(value) == 200
    assert compress_fully(f"Words\n{value}\n") == f"Words\n{value.replace(' ', '')}\n"
    assert compress_fully(f"Words\n{shorter}\n") == f"Words\n{shorter}\n"
