"""Tests of judging each call by what it should have cost unmodified."""

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.prefix.guard import CostComparison, Harm, HarmWatch

JUDGED_CALLS = 50
MIN_CALLS = 20

NOW = 1_790_000_000.0


def harm_after(watch: HarmWatch, *calls: tuple[float, float], gap: float = 10.0) -> Harm | None:
    """Return what is found after calls of (planned, direct), each of a conversation of its own."""
    for index, (planned, direct) in enumerate(calls):
        watch.record_call(NOW + index * gap, CostComparison(planned=planned, direct=direct), 0)
    return watch.current_harm(NOW + len(calls) * gap)


def test_a_feature_that_is_dearer_with_every_call_is_found_within_fifty():
    harm = harm_after(HarmWatch(), *[(100.0, 100.0)] * 10, *[(142.0, 100.0)] * JUDGED_CALLS)

    assert harm is not None
    assert round(harm.more, 2) == 0.42
    assert harm.why == (
        "the last 50 calls cost 42.0% more than the same calls should have cost unmodified"
    )


def test_a_few_dear_calls_show_no_harm():
    assert harm_after(HarmWatch(), *[(200.0, 100.0)] * (MIN_CALLS - 1)) is None


def test_a_layout_is_stopped_before_one_more_dear_call_would_lose_more_than_its_stake():
    watch = HarmWatch(stake=500.0)

    assert harm_after(watch, *[(150.0, 100.0)] * 9) is None
    harm = harm_after(watch, (155.0, 100.0))

    assert harm is not None
    assert (harm.calls, round(harm.more, 3)) == (10, 0.505)


def test_reads_count_before_the_write_that_made_them_possible_is_judged():
    watch = HarmWatch(stake=40.0)
    write = CostComparison(planned=126.0, direct=100.0, surcharge=25.0, lives=300.0)
    read = CostComparison(planned=15.0, direct=100.0, surcharge=0.5, lives=300.0)
    number = watch.record_call(NOW, write, 0)
    assert [watch.record_call(NOW + 1.0, read, before) for before in (0, 0, number)] == [0, 0, 0]
    assert watch.current_harm(NOW + 2.0) is None


def test_a_layout_whose_first_dear_call_loses_the_stake_makes_no_second_one():
    assert harm_after(HarmWatch(stake=10.0), (104.0, 100.0)) is None
    assert harm_after(HarmWatch(stake=10.0), (150.0, 100.0)) is not None


def test_savings_of_a_layout_pay_for_its_later_losses():
    watch = HarmWatch(stake=500.0)

    assert harm_after(watch, *[(50.0, 100.0)] * 20, *[(150.0, 100.0)] * 15) is None


def test_a_feature_no_dearer_than_unmodified_shows_no_harm():
    assert harm_after(HarmWatch(), *[(100.0, 100.0)] * 60) is None
    assert harm_after(HarmWatch(), *[(40.0, 100.0)] * 60) is None


def test_one_dear_call_among_many_shows_no_harm():
    assert harm_after(HarmWatch(), *[(100.0, 100.0)] * 49, (400.0, 100.0)) is None


def test_harm_that_begins_after_good_times_is_found_within_fifty_calls():
    watch = HarmWatch()
    assert harm_after(watch, *[(40.0, 100.0)] * 500) is None

    assert harm_after(watch, *[(142.0, 100.0)] * JUDGED_CALLS) is not None


def test_marks_that_may_still_be_read_are_no_loss_yet():
    watch = HarmWatch()
    call = CostComparison(planned=125.0, direct=100.0, surcharge=25.0, lives=300.0)
    for index in range(40):
        watch.record_call(NOW + index, call, 0)

    assert watch.current_harm(NOW + 40) is None
    assert watch.current_harm(NOW + 1_000) is not None


def test_cost_beyond_what_marks_may_still_earn_is_a_loss_at_once():
    watch = HarmWatch(stake=150.0)
    call = CostComparison(planned=200.0, direct=100.0, surcharge=25.0, lives=1_800.0)

    assert watch.record_call(NOW, call, 0) == 0
    assert watch.current_harm(NOW) is not None


def test_a_mark_that_the_next_call_of_its_conversation_did_not_read_is_a_loss():
    watch, before = HarmWatch(), 0
    call = CostComparison(planned=125.0, direct=100.0, surcharge=25.0, lives=300.0)
    for index in range(40):
        before = watch.record_call(NOW + index, call, before)

    assert watch.current_harm(NOW + 40) is not None


@given(st.integers(0, 1_000))
def test_a_feature_that_is_as_dear_on_average_is_hardly_ever_found_dearer(seed: int):
    dice = Random(seed)  # noqa: S311
    calls = [(dice.gauss(100.0, 20.0), 100.0) for _ in range(JUDGED_CALLS)]

    harm = harm_after(HarmWatch(), *calls)

    assert harm is None or sum(planned for planned, _ in calls) > 108 * JUDGED_CALLS


@pytest.mark.parametrize(("lives", "gap"), [(300.0, 1.0), (300.0, 60.0), (3_600.0, 1.0)])
def test_marks_that_die_unread_are_found_however_many_calls_come_while_they_live(lives, gap):
    watch = HarmWatch()
    call = CostComparison(planned=125.0, direct=100.0, surcharge=25.0, lives=lives)
    end = NOW
    while watch.current_harm(end) is None and end < NOW + 2 * lives + 100 * gap:
        watch.record_call(end, call, 0)
        end += gap

    assert watch.current_harm(end) is not None


@pytest.mark.parametrize(("planned", "is_stopped"), [(140.0, True), (60.0, False)])
def test_losses_of_a_layout_before_a_long_pause_count_and_savings_do_not(planned, is_stopped):
    watch = HarmWatch(stake=100.0)
    assert harm_after(watch, (planned, 100.0)) is None
    watch.record_call(NOW + 100_000.0, CostComparison(planned=135.0, direct=100.0), 0)

    assert (watch.current_harm(NOW + 100_000.0) is not None) is is_stopped


@pytest.mark.parametrize(("calls", "is_harm"), [(19, False), (20, True)])
def test_harm_is_judged_from_twenty_calls_on(calls: int, is_harm: bool):  # noqa: FBT001
    assert (harm_after(HarmWatch(), *[(142.0, 100.0)] * calls) is not None) is is_harm


@pytest.mark.parametrize(("planned", "is_harm"), [(102.0, False), (102.1, True)])
def test_two_percent_of_extra_cost_are_borne(planned: float, is_harm: bool):  # noqa: FBT001
    assert (harm_after(HarmWatch(), *[(planned, 100.0)] * 50) is not None) is is_harm


@pytest.mark.parametrize(("extra", "is_harm"), [(8.4, False), (8.6, True)])
def test_extra_cost_of_calls_that_differ_has_to_be_three_standard_errors(
    extra: float,
    is_harm: bool,  # noqa: FBT001 - a parameter
):
    """Fifty calls that are 20 off their mean to either side: 3 x 20 x sqrt(50) = 50 x 8.49."""
    calls = [(100.0 + extra + off, 100.0) for off in (20.0, -20.0)] * 25

    assert (harm_after(HarmWatch(), *calls) is not None) is is_harm


@pytest.mark.parametrize(("pause_s", "is_harm"), [(21_600.0, True), (21_601.0, False)])
def test_a_feature_is_judged_afresh_after_six_hours_without_a_call(
    pause_s: float,
    is_harm: bool,  # noqa: FBT001 - a parameter
):
    watch = HarmWatch()
    harm_after(watch, *[(142.0, 100.0)] * JUDGED_CALLS)
    later = NOW + (JUDGED_CALLS - 1) * 10.0 + pause_s
    watch.record_call(later, CostComparison(planned=100.0, direct=100.0), 0)

    assert (watch.current_harm(later) is not None) is is_harm


def test_a_call_that_waits_to_be_judged_is_judged_once_128_others_wait():
    watch = HarmWatch(stake=0.0)
    write = CostComparison(planned=101.0, direct=100.0, surcharge=2.0, lives=3_600.0)
    for index in range(128):
        watch.record_call(NOW + index, write, 0)
    assert watch.current_harm(NOW + 128) is None
    watch.record_call(NOW + 128, write, 0)

    assert watch.current_harm(NOW + 128) == Harm(calls=1, more=0.01)
