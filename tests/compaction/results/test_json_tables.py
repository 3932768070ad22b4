"""Tests of compact JSON: every table is expanded again, so no value is lost."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from compaction.reading.message import CannotCompactError
from compaction.results.json_tables import compact_json, table_json
from compaction.results.json_values import MAX_DEPTH, Number, parse_json


def expand(value: Any) -> Any:
    """The value that was said with tables."""
    if isinstance(value, list):
        return [expand(element) for element in value]
    if not isinstance(value, dict):
        return value
    return (
        _expand_table(value)
        if "columns" in value
        else {key: expand(member) for key, member in value.items()}
    )


def _expand_table(table: dict[str, Any]) -> Any:
    if "rows" in table:
        return [_item(table, row) for row in table["rows"]]
    if "groups" in table:
        return [[_item(table, row) for row in group] for group in table["groups"]]
    return {key: _item(table, row, key) for key, row in table["entries"].items()}


def _item(table: dict[str, Any], row: list[Any], key: str = "") -> dict[str, Any]:
    named = {table["key"]: key} if "key" in table else {}
    cells = {**table.get("every_row", {}), **named}
    cells |= dict(zip(table["columns"], row, strict=True))
    members: dict[str, Any] = {}
    for path, cell in cells.items():
        if "absent" in table and _is(cell, table["absent"]):
            continue
        *outer, name = path.split(".")
        target = members
        for part in outer:
            target = target.setdefault(part, {})
        target[name] = expand(cell)
    return members


def _is(cell: Any, mark: str) -> bool:
    return type(cell) is str and cell == mark


KEYS = st.sampled_from(["id", "name", "price", "when", "a.b", "~", "", "state", "columns", "rows"])
TAME = st.sampled_from(["id", "name", "price", "when", "first_name", "amount", "state", ""])
LEAVES = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.sampled_from(["~", "~~", "HAT001", "open", "", "a.b", "\u2028", "\x1f"])
    | st.text(max_size=6)
)


def _nested_values(keys):
    return st.recursive(
        LEAVES,
        lambda inner: (
            st.lists(inner, max_size=5)
            | st.dictionaries(keys, inner, max_size=4)
            | st.lists(st.dictionaries(keys, inner, max_size=4), min_size=2, max_size=6)
        ),
        max_leaves=60,
    )


def _alike(keys):
    item = st.fixed_dictionaries(
        {"number": LEAVES, "seats": st.fixed_dictionaries({"economy": LEAVES})},
        optional={"price": LEAVES, "when": LEAVES, "seats_left": _nested_values(keys)},
    )
    rows = st.lists(item, min_size=2, max_size=6)
    entries = st.dictionaries(keys, item, min_size=2)
    return rows | st.lists(rows, min_size=2, max_size=4) | entries | entries.map(_by_key)


def _by_key(entries):
    return {key: {**entry, "price": key} for key, entry in entries.items()}


@pytest.mark.slow
@given(_nested_values(TAME) | _alike(TAME))
def test_a_json_table_loses_no_value(value):
    raw = json.dumps(value)

    assert expand(parse_json(table_json(parse_json(raw)))) == parse_json(raw)


@pytest.mark.slow
@given(_nested_values(KEYS) | _alike(KEYS))
def test_a_table_of_the_caller_is_never_taken_for_ours(value):
    raw = json.dumps(value)
    table = table_json(parse_json(raw))
    if not table:
        assert '"columns"' in raw
    else:
        assert expand(parse_json(table)) == parse_json(raw)


@pytest.mark.parametrize(
    "value",
    [
        {"~": {"number": None, "price": "~", "left": None}, "id": {"number": None, "price": "id"}},
        [{"a": "~", "b": 1}, {"a": "~"}],
    ],
)
def test_the_mark_of_an_absent_value_occurs_nowhere_else_in_the_table(value):
    raw = json.dumps(value)

    assert expand(parse_json(table_json(parse_json(raw)))) == parse_json(raw)


@pytest.mark.slow
@given(_nested_values(KEYS) | _alike(KEYS))
def test_compact_json_says_the_same_in_no_more_letters(value):
    raw = json.dumps(value, ensure_ascii=False)

    assert parse_json(compact_json(parse_json(raw))) == parse_json(raw)
    assert len(compact_json(parse_json(raw))) <= len(raw)


def test_like_objects_say_their_keys_once():
    flights = [
        {"flight_number": "HAT001", "date": "2024-05-17", "seats": {"economy": 4, "business": 1}},
        {"flight_number": "HAT002", "date": "2024-05-17", "seats": {"economy": 0, "business": 2}},
        {"flight_number": "HAT003", "date": "2024-05-17", "seats": {"economy": 9, "business": 3}},
    ]

    assert table_json(parse_json(json.dumps(flights))) == (
        '{"every_row":{"date":"2024-05-17"},'
        '"columns":["flight_number","seats.economy","seats.business"],'
        '"rows":[["HAT001",4,1],["HAT002",0,2],["HAT003",9,3]]}'
    )


def test_absent_is_not_null():
    items = [{"id": 1, "note": None, "state": "open"}, {"id": 2, "state": "~"}] * 4

    table = table_json(parse_json(json.dumps(items)))

    assert '"absent":"~~"' in table
    assert '[1,null,"open"],[2,"~~","~"]' in table


def test_an_object_of_like_objects_keeps_their_keys_as_entries():
    methods = {
        f"card_{number}": {"brand": "visa", "last_four": f"{number}", "id": number}
        for number in range(4)
    }

    table = table_json(parse_json(json.dumps(methods)))

    assert table.startswith(
        '{"every_row":{"brand":"visa"},"columns":["last_four","id"],"entries":{'
    )
    assert '"card_3":["3",3]' in table


def test_a_member_that_is_its_entrys_key_is_said_once():
    cards = {
        f"card_{number}": {"brand": "visa", "id": f"card_{number}", "amount": number}
        for number in range(3)
    }

    table = table_json(parse_json(json.dumps(cards)))

    assert table == (
        '{"key":"id","every_row":{"brand":"visa"},"columns":["amount"],'
        '"entries":{"card_0":[0],"card_1":[1],"card_2":[2]}}'
    )
    assert expand(json.loads(table)) == cards


def test_a_list_of_lists_of_like_objects_stays_in_its_groups():
    leg = {"flight_number": "HAT1", "origin": "JFK", "destination": "SEA"}

    assert '"groups":[[[],[]],[[],[]]]' in table_json(
        parse_json(json.dumps([[leg, leg], [leg, leg]]))
    )


@pytest.mark.parametrize(
    "value",
    [
        [],
        {},
        [{}, {}],
        [[], []],
        [1, {"a": 1}],
        [{"a": 1}, {"b": 2}, {"c": 3}],
        [{"a": 1}, {"a": 2}],
        [{"a.b": 1}] * 50,
        [{f"k{number}": number for number in range(300)}] * 3,
        {"a": {"b": 1}, "c": 1},
    ],
)
def test_json_that_a_table_would_not_shorten_stays(value):
    assert table_json(parse_json(json.dumps(value))) == json.dumps(value, separators=(",", ":"))


def test_numbers_and_strings_that_read_alike_stay_apart():
    table = table_json(
        parse_json(
            json.dumps(
                [{"identifier": 1, "quantity": "5"}] * 5 + [{"identifier": "1", "quantity": "5"}]
            )
        )
    )

    assert '[1],[1],[1],[1],[1],["1"]' in table


@pytest.mark.parametrize("says", [table_json, compact_json])
@pytest.mark.parametrize(("opens", "closes"), [("[", "]"), ('{"a":', "}")])
def test_json_nested_too_deep_is_left_alone(says, opens, closes):
    deep = MAX_DEPTH + 2

    with pytest.raises(CannotCompactError):
        says(parse_json(opens * deep + "1" + closes * deep))


@pytest.mark.parametrize("value", [[{"columns": 1, "longer_name": 2}] * 9, {"columns": []}])
def test_a_column_of_that_name_forbids_tables(value):
    assert table_json(parse_json(json.dumps(value))) == ""


def test_a_number_is_said_as_it_was_spelled():
    assert table_json([Number("1.10"), "1.10"]) == '[1.10,"1.10"]'


def test_objects_deep_inside_of_rows_stay_objects():
    item = {"first": {"second": {"third": {"fourth": 1}}}}
    raw = json.dumps([{**item, "number": number} for number in range(9)])

    assert '"first.second.third":{"fourth":1}' in table_json(parse_json(raw))
    assert expand(parse_json(table_json(parse_json(raw)))) == parse_json(raw)


def is_table(value: Any) -> bool:
    return '"columns"' in table_json(parse_json(json.dumps(value)))


def test_a_table_has_three_of_five_cells_filled():
    one, two, three = ({f"{key}_long_name": 1 for key in keys} for keys in ("a", "ab", "abc"))

    assert is_table([three, three, one, one, one])
    assert not is_table([three, two, one, one, one])


def test_a_table_has_at_most_200_columns():
    assert is_table([{f"k{number}": number for number in range(200)}] * 3)
    assert not is_table([{f"k{number}": number for number in range(201)}] * 3)


def test_a_table_saves_more_than_its_frame_of_30_characters():
    assert is_table([{"k" * 27: 1}, {"k" * 27: 2}])
    assert not is_table([{"k" * 26: 1}, {"k" * 26: 2}])
