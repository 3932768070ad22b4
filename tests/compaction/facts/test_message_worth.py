from typing import Any

import pytest

from compaction.facts.message_worth import message_factors, region_words
from tests.compaction.facts.regions import assistant, call_and_result, read_contents, user

PART = read_contents(assistant("Order W-4711 waits in Oslo until 2026-05-03."))


def test_factors_rise_with_time_and_for_failures_and_fall_with_length():
    part = read_contents(user("a"), assistant("b"), assistant("c" * 2_000), assistant("d"))
    factors = message_factors(part, [], decays=False)

    assert factors[1] < factors[3]
    assert factors[2] < factors[1]
    assert message_factors(part, [1], decays=False)[1] > factors[1]


def test_factors_of_users_results_failures_and_long_texts():
    turns = [user("a"), assistant("b"), *call_and_result("bash", "x", command="ls")]
    part = read_contents(*turns, assistant("c" * 400), assistant("d" * 8_000))
    factors = message_factors(part, [1], decays=False)

    shown = {index: round(factor, 4) for index, factor in factors.items()}
    assert shown == {0: 0.7367, 1: 2.8, 2: 1.0, 3: 1.0333, 4: 0.5667, 5: 0.06}


@pytest.mark.parametrize(("reply", "ratio"), [("b" * 40, 0.54), ("b", 0.92)])
def test_users_words_before_the_last_three_turns_are_worth_less_unless_users_say_most(
    reply: str, ratio: float
):
    turns = [turn for _ in range(5) for turn in (user("a" * 10), assistant(reply))]
    factors = message_factors(read_contents(*turns, point=10), [], decays=False)

    assert factors[2] / factors[4] == pytest.approx(ratio, abs=0.01)


@pytest.mark.parametrize(("calls", "age"), [(60, 24.2), (10, 12)])
def test_results_that_can_be_read_again_are_worth_half_after_a_fifth_or_twelve_messages(
    calls: int, age: float
):
    views = [call_and_result("bash", "x", f"c{n}", command="ls") for n in range(calls)]
    factors = message_factors(read_contents(user("Fix it"), *views), [], decays=True)
    newest = 2 * calls

    assert factors[0] == factors[newest] == 7.0
    assert factors[newest - 12] == pytest.approx(1 + 6 * 0.5 ** (12 / age))


def test_a_word_that_stands_again_in_a_file_keeps_65_percent_of_its_worth():
    words = region_words(PART, decays=True)
    words.telling_words("W-4711")

    assert words.again["W-4711"] / words.first["W-4711"] == pytest.approx(0.65)


@pytest.mark.parametrize(("orders", "ratio"), [(["Oslo"], 2.0), ([], 1.0)])
def test_names_of_the_last_two_turns_count_twice_beside_records_wherever_the_region_ends(
    orders: list[str], ratio: float
):
    results: list[Any] = [call_and_result("find", result) for result in orders]
    turns = [user("Orders?"), *results, user("What of W-4711?"), assistant("W."), user("Stop it.")]
    end = len(turns) + len(orders) - 1
    worths = []
    for point in (0, end + 1):
        words = region_words(read_contents(*turns, end=end, point=point))
        words.telling_words("W-4711")
        worths.append(words.first["W-4711"])

    assert worths[1] / worths[0] == pytest.approx(ratio)


def test_where_results_can_be_read_again_only_the_newest_and_the_task_are_worth_much():
    part = read_contents(
        user("Fix it"), *[call_and_result("bash", "x", f"c{n}", command="ls") for n in range(40)]
    )
    factors = message_factors(part, [], decays=True)

    assert factors[0] > 6
    assert factors[80] > 6
    assert factors[2] < 2
