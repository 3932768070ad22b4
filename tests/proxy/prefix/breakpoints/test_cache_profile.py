import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.prefix.breakpoints.cache_profile import LaterCalls, SavingsOutlook

TOKENS = (100, 300, 600, 0)
NEAR = LaterCalls(0, (2.0, 1.0))
FAR = LaterCalls(2, (0.5, 0.1))
OUTLOOK = SavingsOutlook(TOKENS, [FAR, NEAR], (0.25, 1.0))


def test_a_token_is_worth_what_all_who_share_it_save():
    assert OUTLOOK.token_worths(0) == pytest.approx((2.5, 1.1))
    assert OUTLOOK.token_worths(1) == pytest.approx((0.5, 0.1))
    assert OUTLOOK.token_worths(3) == (0.0, 0.0)


def test_beyond_a_place_the_best_lifetime_is_hoped_for_and_its_fee_taken_off():
    assert OUTLOOK.savings_bound(-1, 1) == pytest.approx(100 * 2.6 + 500 * 0.25)
    assert OUTLOOK.savings_bound(1, 0) == pytest.approx(300 * 0.25)
    assert OUTLOOK.savings_bound(2, 1) == 0.0


def test_without_fees_everything_shared_could_be_saved():
    assert OUTLOOK.savings_bound_without_fees(-1) == pytest.approx(100 * 3.6 + 500 * 0.6)


def test_what_nobody_shares_is_worth_nothing():
    outlook = SavingsOutlook(TOKENS, [], (0.25,))

    assert outlook.savings_bound(-1, 0) == outlook.savings_bound_without_fees(-1) == 0.0


@given(st.integers(-1, 2), st.integers(0, 1))
def test_hope_is_never_more_than_what_is_free(block, rank):
    assert OUTLOOK.savings_bound(block, rank) <= OUTLOOK.savings_bound_without_fees(block)
