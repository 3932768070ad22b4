"""When planning is surely dearer than sending unmodified."""

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.prefix.harm import MIN_CALLS, WINDOW, CallCost, Harm, HarmWatch

NOW = 1_790_000_000.0


def fed(watch: HarmWatch, *calls: tuple[float, float], gap: float = 10.0) -> Harm | None:
    """What is found after calls of (planned, direct), each of a conversation of its own."""
    for at, (planned, direct) in enumerate(calls):
        watch.observe(NOW + at * gap, CallCost(planned=planned, direct=direct), 0)
    return watch.harm(NOW + len(calls) * gap)


def test_a_feature_that_is_dearer_with_every_call_is_found_within_fifty():
    found = fed(HarmWatch(), *[(142.0, 100.0)] * WINDOW)

    assert found is not None
    assert round(found.more, 2) == 0.42
    assert found.why == (
        "the last 50 calls cost 42.0% more than the same calls should have cost unmodified"
    )


def test_a_few_calls_show_nothing():
    assert fed(HarmWatch(), *[(200.0, 100.0)] * (MIN_CALLS - 1)) is None


def test_what_is_as_dear_or_cheaper_is_left_alone():
    assert fed(HarmWatch(), *[(100.0, 100.0)] * 60) is None
    assert fed(HarmWatch(), *[(40.0, 100.0)] * 60) is None


def test_one_dear_call_among_many_is_chance():
    assert fed(HarmWatch(), *[(100.0, 100.0)] * 49, (400.0, 100.0)) is None


def test_harm_that_begins_after_good_times_is_found_within_fifty_calls():
    watch = HarmWatch()
    assert fed(watch, *[(40.0, 100.0)] * 500) is None

    assert fed(watch, *[(142.0, 100.0)] * WINDOW) is not None


def test_marks_that_may_still_be_read_are_no_loss_yet():
    watch = HarmWatch()
    call = CallCost(planned=125.0, direct=100.0, surcharge=25.0, lives=300.0)
    for at in range(40):
        watch.observe(NOW + at, call, 0)

    assert watch.harm(NOW + 40) is None
    assert watch.harm(NOW + 1_000) is not None


def test_a_mark_that_the_next_call_of_its_conversation_did_not_read_is_a_loss():
    watch, before = HarmWatch(), 0
    call = CallCost(planned=125.0, direct=100.0, surcharge=25.0, lives=300.0)
    for at in range(40):
        before = watch.observe(NOW + at, call, before)

    assert watch.harm(NOW + 40) is not None


@given(st.integers(0, 1_000))
def test_a_feature_that_is_as_dear_on_average_is_hardly_ever_found_dearer(seed: int):
    dice = Random(seed)  # noqa: S311
    calls = [(dice.gauss(100.0, 20.0), 100.0) for _ in range(WINDOW)]

    found = fed(HarmWatch(), *calls)

    assert found is None or sum(planned for planned, _ in calls) > 108 * WINDOW


@pytest.mark.parametrize(("lives", "gap"), [(300.0, 1.0), (300.0, 60.0), (3_600.0, 1.0)])
def test_marks_that_die_unread_are_found_however_many_calls_come_while_they_live(lives, gap):
    watch = HarmWatch()
    call = CallCost(planned=125.0, direct=100.0, surcharge=25.0, lives=lives)
    end = NOW
    while watch.harm(end) is None and end < NOW + 2 * lives + 100 * gap:
        watch.observe(end, call, 0)
        end += gap

    assert watch.harm(end) is not None


def test_a_feature_is_judged_afresh_after_hours_without_a_call():
    watch = HarmWatch()
    fed(watch, *[(142.0, 100.0)] * WINDOW)
    watch.observe(NOW + 100_000.0, CallCost(planned=100.0, direct=100.0), 0)

    assert watch.harm(NOW + 100_000.0) is None
