from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.prefix.breakpoints.reuse_statistics import (
    GAP_EDGES_S,
    ExpectedUses,
    ReadOutcome,
    ReuseStatistics,
    SeenCall,
)
from proxy.prefix.prediction.sent_call import MAX_LEFT_OUT, MORE_LEFT_OUT

LIFETIMES = {"5m": 300.0, "1h": 3_600.0}
#: Uses from which a five minute write at 1.25 and reads at 0.1 pay.
PAYS = 0.25 / 0.9


def habits_of(conversations: int, calls: int, gap: float, pause: float) -> ReuseStatistics:
    """A feature whose conversations follow one another."""
    habits = ReuseStatistics()
    now = 0.0
    for _ in range(conversations):
        for before in range(calls):
            habits.observe(now, SeenCall(before=before, gap=gap if before else 0.0))
            now += gap
        now += pause
    return habits


def uses_of(habits: ReuseStatistics, *, is_open: bool = True, before: int = 0) -> ExpectedUses:
    return habits.expected_uses(LIFETIMES, is_open=is_open, before=before)


def test_once_one_went_on_a_conversation_with_tools_is_expected_to():
    habits = habits_of(conversations=1, calls=2, gap=10.0, pause=5.0)
    uses = uses_of(habits)

    assert uses.history["5m"] > PAYS
    assert uses.history["1h"] - uses.history["5m"] < 0.75 / 0.9
    assert uses.stable["5m"] > 0


def test_a_lone_question_is_not_marked_before_conversations_were_seen_to_go_on():
    assert uses_of(ReuseStatistics(), is_open=False).history["5m"] < PAYS
    assert uses_of(ReuseStatistics(), is_open=False).stable["5m"] < PAYS


def test_a_few_conversations_that_go_on_are_enough_for_a_lone_question():
    habits = habits_of(conversations=3, calls=4, gap=10.0, pause=5.0)

    assert uses_of(habits, is_open=False).history["5m"] > PAYS


def test_a_conversation_that_went_on_is_likely_to_go_on():
    assert uses_of(ReuseStatistics(), is_open=False, before=1).history["5m"] > PAYS


def test_questions_asked_once_are_found_out_whatever_they_hold():
    habits = habits_of(conversations=60, calls=1, gap=60.0, pause=0.0)

    uses = uses_of(habits)

    assert uses.history["5m"] < PAYS
    assert uses.stable["5m"] > 10
    assert uses.is_lone


def test_many_conversations_that_start_at_once_do_not_look_like_ones_that_end_at_once():
    habits = habits_of(conversations=1, calls=2, gap=1.0, pause=1.0)
    for _ in range(200):
        habits.observe(5.0, SeenCall())

    assert uses_of(habits).history["5m"] > PAYS


def test_gaps_between_five_minutes_and_an_hour_speak_for_an_hour():
    habits = habits_of(conversations=30, calls=6, gap=900.0, pause=100.0)

    uses = uses_of(habits)

    assert uses.history["1h"] - uses.history["5m"] > 2


def test_a_few_calls_that_begin_otherwise_show_that_prompts_move_but_not_ones_that_end_otherwise():
    moving, ending = ReuseStatistics(), ReuseStatistics()
    for number in range(1, 10):
        moves = (moving.has_changing_start, ending.has_changing_start)
        assert moves == (False, False)
        moving.observe(5.0 * number, SeenCall(before=number, gap=5.0, extends=False))
        ending.observe(
            5.0 * number, SeenCall(before=number, gap=5.0, extends=False, left=MAX_LEFT_OUT)
        )

    assert (moving.has_changing_start, ending.has_changing_start) == (True, False)


def test_a_conversation_that_rewrites_what_it_sent_shares_its_semi_stable_slot_only():
    habits = ReuseStatistics()
    for at in range(100):
        habits.observe(at * 10.0, SeenCall(before=at, gap=10.0, extends=False))

    uses = uses_of(habits, before=3)

    assert uses.semi["5m"] > 5 * uses.history["5m"]


def test_a_feature_called_once_a_day_keeps_nothing_alive():
    habits = habits_of(conversations=40, calls=1, gap=86_400.0, pause=0.0)

    assert uses_of(habits).stable["1h"] < PAYS


def test_expected_uses_match_simulated_conversations():
    """The uses expected of a first call are those that happen, on average."""
    dice = Random(7)  # noqa: S311
    habits = ReuseStatistics()
    now, served = 0.0, []
    for _ in range(600):
        before, alive = 0, True
        served.append(0)
        gap = 0.0
        while True:
            habits.observe(now, SeenCall(before=before, gap=gap))
            if dice.random() > 0.7:
                break
            gap = dice.choice([10.0, 100.0, 1_000.0])
            now += gap
            before += 1
            alive = alive and gap <= 300
            served[-1] += alive
        now += 50.0

    assert uses_of(habits).history["5m"] == pytest.approx(sum(served[-200:]) / 200, rel=0.35)


def test_lifetimes_that_are_sold_are_edges():
    assert {300, 1_800, 3_600, 43_200} <= set(GAP_EDGES_S)


@given(
    st.lists(
        st.tuples(st.floats(-1e6, 1e9), st.integers(0, 5), st.floats(0, 1e6), st.booleans()),
        max_size=30,
    ),
    st.booleans(),
    st.integers(0, 3),
)
def test_longer_lifetimes_never_serve_less(calls, is_open, before):
    habits = ReuseStatistics()
    for now, earlier, gap, extends in calls:
        habits.observe(now, SeenCall(before=earlier, gap=gap, extends=extends))

    uses = uses_of(habits, is_open=is_open, before=before)

    for slot in (uses.stable, uses.semi, uses.history):
        assert 0.0 <= slot["5m"] <= slot["1h"] <= 202.0


def test_calls_too_short_to_be_cached_do_not_count_for_longer_ones():
    habits = ReuseStatistics()
    for at in range(60):
        habits.observe(at * 20.0, SeenCall(counts=False))
        habits.observe(at * 20.0 + 1, SeenCall(before=1, gap=1.0, counts=False, counted=False))

    assert not habits.expected_uses(LIFETIMES, is_open=True).is_lone


def test_a_prompt_that_another_conversation_repeats_was_followed():
    habits = ReuseStatistics()
    for at in range(10):
        habits.observe(at * 20.0, SeenCall(repeats=at > 0))

    assert uses_of(habits, is_open=False).history["5m"] > PAYS


def test_text_that_is_never_the_same_is_no_stable_slot():
    habits = ReuseStatistics()
    for at in range(40):
        habits.observe(at * 10.0, SeenCall(shares=False))

    assert uses_of(habits).stable["5m"] < PAYS


def test_a_new_layout_is_judged_by_itself():
    habits = ReuseStatistics()
    for at in range(40):
        habits.observe(at * 10.0, SeenCall(shares=False))
    habits.observe(400.0, SeenCall(layout=1))
    habits.observe(410.0, SeenCall(shares=False))

    assert uses_of(habits).stable["5m"] > PAYS


def test_a_conversation_of_many_calls_is_judged_by_those_that_came_as_far():
    habits = habits_of(conversations=100, calls=2, gap=10.0, pause=200.0)

    assert uses_of(habits, before=1).history["5m"] < PAYS
    assert uses_of(habits, before=8).history["5m"] > PAYS


def test_conversations_in_an_older_layout_say_nothing_of_the_new_one():
    habits = ReuseStatistics()
    habits.observe(0.0, SeenCall(layout=1))
    for at in range(40):
        habits.observe(10.0 + at, SeenCall(before=1, gap=5.0, extends=False))

    assert uses_of(habits, before=1).history["5m"] > PAYS


def test_nothing_is_marked_on_belief_alone():
    assert (
        uses_of(ReuseStatistics()).history["5m"] == uses_of(ReuseStatistics()).stable["5m"] == 0.0
    )


def test_a_conversation_that_went_on_needs_no_belief():
    habits = ReuseStatistics()

    assert uses_of(habits, before=1).history["5m"] > PAYS


def test_once_a_conversation_went_on_the_next_is_expected_to():
    habits = ReuseStatistics()
    habits.observe(0.0, SeenCall(shares=False))
    habits.observe(10.0, SeenCall(before=1, gap=10.0))

    assert uses_of(habits).history["5m"] > PAYS


def test_one_prompt_that_comes_again_may_be_a_retry_and_two_are_a_habit():
    retried, asked_twice = ReuseStatistics(), ReuseStatistics()
    for habits, times in ((retried, 1), (asked_twice, 2)):
        for at in range(times):
            habits.observe(20.0 * at, SeenCall(shares=False))
            habits.observe(20.0 * at + 10.0, SeenCall(repeats=True))

    assert uses_of(retried).history["5m"] == 0.0
    assert uses_of(asked_twice).history["5m"] > PAYS


def uses_after(came_true: int, failed: int, *, later: float = 10.0) -> float:
    """The uses of a conversation's mark, where so many reads came true and so many did not."""
    habits = habits_of(conversations=8, calls=4, gap=10.0, pause=5.0)
    for done in [True] * came_true + [False] * failed:
        habits.observe(
            1_000.0,
            SeenCall(before=2, gap=5.0, reads=ReadOutcome(in_conversation=True, came_true=done)),
        )
    habits.observe(1_000.0 + later, SeenCall(before=2, gap=5.0))
    return uses_of(habits, before=1).history["5m"]


def test_prefixes_that_the_provider_never_reads_are_not_marked_for_an_hour():
    assert uses_after(0, 2) == uses_after(0, 20) == 0.0
    assert uses_after(0, 2, later=4_000.0) > 0.0


def test_reads_that_fail_now_and_then_are_expected_as_often_as_they_come_true():
    assert uses_after(0, 1) > PAYS
    assert 0.4 < uses_after(10, 10) / uses_after(20, 0) < 0.7


def test_a_stable_slot_that_was_sent_again_is_expected_to_be():
    habits = ReuseStatistics()
    habits.observe(0.0, SeenCall(shares=False))
    habits.observe(10.0, SeenCall(shares=True))

    assert uses_of(habits).stable["5m"] > 0


def test_a_new_layout_has_to_be_seen_anew():
    habits = habits_of(conversations=3, calls=4, gap=10.0, pause=5.0)
    habits.observe(500.0, SeenCall(layout=1, shares=False))

    assert uses_of(habits).history["5m"] == uses_of(habits).stable["5m"] == 0.0


def test_tools_serve_the_calls_whose_text_behind_them_changes():
    habits = ReuseStatistics()
    for at in range(40):
        habits.observe(
            at * 10.0, SeenCall(before=at % 4, gap=10.0, extends=False, shares=False, equips=at > 0)
        )

    uses = uses_of(habits)

    assert uses.tools["5m"] > 10
    assert uses.stable["5m"] < PAYS
    assert uses.history["5m"] < PAYS


def test_tools_serve_nobody_where_they_change_too_or_nothing_does():
    changing, steady = ReuseStatistics(), habits_of(conversations=10, calls=4, gap=10.0, pause=5.0)
    for at in range(40):
        changing.observe(at * 10.0, SeenCall(shares=False, equips=False))

    assert uses_of(changing).tools["5m"] < PAYS
    assert uses_of(steady).tools["5m"] < PAYS


def test_a_stable_slot_of_each_conversations_own_serves_no_other():
    own, common = ReuseStatistics(), ReuseStatistics()
    for at in range(80):
        seen = SeenCall(before=at % 4, gap=10.0 if at % 4 else 0.0, shares=at % 4 > 0)
        own.observe(at * 10.0, seen)
        common.observe(at * 10.0, SeenCall(before=at % 4, gap=seen.gap))

    assert uses_of(own).stable["5m"] < PAYS < uses_of(common).stable["5m"]


def test_a_conversation_met_midway_says_nothing_of_what_its_calls_extend():
    habits, alone = ReuseStatistics(), ReuseStatistics()
    for at in range(40):
        habits.observe(at * 10.0, SeenCall(before=3, gap=10.0, extends=None, shares=False))
        alone.observe(at * 10.0, SeenCall(before=3, gap=10.0, extends=False, shares=False))

    assert uses_of(habits).history["5m"] == 0.0
    assert uses_of(habits, before=3).history["5m"] > PAYS > uses_of(alone, before=3).history["5m"]


def statistics_with_remainder(left: int, calls: int = 20) -> ReuseStatistics:
    """A feature whose calls never repeat so much of the end of the one before."""
    habits = ReuseStatistics()
    for before in range(calls):
        seen = SeenCall(before=before, gap=10.0 if before else 0.0, extends=False, left=left)
        habits.observe(10.0 * before, seen)
    return habits


def test_nothing_is_expected_to_be_left_out_before_anything_was_seen():
    first, *rest = ReuseStatistics().repeat_shares()

    assert first == pytest.approx(0.95)
    assert rest == pytest.approx([first] * MAX_LEFT_OUT)


def test_left_out_ends_are_expected_of_later_calls():
    shares = statistics_with_remainder(left=2).repeat_shares()

    assert max(shares[:2]) < 0.1
    assert min(shares[2:]) > 0.9


def test_ends_that_all_calls_leave_out_are_never_repeated():
    assert max(statistics_with_remainder(left=MORE_LEFT_OUT).repeat_shares()) < 0.1


def test_a_conversations_own_calls_say_more_of_it_than_those_of_its_feature():
    habits = statistics_with_remainder(left=0)

    assert habits.repeat_shares([1, 1, 1])[0] < 0.3
    assert habits.repeat_shares([1, 1, 1])[1] > 0.9
    assert statistics_with_remainder(left=1).repeat_shares([0, 0])[0] > 0.6


def test_a_mark_that_leaves_out_the_end_serves_the_calls_that_repeat_the_rest():
    habits = statistics_with_remainder(left=1)
    ends = habits.expected_uses(LIFETIMES, is_open=True, before=2)
    before = habits.expected_uses(
        LIFETIMES, is_open=True, before=2, repeats=habits.repeat_shares()[1]
    )

    assert ends.history["5m"] < PAYS < before.history["5m"]
    assert before.semi["5m"] < ends.semi["5m"]


def test_a_first_call_that_was_repeated_but_for_its_end_is_expected_to_be():
    seen, unseen = statistics_with_remainder(left=1), statistics_with_remainder(left=MORE_LEFT_OUT)
    assert uses_of(seen).history["5m"] > 0.0
    assert uses_of(unseen).history["5m"] == 0.0
