import pytest
from hypothesis import given
from hypothesis import strategies as st

from slo.budgets.tally import GoodBadCounts
from slo.controller.canary_share import canary_share, level_for, next_share, ramp_share
from slo.controller.state import ControllerRules, ControllerSnapshot, ControllerState, LevelCounts

RULES = ControllerRules(target=0.95, fallback_levels=2)
NOW = 1_000_000.0
SHARES = st.floats(0.0, 1.0)
DRAWS = st.floats(0.0, 1.0, exclude_max=True)


NONE = GoodBadCounts()


def good(n: int) -> GoodBadCounts:
    return GoodBadCounts(n, 0)


def busy(calls: int, lately: int | None = None, *, bad: int = 0) -> dict[int, LevelCounts]:
    """So many calls in the last minute; before it there were ten canaries, so many of them bad."""
    lately = 5 * calls if lately is None else lately
    canaries = GoodBadCounts(10 - bad, bad) if lately > calls else GoodBadCounts()
    return {
        0: LevelCounts((*6 * [GoodBadCounts()], *24 * [canaries])),
        1: LevelCounts((*6 * [GoodBadCounts(calls, 0)], *24 * [GoodBadCounts(lately, 0)])),
    }


@given(DRAWS)
def test_healthy_sends_all_to_level_0(draw):
    assert level_for(ControllerSnapshot(since=NOW), draw, RULES) == 0


@given(DRAWS, SHARES, st.integers(0, 9), st.sampled_from(ControllerState))
def test_a_conversation_gets_level_0_or_the_snapshots_level_and_no_other(draw, share, level, state):
    snapshot = ControllerSnapshot(since=NOW, state=state, level=level, share=share)

    assert level_for(snapshot, draw, RULES) == (0 if draw < share else min(level, 2))


@given(DRAWS, SHARES, SHARES)
def test_a_conversation_on_level_0_at_some_share_is_so_at_every_larger_one(draw, one, other):
    smaller, larger = (
        level_for(ControllerSnapshot(since=NOW, level=1, share=share), draw, RULES)
        for share in sorted((one, other))
    )

    assert larger <= smaller


def test_with_much_traffic_a_few_of_a_hundred_try_it_and_more_once_the_last_ten_were_good():
    assert canary_share(0.04, busy(600, bad=2), RULES) == 0.04
    assert canary_share(0.1, busy(600, bad=2), RULES) == 0.04
    assert canary_share(0.04, busy(600, bad=1), RULES) == 0.1
    assert canary_share(0.1, busy(6000, bad=0), RULES) == 0.1
    assert canary_share(0.04, busy(6000, bad=9), RULES) == 0.005


def test_with_little_traffic_many_try_it_but_not_while_it_is_bad():
    assert canary_share(0.04, busy(60), RULES) == 1.0
    assert canary_share(0.04, busy(70), RULES) == 0.48
    assert canary_share(0.04, busy(60, bad=5), RULES) == 0.125
    assert canary_share(0.04, busy(6, bad=5), RULES) == 0.125


@pytest.mark.parametrize(
    ("canaries", "share"),
    [
        pytest.param(NONE, 0.125, id="none at all, who would send everybody"),
        pytest.param(GoodBadCounts(0, 1), 0.125, id="one, and it was bad"),
        pytest.param(GoodBadCounts(1, 8), 0.125, id="nearly all bad"),
        pytest.param(GoodBadCounts(8, 1), 1.0, id="one of nine bad may be chance"),
        pytest.param(GoodBadCounts(1, 0), 1.0, id="one, and it was good"),
    ],
)
def test_fewer_than_ten_canaries_in_ten_minutes_are_the_last(canaries, share):
    rare = {
        0: LevelCounts((*6 * [NONE], *54 * [canaries])),
        1: LevelCounts(tuple(map(good, range(3, 33)))),
    }

    assert canary_share(0.04, rare, RULES) == share


def test_ten_lucky_canaries_are_no_reason_to_send_everybody_back():
    lucky = {
        0: LevelCounts((GoodBadCounts(9, 1), *59 * [GoodBadCounts(90, 40)])),
        1: LevelCounts(tuple(map(good, range(8, 488, 8)))),
    }
    twenty = {**lucky, 0: LevelCounts((GoodBadCounts(9, 1), *59 * [GoodBadCounts(19, 1)]))}

    assert canary_share(0.125, lucky, RULES) == 0.22
    assert canary_share(0.22, lucky, RULES) == 0.22
    assert canary_share(0.22, twenty, RULES) == 0.48


@given(st.integers(1, 10_000), SHARES, st.integers(0, 10))
def test_the_canary_share_gives_a_call_every_two_or_three_seconds_and_fewer_while_they_are_bad(
    calls, before, bad
):
    share = canary_share(before, busy(calls, bad=bad), RULES)

    tries, target = share * calls, 20 if bad > 1 else 30
    assert 0.0 < share <= (0.125 if bad > 1 else 1.0)
    assert tries >= 0.75 * target or share == (0.125 if bad > 1 else 1.0)
    assert tries <= 2.5 * 2.5 * target or share <= 0.1


@given(st.integers(1, 10_000), SHARES, st.integers(0, 10))
def test_a_share_that_was_found_stays_while_traffic_does(calls, before, bad):
    share = canary_share(before, busy(calls, bad=bad), RULES)

    for nearly in (calls, calls - calls // 8, calls + calls // 8):
        assert canary_share(share, busy(nearly, bad=bad), RULES) == share


@given(SHARES)
def test_canary_share_stays_while_traffic_is_unknown(before):
    assert canary_share(before, {}, RULES) == before
    assert canary_share(before, busy(0, lately=500), RULES) == before
    assert canary_share(before, busy(3, lately=3), RULES) == before


def test_a_ramp_begins_where_it_takes_nothing_from_level_0_and_ends_with_all():
    assert [ramp_share(share, RULES) for share in (0.05, 0.1, 0.2, 0.8)] == [0.1, 0.1, 0.22, 1.0]
    assert ramp_share(1.5, RULES) == 1.0
    assert [next_share(share, RULES) for share in (0.1, 0.22, 0.48)] == [0.22, 0.48, 1.0]
    assert next_share(1.0, RULES) is None
