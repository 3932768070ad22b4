"""Limits of the losses by a feature's marks."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.prefix.breakpoints.account import MAX_PLACES, MarkAccount, PlaceValues, PromptPlace
from proxy.prefix.breakpoints.feature_account import FeatureAccount, StakedCall
from proxy.records.mark_account import STAKE_UNITS_PER_DOLLAR

#: Cost of a call, and the surcharge of writing all of it.
CALL, SURCHARGE = 100.0, 25.0
LIFE_S = 300.0
DAY_S = 86_400.0
FAMILY = "claude-sonnet"
TOLERANCE = 1e-6
NOTHING = (0.0,) * MAX_PLACES


def account(stake: float = 1e9, calls: int = 0, balance: float = 0.0) -> FeatureAccount:
    """An account of so many calls, which brought this balance together."""
    mark_account = FeatureAccount(stake=stake)
    for _ in range(calls):
        mark_account.of(FAMILY).record_call(CALL, 0.0)
    mark_account.of(FAMILY).net = mark_account.of(FAMILY).balance = balance
    return mark_account


def allows(
    feature_account: FeatureAccount,
    stake: float = SURCHARGE,
    earned: float = 0.0,
    places: int = MAX_PLACES,
) -> bool:
    return feature_account.allows_stake(StakedCall(stake, earned, CALL, places))


def write(
    mark_account: MarkAccount, conversation: bytes, before: int, now: float, fee: float
) -> None:
    """Count a call that writes its conversation and reads nothing."""
    values = PlaceValues(NOTHING, (0.0, 0.0, 0.0, fee))
    mark_account.record_values(values, conversation, before, now, LIFE_S)


def test_the_first_call_of_a_feature_may_lose_one_write():
    assert allows(account())


def test_a_second_loss_waits_until_something_was_earned():
    lost = account(calls=1, balance=-SURCHARGE)

    assert not allows(lost)
    assert not allows(lost, stake=15.0, earned=40.0)
    assert allows(lost, stake=15.0, earned=45.0)


def test_another_agents_tools_may_be_written_while_the_first_ones_may_be_read():
    lost = account(calls=1, balance=-SURCHARGE)
    writes = PlaceValues(NOTHING, (SURCHARGE, 0.0, 0.0, 0.0))
    lost.of(FAMILY).record_values(writes, b"one", 0, 0.0, LIFE_S)

    assert allows(lost, places=PromptPlace.FIRST_CALL)
    assert not allows(lost, places=MAX_PLACES)
    lost.of(FAMILY).count_expired_writes(LIFE_S + 1.0)
    assert not allows(lost, places=PromptPlace.FIRST_CALL)


def test_earlier_savings_pay_for_the_next_marks():
    assert allows(account(calls=1, balance=SURCHARGE))


def test_no_more_than_the_stake_is_lost_however_dear_the_calls_are():
    lost = account(stake=10.0, calls=10_000, balance=-9.0)

    assert allows(lost, stake=1.0, earned=1e9)
    assert not allows(lost, stake=2.0, earned=1e9)


def test_one_write_may_be_lost_where_it_is_more_than_the_stake():
    assert allows(account(stake=1.0, calls=1))
    assert not allows(account(stake=1.0, calls=1, balance=-1.0))


def test_a_second_whole_write_is_lost_only_once_ten_of_them_were_earned():
    lost = account(stake=1.0, calls=1, balance=-SURCHARGE)

    assert not allows(lost, earned=9.9 * SURCHARGE)
    assert allows(lost, earned=10.0 * SURCHARGE)
    assert not allows(account(stake=1.0, calls=1, balance=-1.1 * SURCHARGE), earned=1e9)


@pytest.mark.parametrize("stake", [1.0, 1e9])
def test_moved_text_may_lose_as_much_again_once_ten_stakes_were_earned(stake: float):
    lost = account(stake=stake, calls=3, balance=-2 * SURCHARGE)
    moved = StakedCall(SURCHARGE, 10.0 * SURCHARGE, CALL, MAX_PLACES, is_moved=True)

    assert lost.allows_stake(moved)
    assert not lost.allows_stake(moved._replace(is_moved=False))
    assert not lost.allows_stake(moved._replace(earned=9.9 * SURCHARGE))
    assert not account(stake, calls=5, balance=-4 * SURCHARGE).allows_stake(moved)


def test_a_feature_of_few_calls_a_day_does_not_lose_a_write_again_and_again():
    feature_account, saved = account(calls=0), 0.0
    for day in range(1_000):
        feature_account.forget_losses(day * DAY_S)
        if allows(feature_account):
            saved -= SURCHARGE
            feature_account.of(FAMILY).record_call(CALL, -SURCHARGE)
        else:
            feature_account.of(FAMILY).record_call(CALL, 0.0)

    assert saved == -SURCHARGE


@pytest.mark.parametrize(
    ("calls", "earned", "lost"), [(9, 29.9, 30.0), (9, 30.0, 52.0), (10_000, 30.0, 400.0)]
)
def test_marks_that_earned_three_stakes_may_lose_half_a_call_or_four_in_ten_thousand(
    calls: int, earned: float, lost: float
):
    account = MarkAccount(total=100.0 * calls, calls=calls)
    feature = FeatureAccount(stake=1e9, families={"claude": account})

    assert feature.max_loss(StakedCall(10.0, earned, 100.0, MAX_PLACES)) == pytest.approx(lost)


@pytest.mark.parametrize(("failures", "is_paused"), [(7, False), (8, True)])
def test_marks_pause_once_eight_reads_in_a_row_failed(failures: int, is_paused: bool):  # noqa: FBT001
    feature = FeatureAccount()
    for _ in range(failures):
        feature.of("claude").record_read(1_000.0, came=False)

    assert feature.is_paused("claude", 1_001.0) is is_paused


def test_without_a_stake_nothing_is_paid_in_advance():
    assert not allows(account(stake=0.0, calls=10_000), stake=0.1, earned=1e9)


def test_calls_under_way_count_as_lost_until_they_ended():
    feature_account = account()
    feature_account.reserve_stake(1, SURCHARGE, 0.0)

    assert feature_account.exposure() == SURCHARGE
    assert not allows(feature_account)
    feature_account.release_stake(1)
    assert allows(feature_account)


def test_a_call_that_never_ended_is_released_after_an_hour():
    feature_account = account()
    feature_account.reserve_stake(1, SURCHARGE, 0.0)
    feature_account.reserve_stake(2, 1.0, 3_600.0)
    assert list(feature_account.stakes) == [1, 2]
    feature_account.reserve_stake(3, 1.0, 3_601.0)

    assert list(feature_account.stakes) == [2, 3]


def test_marks_of_a_thousand_calls_may_be_at_stake_at_once():
    feature_account = account()
    for number in range(999):
        feature_account.reserve_stake(number, 0.0, 0.0)
    assert allows(feature_account)
    feature_account.reserve_stake(999, 0.0, 0.0)

    assert not allows(feature_account)


def test_a_feature_may_lose_one_cent_by_default():
    assert FeatureAccount().stake == STAKE_UNITS_PER_DOLLAR * 0.01


def test_a_loss_counts_half_after_a_day():
    feature_account = account(calls=1, balance=-20.0)
    feature_account.forget_losses(1_000.0)
    feature_account.forget_losses(1_000.0 + DAY_S)

    assert feature_account.balance == -10.0


@pytest.mark.parametrize("ahead", [1_800.0, 3_600.0, 365 * DAY_S])
def test_a_clock_that_runs_ahead_and_is_set_back_forgets_half_of_a_loss_and_goes_on(ahead: float):
    feature_account = account(calls=1, balance=-20.0)
    for now in (1_000.0, 1_000.0 + ahead, 1_010.0):
        feature_account.forget_losses(now)
    after = feature_account.balance
    feature_account.forget_losses(1_000.0 + 1.1 * DAY_S)

    assert after <= -10.0
    assert feature_account.balance == pytest.approx(after / 2, rel=0.07)


def test_calls_that_end_out_of_order_forget_no_more_than_the_time_that_passed():
    feature_account = account(calls=1, balance=-20.0)
    for second in range(3_000):
        feature_account.forget_losses(10_000.0 + second)
        feature_account.forget_losses(10_000.0 + second - 1_800.0)

    assert feature_account.balance < -19.5


def test_models_of_a_feature_have_one_stake_together():
    feature_account = account(stake=10.0, calls=10_000)
    feature_account.of("claude-opus").count_saved(-9.0)

    assert feature_account.balance == -9.0
    assert not allows(feature_account, stake=2.0, earned=1e9)
    feature_account.of("claude-haiku").count_saved(5.0)
    assert allows(feature_account, stake=2.0, earned=1e9)


#: A call as a part of the dearest: its size, if its marks are read, the ratio of what the places
#: have earned on paper to its surcharge, and the calls under way beside it.
CALLS = st.lists(
    st.tuples(st.floats(0.01, 1.0), st.booleans(), st.floats(0.0, 10.0), st.integers(0, 4)),
    max_size=200,
)


@given(CALLS, st.floats(0.0, 60.0))
def test_a_feature_never_loses_more_than_its_stake_or_one_surcharge_however_many_calls_overlap(
    calls: list[tuple[float, bool, float, int]], stake: float
):
    feature_account, saved = FeatureAccount(stake=stake), 0.0
    limit = max(stake, SURCHARGE) if stake else 0.0
    pending: list[tuple[int, float, float]] = []

    def end_oldest() -> float:
        number, direct, won = pending.pop(0)
        feature_account.release_stake(number)
        feature_account.of(FAMILY).record_call(direct, won)
        return won

    for number, (size, is_read, earned, beside) in enumerate(calls, start=1):
        risk, won = SURCHARGE * size, 0.0
        if feature_account.allows_stake(StakedCall(risk, earned * risk, CALL * size, MAX_PLACES)):
            feature_account.reserve_stake(number, risk, 0.0)
            won = 2 * risk if is_read else -risk
        pending.append((number, CALL * size, won))
        assert feature_account.exposure() <= limit + TOLERANCE
        while len(pending) > beside:
            saved += end_oldest()
            assert saved >= -limit - TOLERANCE
            assert feature_account.balance == pytest.approx(saved, abs=TOLERANCE)


@given(CALLS)
def test_each_stake_is_within_what_all_calls_so_far_may_lose(
    calls: list[tuple[float, bool, float, int]],
):
    mark_account = FeatureAccount(stake=1e9)
    for size, is_read, earned, _ in calls:
        risk = SURCHARGE * size
        is_sent = mark_account.allows_stake(
            StakedCall(risk, earned * risk, CALL * size, MAX_PLACES)
        )
        won = (2 * risk if is_read else -risk) if is_sent else 0.0
        mark_account.of(FAMILY).record_call(CALL * size, won)
        if is_sent:
            part = 0.52 if earned >= 3.0 else 0.3
            books = mark_account.of(FAMILY)
            share = 0.0004 * books.total if earned >= 3.0 else 0.0
            assert mark_account.balance >= -max(part * books.total / books.calls, share) - TOLERANCE


@given(st.lists(st.booleans(), max_size=60), st.floats(0.0, 10.0))
def test_a_thousand_calls_cost_at_most_a_two_thousandth_more(reads: list[bool], earned: float):
    mark_account = FeatureAccount(stake=1e9)
    for is_read in [*reads, *[False] * (1_000 - len(reads))]:
        is_sent = mark_account.allows_stake(
            StakedCall(SURCHARGE, earned * SURCHARGE, CALL, MAX_PLACES)
        )
        won = (2 * SURCHARGE if is_read else -SURCHARGE) if is_sent else 0.0
        mark_account.of(FAMILY).record_call(CALL, won)

    assert 1_000 * CALL - mark_account.balance <= 1_000 * CALL * 1.0005


def test_a_feature_tells_its_bytes_with_unread_writes_and_stakes():
    feature_account = account()
    assert feature_account.measure() == 700 + 1_100
    for index in range(32):
        write(feature_account.of(FAMILY), str(index).encode(), 0, 0.0, 1.0)
        feature_account.reserve_stake(index, 1.0, 0.0)

    assert feature_account.measure() == 32 * (340 + 260)
