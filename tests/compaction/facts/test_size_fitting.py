import re

import pytest

from compaction.facts.detail_levels import climbed, segment
from compaction.facts.fact import Kind
from compaction.facts.segment import Rung
from compaction.facts.size_fitting import CAPS
from compaction.reading.token_estimate import estimate
from tests.compaction.facts.regions import assistant, called, region, user

ORDERS = [
    each
    for at in range(60)
    for each in (
        user(f"Where is order {at}? Send it to Mei."),
        called(
            "book" if at % 9 == 0 else "find",
            f'{{"order_id": "#W{1000 + at}", "state": "open", "paid": "#P{2000 + at}"}}',
            number=at,
        ),
        assistant(f"It is #W{1000 + at}."),
    )
]


@pytest.mark.parametrize("most", [1_100, 1_400, 1_700])
def test_it_fits_and_spends_the_room_that_there_is(most):
    made = climbed(region(*ORDERS), most, estimate)

    assert made.rung is Rung.BARE
    assert 0.8 * most < made.tokens <= most


def test_the_newest_values_and_all_that_was_done_stay():
    made = climbed(region(*ORDERS), 1_600, estimate)

    assert "#W1059" in made.text
    assert "#P2001" not in made.text
    assert made.text.count("did: book") == 7


def test_users_words_are_cut_further_the_less_room_there_is():
    said = [user(f"{at} begins {'word ' * 900}#W{at}0001 {'word ' * 900}ends") for at in range(9)]
    sizes = {most: climbed(region(*said), most, estimate) for most in (99, 1_000, 8_000, 40_000)}

    assert [each.tokens <= most for most, each in sizes.items()] == [False, True, True, True]
    assert all(
        f"{at} begins" in each.text and each.text.count("ends") == 9
        for each in sizes.values()
        for at in range(9)
    )
    assert sizes[40_000].rung is Rung.FACTS
    assert "#W80001" in sizes[1_000].text
    assert sorted(CAPS, reverse=True) == list(CAPS)


def test_rules_stay_whatever_room_there_is():
    page = "They went on and on. " * 200
    said = [user("Always ask first."), user(f"{page} Never pay twice. {page} Only by card.")]
    whole, made = (climbed(region(*said), most, estimate) for most in (0, 30))

    wished = {fact.text for fact in whole.facts if fact.kind is Kind.RULE}
    assert wished == {"Always ask first.", "Never pay twice.", "Only by card."}
    assert made.rung is Rung.BARE
    assert {fact.text for fact in made.facts if fact.kind is Kind.RULE} == wished
    assert all(each in made.text for each in wished)


def test_without_a_bound_it_takes_half_of_the_rung_before():
    half, values = (segment(region(*ORDERS), rung, estimate) for rung in (Rung.BARE, Rung.VALUES))

    assert half.tokens <= max(values.tokens // 2, half.tokens if half.tokens < 1_200 else 0)


def test_it_is_cut_again_where_lines_weigh_more_together_than_apart():
    made = climbed(region(*ORDERS), 9_000, lambda text: 40 + len(text) + 9 * text.count("\n"))

    assert made.tokens <= 9_000


@pytest.mark.parametrize("weight", [9_001, 99_999])
def test_where_no_cut_is_enough_only_the_words_stay(weight):
    def hopeless(text):
        return weight if "\nvalues: " in text or "did: " in text or "tool: " in text else 1

    made = climbed(region(*ORDERS), 9_000, hopeless)

    assert {fact.kind for fact in made.facts} == {Kind.USER, Kind.GOAL, Kind.GONE}


def test_a_target_that_is_too_small_is_missed_and_what_is_gone_is_named():
    made = climbed(region(*ORDERS), 40, estimate)

    assert made.tokens > 40
    assert "values: " not in made.text
    (gone,) = re.findall(r"gone: actions: book \((\d+)\); results of find \((\d+)\)", made.text)
    assert int(gone[0]) == 7 - made.text.count("did: book")
    assert int(gone[1]) == 53 - made.text.count("tool: find")


def test_tools_that_are_gone_are_named_up_to_a_bound():
    said = [each for at in range(12) for each in (user("Go"), called(f"get_{at}", "W1", f"c{at}"))]

    assert climbed(region(*said), 9, estimate).text.endswith(" and 4 more tools")


def test_users_words_grow_where_the_rest_leaves_room():
    said = [user(f"{at} begins {'word ' * 900}ends") for at in range(3)]
    sizes = [climbed(region(*said), most, estimate).tokens for most in (300, 900, 1_500, 2_400)]

    assert all(
        size > 0.5 * most for size, most in zip(sizes, (300, 900, 1_500, 2_400), strict=True)
    )
