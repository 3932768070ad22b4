import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from compaction.results.result_lines import one_line, pruned_result_line, result_line

MAX_PROSE_CHARS = 600
MAX_TEXT_CHARS = 1_200

ORDERS: list[dict[str, object]] = [
    {"order_id": f"#W{number}", "status": "shipped", "note": None, "gift": False, "tags": []}
    for number in range(1, 9)
]
ENDS = st.text(alphabet="ab\n\r\x0b\x0c\x1c\x85\u2028\u2029 {}[]\"':1,")


@given(ENDS | st.text() | st.lists(ENDS).map(json.dumps))
def test_every_form_of_a_result_is_one_line(text):
    for line in (result_line(text), pruned_result_line(text), one_line(text)):
        assert len(line.splitlines()) <= 1


@given(st.lists(st.dictionaries(st.sampled_from(["id", "name"]), st.text("abc é", max_size=9))))
def test_a_record_of_json_keeps_every_value(items):
    line = result_line(json.dumps(items))

    assert all(member in line for item in items for member in item.values())


@given(st.text(max_size=400))
def test_a_short_text_is_kept_whole(text):
    assert result_line(text.strip()).split() or not text.split()


def test_a_record_says_json_with_its_bindings():
    assert result_line(json.dumps(ORDERS[:1], indent=2)) == (
        '[{"order_id":"#W1","status":"shipped","note":null,"gift":false,"tags":[]}]'
    )


def test_a_long_text_keeps_its_ends_and_the_ids_between():
    text = (
        "It began.\n"
        + "".join(f"words\nand {number} " for number in range(200))
        + "\norder #W77\n"
        + "words " * 200
        + "It ended."
    )

    line = result_line(text)

    assert line.startswith("It began. ¶ words ¶ and 0 words")
    assert line.endswith("It ended.")
    assert "order #W77" in line
    assert "characters cut…]" in line
    assert len(line) < MAX_TEXT_CHARS + 100


def test_a_long_text_without_ids_says_only_what_is_cut():
    assert "characters cut…]" in result_line("words " * 500)


def test_as_many_ids_of_a_cut_text_stay_as_fit():
    line = result_line(
        "words\n" * 300 + "\n".join(f"id_{number}" for number in range(900)) + "\nwords" * 300
    )

    assert len(line) < MAX_TEXT_CHARS + 800
    assert "id_0 ¶ id_1" in line


def test_text_of_names_and_values_is_kept_further():
    text = "\n".join(f"id: '{number}'\nsubject: lunch {number}" for number in range(100))

    assert result_line(text) == text.replace("\n", " ¶ ")


def test_text_of_names_and_values_loses_its_empty_members_and_no_numbered_line():
    text = "id: '3'\nbcc: []\nread: false\nno name\nsubject: lunch\n"

    assert result_line(text) == pruned_result_line(text) == "id: '3' ¶ no name ¶ subject: lunch"
    assert result_line("12: []\n" * 2 + "words") == "12: [] ¶ 12: [] ¶ words"


def test_an_outline_is_said_as_json():
    text = "- id: '3'\n  bcc: []\n  subject: lunch\n- id: '4'\n  bcc: []\n  subject: dinner\n"

    assert result_line(text) == (
        '[{"id":"3","bcc":[],"subject":"lunch"},{"id":"4","bcc":[],"subject":"dinner"}]'
    )
    assert (
        pruned_result_line(text) == '[{"id":"3","subject":"lunch"},{"id":"4","subject":"dinner"}]'
    )


def test_pruning_leaves_out_what_says_nothing():
    assert pruned_result_line(json.dumps(ORDERS)) == (
        '{"every_row":{"status":"shipped"},"columns":["order_id"],"rows":'
        + json.dumps([[f"#W{number}"] for number in range(1, 9)], separators=(",", ":"))
        + "}"
    )


def test_pruning_names_what_prose_names_and_cuts_what_was_spoken_of():
    sentence = "It is of #W12."
    prose = "words " * 150 + f".\n{sentence}\n" + "words " * 50

    assert (
        json.loads(pruned_result_line(json.dumps({"id": "a1", "body": prose})))["body"] == sentence
    )
    pruned = json.loads(
        pruned_result_line(json.dumps({"body": prose}), frozenset({"words", "#W12"}))
    )
    assert "#W12" in pruned["body"]
    assert len(pruned["body"]) < 2 * MAX_PROSE_CHARS


def test_pruning_keeps_half_of_a_long_text():
    assert len(pruned_result_line("words " * 500)) < MAX_TEXT_CHARS // 2 + 100


@pytest.mark.parametrize("text", ["[" * 60 + "1" + "]" * 60, "{broken"])
def test_a_result_that_is_no_value_is_pruned_as_text(text):
    assert pruned_result_line(text) == result_line(text) == text


def test_line_ends_that_json_lets_stand_are_escaped():
    assert result_line('["a\u2028b"]') == '["a\\u2028b"]'


def test_no_row_of_a_long_table_is_cut_in_two():
    rows = [f"{number},owner{number},{1_200_000 + number * 1_111},open" for number in range(1, 90)]

    for text in (result_line("\n".join(rows)), pruned_result_line("\n".join(rows))):
        lines = [line for line in text.split(" ¶ ") if not line.startswith("[…")]
        assert set(lines) <= set(rows)


def words(chars: int) -> str:
    """Plain words of so many characters."""
    return ("word " * chars)[: chars - 1] + "x"


def test_a_text_of_1200_characters_is_whole_in_a_record_and_half_of_it_where_it_is_pruned():
    assert result_line(words(1_200)) == words(1_200)
    assert "characters cut…]" in result_line(words(1_201))
    assert pruned_result_line(words(600)) == words(600)
    assert "characters cut…]" in pruned_result_line(words(601))


def test_a_text_of_names_and_values_is_whole_up_to_12000_characters():
    names = "id: x\nid: "

    assert "characters cut…]" not in result_line(names + words(12_000 - len("id: x ¶ id: ")))
    assert "characters cut…]" in result_line(names + words(12_001 - len("id: x ¶ id: ")))


def test_one_word_of_4096_characters_is_whole_and_a_longer_one_is_cut():
    assert result_line("x" * 4_096) == "x" * 4_096
    assert result_line("x" * 4_097) == "[…4097 characters cut…]"


def test_pruning_keeps_prose_of_600_characters_whole():
    assert words(600) in pruned_result_line(json.dumps({"title": words(600)}))
    assert "characters cut…]" in pruned_result_line(json.dumps({"title": words(601)}))


def test_lines_with_ids_between_the_ends_have_600_characters():
    plain = [f"words {'ab'[number % 2]}" for number in range(150)]
    ids = [f"id_{number}".ljust(97, "0") for number in range(20)]

    assert result_line("\n".join([*plain, *ids, *plain])).count("id_") == 6
    ids[0] += "0"
    assert result_line("\n".join([*plain, *ids, *plain])).count("id_") == 5


def test_a_text_is_made_of_names_and_values_where_over_a_quarter_of_its_lines_has_a_name():
    three_lines = f"{words(1_300)}\nid: 3\nplain"

    assert "characters cut…]" not in result_line(three_lines)
    assert "characters cut…]" in result_line(f"{three_lines}\nmore")
