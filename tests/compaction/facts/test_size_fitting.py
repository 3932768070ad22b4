import json
import re

import pytest

from compaction.facts.call_records import current_results
from compaction.facts.detail_levels import segment_at, segment_within
from compaction.facts.fact import DetailLevel, FactKind
from compaction.facts.size_fitting import MESSAGE_CAPS_CHARS, command_candidates, record_candidates
from compaction.reading.token_estimate import estimate_tokens
from tests.compaction.facts.regions import (
    Said,
    assistant,
    call_and_result,
    read_contents,
    region,
    user,
)

ORDERS = [
    message
    for number in range(60)
    for message in (
        user(f"Where is order {number}? Send it to Mei."),
        call_and_result(
            "book" if number % 9 == 0 else "find",
            f'{{"order_id": "#W{1000 + number}", "state": "open", "paid": "#P{2000 + number}"}}',
            number=number,
        ),
        assistant(f"It is #W{1000 + number}."),
    )
]


@pytest.mark.parametrize("max_tokens", [1_100, 1_400, 1_700])
def test_the_last_level_fits_and_spends_the_room_that_there_is(max_tokens):
    segment = segment_within(region(*ORDERS), max_tokens, estimate_tokens)

    assert segment.level is DetailLevel.BARE
    assert 0.8 * max_tokens < segment.tokens <= max_tokens


def test_the_newest_values_and_all_that_was_done_stay():
    segment = segment_within(region(*ORDERS), 1_600, estimate_tokens)

    assert "#W1059" in segment.text
    assert "#P2001" not in segment.text
    assert segment.text.count("did: book") == 7


def test_users_words_are_cut_further_the_less_room_there_is():
    messages = [
        user(f"{number} begins {'word ' * 900}#W{number}0001 {'word ' * 900}ends")
        for number in range(9)
    ]
    sizes = {
        max_tokens: segment_within(region(*messages), max_tokens, estimate_tokens)
        for max_tokens in (99, 1_000, 8_000, 40_000)
    }

    assert [segment.tokens <= max_tokens for max_tokens, segment in sizes.items()] == [
        False,
        True,
        True,
        True,
    ]
    assert all(
        f"{number} begins" in segment.text and segment.text.count("ends") == 9
        for segment in sizes.values()
        for number in range(9)
    )
    assert sizes[40_000].level is DetailLevel.FACTS
    assert "#W80001" in sizes[1_000].text
    assert sorted(MESSAGE_CAPS_CHARS, reverse=True) == list(MESSAGE_CAPS_CHARS)


def test_rules_stay_whatever_room_there_is():
    page = "They went on and on. " * 200
    messages = [user("Always ask first."), user(f"Never pay twice.\n{page}\nOnly by card.")]
    whole, segment = (
        segment_within(region(*messages), max_tokens, estimate_tokens) for max_tokens in (0, 30)
    )

    wished = {fact.text for fact in whole.facts if fact.kind is FactKind.RULE}
    assert wished == {"Always ask first.", "Never pay twice.", "Only by card."}
    assert segment.level is DetailLevel.BARE
    assert {fact.text for fact in segment.facts if fact.kind is FactKind.RULE} == wished
    assert all(rule in segment.text for rule in wished)


def test_without_a_bound_it_takes_half_of_the_rung_before():
    half, values = (
        segment_at(region(*ORDERS), level, estimate_tokens)
        for level in (DetailLevel.BARE, DetailLevel.VALUES)
    )

    assert half.tokens <= max(values.tokens // 2, half.tokens if half.tokens < 1_200 else 0)


def test_the_last_level_is_cut_again_where_lines_weigh_more_together_than_apart():
    segment = segment_within(
        region(*ORDERS), 9_000, lambda text: 40 + len(text) + 9 * text.count("\n")
    )

    assert segment.tokens <= 9_000


@pytest.mark.parametrize("weight", [9_001, 99_999])
def test_where_no_cut_is_enough_only_the_words_stay(weight):
    def hopeless(text):
        return weight if "\nvalues: " in text or "did: " in text or "tool: " in text else 1

    segment = segment_within(region(*ORDERS), 9_000, hopeless)

    assert {fact.kind for fact in segment.facts} == {FactKind.USER, FactKind.GOAL, FactKind.GONE}


def test_a_target_that_is_too_small_is_missed_and_what_is_gone_is_named():
    segment = segment_within(region(*ORDERS), 40, estimate_tokens)

    assert segment.tokens > 40
    assert "values: " not in segment.text
    (gone,) = re.findall(r"gone: actions: book \((\d+)\); results of find \((\d+)\)", segment.text)
    assert int(gone[0]) == 7 - segment.text.count("did: book")
    assert int(gone[1]) == 53 - segment.text.count("tool: find")


def test_tools_that_are_gone_are_named_up_to_a_bound():
    messages = [
        message
        for number in range(12)
        for message in (user("Go"), call_and_result(f"get_{number}", "W1", f"c{number}"))
    ]

    assert segment_within(region(*messages), 9, estimate_tokens).text.endswith(" and 4 more tools")


def test_users_words_grow_where_the_rest_leaves_room():
    messages = [user(f"{number} begins {'word ' * 900}ends") for number in range(3)]
    sizes = [
        segment_within(region(*messages), max_tokens, estimate_tokens).tokens
        for max_tokens in (300, 900, 1_500, 2_400)
    ]

    assert all(
        size > 0.5 * max_tokens
        for size, max_tokens in zip(sizes, (300, 900, 1_500, 2_400), strict=True)
    )


OFFERED_ORDERS = [
    {"id": f"W10{number}", "fee": 10 * number + 7, "state": "open"} for number in range(9)
]
DESK: list[Said] = [
    user("Always ask first. What of W104?"),
    call_and_result("list_orders", json.dumps(OFFERED_ORDERS), "a"),
    call_and_result("get_owner", '{"owner": "mei_li_77"}', "b", of="W104"),
    assistant("W104 is $47 and is due on May 3. It will be $52 with tax."),
    call_and_result("get_owner", '{"owner": "ana_vo_12"}', "c", of="W105"),
    call_and_result("transfer", "Error: no money", "d", to="W104"),
]


def test_a_record_is_offered_with_less_and_less_of_its_rows_and_last_without():
    part = read_contents(*DESK)
    offer = record_candidates(part, current_results(part.exchanges))

    (orders,) = [
        variants for variants in offer.exchanges if variants[0].text.startswith("list_orders")
    ]
    rows = [variant.text.count("W10") for variant in orders]
    assert rows == [5, 3, 0]
    assert orders[0].text.endswith("of:9}")
    assert orders[-1].text == "list_orders() → …"


def test_calls_whose_values_were_named_again_come_first_and_then_the_newest():
    part = read_contents(*DESK)
    offer = record_candidates(part, current_results(part.exchanges))

    first = [variants[0].text.partition("(")[0] for variants in offer.exchanges]
    assert first == ["list_orders", "transfer", "get_owner", "get_owner"]
    assert "ana_vo_12" in offer.exchanges[2][0].text


def test_goals_and_rules_are_marks_and_sentences_with_values_are_said():
    part = read_contents(*DESK)
    offer = record_candidates(part, current_results(part.exchanges))

    assert {mark.kind for mark in offer.marks} == {FactKind.GOAL, FactKind.RULE}
    assert any("$52 with tax" in statement.text for statement in offer.statements)
    assert not offer.names


def test_names_are_candidates_of_rereadable_results_and_not_of_records():
    part = read_contents(
        user("go"),
        call_and_result(
            "bash", "src/app.py\nsrc/lib.py\n20417\n" * 9, "a", command="cat src/app.py"
        ),
        call_and_result("get_order", '{"id": "W-4711"}', "b"),
    )

    offer = command_candidates(part)

    assert {"src/app.py", "src/lib.py"} <= set(offer.names)
    assert not {"20417", "W-4711"} & set(offer.names)
    assert {variants[0].kind for variants in offer.exchanges} == {FactKind.COMMAND, FactKind.FILE}
