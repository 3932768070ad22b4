"""Compaction beyond prices: forced compactions, windows, targets and small gains."""

from math import inf

import pytest
from msgspec.structs import replace

from compaction.cost_model import (
    CompactionReason,
    ceiling_tokens,
    decide_compaction,
    high_water_tokens,
)
from compaction.policy import CompactionPolicy
from tests.compaction.cost_cases import CLAUDE, FIELD, OLD, UNCACHED


def test_a_forced_compaction_of_nothing_says_nothing_to_compact():
    nothing = replace(OLD, region=0, segment=0)

    assert (
        decide_compaction(CompactionPolicy(force=True), nothing).reason
        is CompactionReason.NOTHING_TO_COMPACT
    )


def test_a_longer_segment_never_replaces_its_region():
    longer = replace(OLD, segment=9_601)

    assert (
        decide_compaction(CompactionPolicy(force=True), longer).reason
        is CompactionReason.NO_PROGRESS
    )


def test_force_compacts_what_does_not_pay():
    young = replace(FIELD, calls=1, calls_since=1)

    assert (
        decide_compaction(CompactionPolicy(prices=CLAUDE, force=True), young).reason
        is CompactionReason.FORCED
    )


def test_a_twentieth_of_the_window_and_room_for_two_calls_are_left_free():
    assert ceiling_tokens(100_000, 600) == 100_000 * 0.95 - 2 * 600


def test_a_window_that_is_nearly_full_outweighs_prices():
    young = replace(FIELD, calls=1, calls_since=1)
    policy = CompactionPolicy(prices=CLAUDE, window=13_000)

    assert ceiling_tokens(policy.window, young.growth) < young.total
    assert decide_compaction(policy, young).reason is CompactionReason.WINDOW


def test_without_a_window_there_is_no_ceiling():
    assert ceiling_tokens(0, 600) == inf


def test_a_compaction_that_leaves_the_prompt_over_the_window_is_not_begun():
    large = replace(FIELD, fixed=30_000)

    assert (
        decide_compaction(CompactionPolicy(prices=CLAUDE, window=30_000), large).reason
        is CompactionReason.FLOOR
    )


def test_a_part_that_brought_nothing_is_left_until_it_has_doubled():
    tried = replace(OLD, failed=9_000)
    policy = CompactionPolicy(prices=CLAUDE)

    assert decide_compaction(policy, tried).reason is CompactionReason.NO_PROGRESS
    assert decide_compaction(policy, replace(tried, failed=4_800)).is_due
    assert (
        decide_compaction(replace(policy, window=13_000), tried).reason
        is CompactionReason.NO_PROGRESS
    )


@pytest.mark.parametrize("taken_away", [1_799, 1_800])
def test_a_compaction_that_takes_less_than_15_percent_away_is_no_progress(taken_away: int):
    little = replace(OLD, segment=9_600 - taken_away)
    reason = decide_compaction(CompactionPolicy(prices=CLAUDE), little).reason

    assert (reason is CompactionReason.NO_PROGRESS) is (taken_away < 0.15 * 12_000)


@pytest.mark.parametrize("taken_away", [1_499, 1_500])
def test_force_without_a_target_needs_15_percent_of_the_conversation_and_with_one_nothing(
    taken_away: int,
):
    little = replace(OLD, fixed=2_000, region=9_000, segment=9_000 - taken_away, tail=1_000)
    forced = CompactionPolicy(prices=CLAUDE, force=True)

    assert decide_compaction(forced, little).is_due is (taken_away >= 0.15 * 10_000)
    assert decide_compaction(replace(forced, target=11_000), little).is_due


def test_a_short_conversation_is_left_alone():
    short = replace(OLD, fixed=100, region=1_500, segment=100, tail=400)

    assert (
        decide_compaction(CompactionPolicy(prices=CLAUDE), short).reason
        is CompactionReason.BELOW_LEAST
    )


def test_a_target_that_is_kept_asks_for_nothing():
    assert (
        decide_compaction(CompactionPolicy(prices=CLAUDE, target=12_000), OLD).reason
        is CompactionReason.BELOW_TARGET
    )


def test_a_target_below_what_stays_is_not_tried():
    assert (
        decide_compaction(CompactionPolicy(prices=CLAUDE, target=2_400), OLD).reason
        is CompactionReason.FLOOR
    )


def test_a_target_that_can_be_reached_is_left_to_the_prices():
    assert (
        decide_compaction(CompactionPolicy(prices=CLAUDE, target=3_000), OLD).reason
        is CompactionReason.PAYS
    )


def test_the_first_calls_say_nothing_of_how_it_goes_on():
    first = replace(FIELD, calls=3, calls_since=3)

    assert (
        decide_compaction(CompactionPolicy(prices=UNCACHED), first).reason
        is CompactionReason.TOO_FEW_CALLS
    )


def test_after_a_compaction_half_a_period_passes():
    policy = CompactionPolicy(prices=CLAUDE)

    assert (
        decide_compaction(policy, replace(OLD, calls_since=4)).reason
        is CompactionReason.COOLING_DOWN
    )
    assert decide_compaction(policy, replace(OLD, calls_since=5)).is_due


def test_a_larger_compaction_later_is_waited_for():
    early = replace(OLD, region=4_000, segment=200, growth=900)

    assert early.total < high_water_tokens(CLAUDE, early)
    assert (
        decide_compaction(CompactionPolicy(prices=CLAUDE), early).reason
        is CompactionReason.TOO_EARLY
    )
