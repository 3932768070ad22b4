import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from compaction.reading.message import CannotCompactError
from compaction.results.json_values import MAX_DEPTH, parse_json
from compaction.results.pruning import PRUNED, SPOKEN, VALUES, telling_values, text_words

USER = {
    "user_id": "mei_1",
    "name": {"first_name": "Mei", "last_name": "Brown"},
    "address": {"address1": "12 Pine Lane", "zip": "80212", "city": "Denver"},
    "cabin": "economy",
    "seats": {"economy": 12},
    "price": 121,
    "account": 48812,
    "since": "2024-05-04",
    "tags": ["a b", "c d"],
    "note": None,
    "about": "She called on Monday of order #W12 and wanted to know more of it.",
    "card_1": {},
}


def prune(value, mentioned=""):
    return telling_values(parse_json(json.dumps(value)), text_words(mentioned), str.upper)[0]


def test_ids_amounts_dates_states_and_names_stay():
    assert prune(USER) == {
        "user_id": "MEI_1",
        "name": {"first_name": "MEI", "last_name": "BROWN"},
        "cabin": "ECONOMY",
        "price": "121",
        "account": "48812",
        "since": "2024-05-04",
        "about": "She called on Monday of order #W12 and wanted to know more of it.",
        "card_1": {},
    }


def test_mentioned_values_stay():
    pruned = prune(USER, "I live at 12 Pine Lane, Denver; (c d)")

    assert pruned["address"] == {"address1": "12 PINE LANE", "city": "DENVER"}
    assert pruned["tags"] == ["A B", "C D"]


def test_a_long_list_keeps_its_first_and_its_mentioned_items():
    rows = [{"id": f"ZA{number}", "to": "JFK", "seats": number} for number in range(20)]

    assert prune(rows, "Take ZA7 to JFK") == {
        "some of 20": [{"id": f"ZA{number}", "to": "JFK"} for number in (0, 1, 2, 7)],
    }
    assert len(prune(rows[:8])) == 8
    assert prune(list(map(str, range(20)))) == list(map(str, range(20)))
    assert len(prune(rows, " ".join(f"ZA{number}" for number in range(20)))) == 20


def test_where_nothing_tells_all_stays():
    assert prune({"seats": 3, "open": True}) == {"open": True}
    assert prune({"seats": 3}) == {"seats": "3"}


def test_a_value_nested_too_deep_is_not_pruned():
    with pytest.raises(CannotCompactError):
        prune(parse_json("[" * (MAX_DEPTH + 2) + "]" * (MAX_DEPTH + 2)))


@pytest.mark.slow
@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    ),
    st.text(),
)
def test_any_value_is_pruned_the_same_way_twice(value, mentioned):
    assert prune(value, mentioned) == prune(value, mentioned)


def test_values_of_prose_stay_within_their_sentences_however_often_they_come():
    note = "Rent of 3000 for unit 12 is open, and 3000 for unit 14 was paid on time."

    assert prune([{"id": "a1", "note": note}]) == [{"id": "A1", "note": note}]


def test_of_a_list_beside_others_none_goes_alone():
    long = "A long remark of more than forty letters that names X-9 and Y-7"

    pruned = prune({"ids": ["A1", "B2", "C3"], "remarks": ["so so", long, "no no no"]})

    assert pruned["ids"] == ["A1", "B2", "C3"]
    assert "remarks" not in pruned or len(pruned["remarks"]) == 3


def test_a_name_that_is_a_value_stays():
    file = {"file": "plan.docx", "shared": {"jo@blue.com": "rw", "DE8937040044": "low"}}

    assert prune(file)["shared"] == {"jo@blue.com": "RW", "DE8937040044": "LOW"}


@pytest.mark.parametrize(
    ("detail", "whole", "first", "prose_chars"),
    [(PRUNED, 8, 3, 200), (VALUES, 5, 3, 120), (SPOKEN, 1, 1, 120)],
)
def test_each_detail_keeps_short_lists_first_rows_and_naming_sentences(
    detail, whole, first, prose_chars
):
    def prune_by_detail(value: object) -> object:
        (result,) = telling_values(parse_json(json.dumps(value)), frozenset(), str, [detail])
        return result

    rows = [{"id": f"ZA{number}"} for number in range(9)]
    note = "The rent is of #W12".ljust(prose_chars, "x")

    assert prune_by_detail(rows[:whole]) == rows[:whole]
    assert prune_by_detail(rows[: whole + 1]) == {f"some of {whole + 1}": rows[:first]}
    assert prune_by_detail({"id": "ZA1", "about": note}) == {"id": "ZA1", "about": note}
    assert prune_by_detail({"id": "ZA1", "about": f"{note}x"}) == {"id": "ZA1"}


def test_a_string_of_40_characters_is_prose_and_a_shorter_one_is_not():
    note = "She asked for the rent of #W12".ljust(39, "x")

    assert "about" in prune({"id": "ZA1", "about": f"{note}x"})
    assert "about" not in prune({"id": "ZA1", "about": note})


def test_a_value_of_three_characters_counts_as_mentioned_and_a_shorter_one_does_not():
    assert prune({"id": "ZA1", "zip": "802"}, "in 802 now") == {"id": "ZA1", "zip": "802"}
    assert prune({"id": "ZA1", "zip": "80"}, "in 80 now") == {"id": "ZA1"}


def test_a_name_of_256_characters_may_be_a_value_and_a_longer_one_is_none():
    assert prune({"id": "ZA1", "a1" * 128: 5}) == {"id": "ZA1", "a1" * 128: "5"}
    assert prune({"id": "ZA1", "a1" * 128 + "a": 5}) == {"id": "ZA1"}
