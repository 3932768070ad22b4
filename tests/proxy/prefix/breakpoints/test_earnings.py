"""Marks are sent out of earnings, within the allowed loss, or one at a time on credit."""

from hypothesis import given
from hypothesis import strategies as st

from proxy.prefix.breakpoints.earnings import MarkEarnings


def promising_earnings(*, calls: int = 10, balance: float = 0.0) -> MarkEarnings:
    """A feature whose marks would have saved half of what its calls cost, and that began alike."""
    earnings = MarkEarnings()
    for at in range(calls):
        earnings.record_start(7, now=60.0 * at, life=300.0)
        earnings.record_call(direct=1_000.0, saved=500.0, floor=0.0)
    earnings.balance = balance
    return earnings


def test_nothing_is_bet_before_it_would_have_earned_three_times_as_much():
    earnings = promising_earnings()
    earnings.earned = 3_100.0

    assert not earnings.allows_stake(1_100.0, on_credit=True)
    assert earnings.allows_stake(1_000.0, on_credit=True)


def test_nothing_is_bet_on_credit_before_ten_calls_began_alike():
    assert not promising_earnings(calls=9).allows_stake(250.0, on_credit=True)
    assert promising_earnings(calls=10).allows_stake(250.0, on_credit=True)


def test_nothing_is_bet_on_credit_where_starts_take_turns():
    earnings = promising_earnings()
    for at in range(40):
        earnings.record_start(7 + at % 2, now=600.0 + at, life=300.0)

    assert not earnings.allows_stake(250.0, on_credit=True)


def test_a_start_that_came_again_too_late_for_the_cache_begins_anew():
    earnings = promising_earnings()
    earnings.record_start(7, now=60.0 * 9 + 300.0, life=300.0)

    assert not earnings.allows_stake(250.0, on_credit=True)


def test_calls_that_begin_with_their_conversation_get_no_credit():
    earnings = MarkEarnings()
    for at in range(40):
        earnings.record_start(0, now=float(at), life=300.0)
        earnings.record_call(direct=1_000.0, saved=500.0, floor=0.0)

    assert not earnings.allows_stake(250.0, on_credit=True)


def test_one_bet_is_made_on_credit_and_the_next_ones_out_of_what_it_brought_back():
    assert promising_earnings().allows_stake(250.0, on_credit=True)
    assert not promising_earnings(balance=-250.0).allows_stake(250.0, on_credit=True)
    assert not promising_earnings(balance=200.0).allows_stake(250.0, on_credit=True)


def test_while_a_bet_is_open_there_is_no_other_on_credit():
    earnings = promising_earnings()
    earnings.reserve_stake(1, 250.0, now=0.0)

    assert not earnings.allows_stake(250.0, on_credit=True)


def test_no_bet_is_made_on_credit_where_marks_would_save_little():
    earnings = promising_earnings()
    for at in range(90):
        earnings.record_start(7, now=600.0 + at, life=300.0)
        earnings.record_call(direct=1_000.0, saved=0.0, floor=0.0)

    assert earnings.earned > 3 * 250.0
    assert not earnings.allows_stake(250.0, on_credit=True)


def test_a_stake_counts_as_lost_until_its_call_has_ended():
    earnings = promising_earnings(balance=300.0)
    earnings.reserve_stake(1, 250.0, now=0.0)

    assert not earnings.allows_stake(250.0, on_credit=False)
    earnings.release_stake(1)
    earnings.release_stake(1)
    assert earnings.allows_stake(250.0, on_credit=False)


def test_a_stake_is_released_after_an_hour_without_an_answer():
    earnings = promising_earnings(balance=600.0)
    earnings.reserve_stake(1, 500.0, now=0.0)
    earnings.reserve_stake(2, 0.0, now=3_601.0)

    assert earnings.allows_stake(250.0, on_credit=False)


def test_savings_of_marks_pay_for_the_next_ones():
    assert promising_earnings(balance=300.0).allows_stake(250.0, on_credit=False)
    assert not promising_earnings(balance=200.0).allows_stake(250.0, on_credit=False)


def test_a_stake_within_the_allowed_loss_share_needs_no_credit():
    assert not promising_earnings(calls=500).allows_stake(250.0, on_credit=False)
    assert promising_earnings(calls=1_000).allows_stake(250.0, on_credit=False)


def test_a_loss_on_paper_lowers_the_earnings_to_the_floor_and_no_further():
    earnings = MarkEarnings()
    for _ in range(20):
        earnings.record_call(direct=1_000.0, saved=-250.0, floor=-250.0)

    assert earnings.earned == -250.0


def test_credit_given_in_advance_is_spent_first():
    earnings = MarkEarnings(credit=1_000.0)

    assert earnings.allows_stake(250.0, on_credit=False)
    assert not earnings.allows_stake(500.0, on_credit=False)


@given(st.lists(st.tuples(st.floats(1, 1e5), st.floats(0, 0.9), st.booleans()), max_size=200))
def test_without_credit_no_more_is_ever_lost_than_the_least_part(
    calls: list[tuple[float, float, bool]],
):
    earnings = MarkEarnings()
    spent = lost = 0.0
    for direct, share, is_read in calls:
        stake = direct * 0.25
        sends = earnings.allows_stake(stake, on_credit=False)
        saved = direct * share if is_read else -stake
        if sends:
            earnings.balance += saved
            lost -= saved
        spent += direct
        earnings.record_call(direct, direct * share, 0.0)

        assert lost <= 0.0004 * spent + 1e-6
