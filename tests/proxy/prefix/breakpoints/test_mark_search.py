import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.prefix.breakpoints.mark_search import (
    LaterCalls,
    MarkSearch,
    SavingsOutlook,
    SearchProblem,
)

TOKENS = (100, 300, 600, 0)
NEAR = LaterCalls(0, (2.0, 1.0))
FAR = LaterCalls(2, (0.5, 0.1))
OUTLOOK = SavingsOutlook(TOKENS, [FAR, NEAR], (0.25, 1.0))
NEVER = float("-inf")


def test_a_token_is_worth_the_savings_of_all_calls_that_share_it():
    assert OUTLOOK.token_worths(0) == pytest.approx((2.5, 1.1))
    assert OUTLOOK.token_worths(1) == pytest.approx((0.5, 0.1))
    assert OUTLOOK.token_worths(3) == (0.0, 0.0)


def test_savings_bound_takes_the_best_lifetime_less_its_fee():
    assert OUTLOOK.savings_bound(-1, 1) == pytest.approx(100 * 2.6 + 500 * 0.25)
    assert OUTLOOK.savings_bound(1, 0) == pytest.approx(300 * 0.25)
    assert OUTLOOK.savings_bound(2, 1) == 0.0


def test_savings_bound_without_fees_counts_all_shared_tokens():
    assert OUTLOOK.savings_bound_without_fees(-1) == pytest.approx(100 * 3.6 + 500 * 0.6)


def test_tokens_that_no_call_shares_are_worth_nothing():
    outlook = SavingsOutlook(TOKENS, [], (0.25,))

    assert outlook.savings_bound(-1, 0) == outlook.savings_bound_without_fees(-1) == 0.0


@given(st.integers(-1, 2), st.integers(0, 1))
def test_savings_bound_with_fees_is_never_above_the_one_without(block, rank):
    assert OUTLOOK.savings_bound(block, rank) <= OUTLOOK.savings_bound_without_fees(block)


def board(**changed):
    values = {
        "tokens": (1_000, 2_000, 3_000, 0),
        "cached": {},
        "given": {},
        "fees": (0.25, 1.0),
        "gain": 0.9,
        "least": 500,
        "reach": 20,
    }
    return SearchProblem(**{**values, **changed})


def best(board, kinds, hit=-1, room=4, value=NEVER):
    search = MarkSearch(board, SavingsOutlook(board.tokens, kinds, board.fees), hit)
    search.search(room, value)
    return search


def test_blocks_that_no_later_call_reads_get_no_mark():
    assert best(board(), []).best == ()


def test_each_shared_end_is_marked_as_long_as_it_pays():
    kinds = [LaterCalls(0, (1.0, 3.0)), LaterCalls(2, (0.5, 0.0))]

    assert best(board(), kinds).best == ((0, 1), (2, 0))


def test_with_room_for_one_mark_the_more_useful_stands():
    kinds = [LaterCalls(0, (9.0, 0.0)), LaterCalls(2, (0.5, 0.0))]

    assert best(board(), kinds, room=1).best == ((0, 0),)


def test_a_search_that_cannot_do_better_keeps_the_value_it_was_given():
    search = best(board(), [LaterCalls(2, (0.5, 0.0))], value=1e9)

    assert (search.best, search.value) == ((), 1e9)


def test_a_mark_that_would_find_a_longer_entry_rules_a_shorter_hit_out():
    crowded = board(cached={0: 0, 2: 0}, given={2: 0})

    assert best(crowded, [], hit=0).value == NEVER


def test_a_read_entry_needs_a_mark_whose_lookup_finds_it():
    live = board(cached={1: 0}, reach=1)

    assert best(live, [], hit=1).best == ((1, 0),)


def test_a_live_entry_is_kept_for_an_hour_by_a_short_write_behind_it():
    live = board(cached={1: 0})

    assert (2, 1) in best(live, [LaterCalls(2, (0.0, 5.0))], hit=1).best


def test_a_shorter_hit_leaves_the_window_of_a_longer_entry_alone():
    live = board(tokens=(1_000, 2_000, 2_500, 3_000, 0), cached={0: 0, 2: 0}, reach=1)

    assert best(live, [LaterCalls(3, (1.0, 0.0)), LaterCalls(2, (1.0, 0.0))], hit=0).best == (
        (0, 0),
        (1, 0),
        (3, 0),
    )


def test_a_mark_with_a_longer_lifetime_is_not_added_before_the_callers_longer_one():
    owned = board(given={2: 1})

    assert best(owned, [LaterCalls(1, (3.0, 0.0))]).best == ((1, 1),)


def test_prompts_below_the_minimum_get_no_mark_and_the_callers_does_nothing():
    short = board(tokens=(100, 200, 0), given={0: 0})

    assert best(short, [LaterCalls(1, (9.0, 9.0))]).best == ()


def test_with_many_shared_ends_and_few_marks_the_best_few_stand():
    kinds = [LaterCalls(at, (1.0, 0.0)) for at in range(6)]
    crowded = board(tokens=(*range(1_000, 7_000, 1_000), 0))

    assert best(crowded, kinds, room=3).best == ((0, 0), (2, 0), (4, 0))


def test_marks_behind_the_last_that_fits_are_still_the_callers():
    owned = board(given={2: 0})

    assert best(owned, [LaterCalls(0, (9.0, 0.0)), LaterCalls(1, (9.0, 0.0))], room=1).best == (
        (0, 0),
    )
