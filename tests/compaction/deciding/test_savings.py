import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from compaction.deciding.savings import Rates, Saved, Sent, dearer, saved, total, warm

#: Three dollars a million.
SONNET = Rates(input=3_000_000_000, read=300_000_000, write=3_750_000_000)


def test_the_call_that_folds_is_dearer_though_it_is_shorter():
    sent = Sent(cache_read=1_000, cache_write=2_000)
    found = saved(12_000, 11_400, sent, SONNET)

    assert found.gross == 9_000 * 3_000
    assert found.without == 11_400 * 300 + 600 * 3_750
    assert found.net == found.without - (1_000 * 300 + 2_000 * 3_750)
    assert found.net < 0 < found.gross


def test_calls_after_it_are_cheaper():
    found = saved(12_600, 12_000, Sent(cache_read=3_000, cache_write=600), SONNET)

    assert found.net == 9_000 * 300


def test_with_a_cold_cache_a_fold_saves_at_once():
    found = saved(12_000, warm(11_400, 301, 300), Sent(cache_write=3_000), SONNET)

    assert found.net == 9_000 * 3_750


def test_a_cache_lives_to_the_end_of_its_lifetime():
    assert warm(500, 300, 300) == 500


def test_a_small_models_pay_is_taken_off():
    sent = Sent(cache_read=3_000, cache_write=600)

    assert saved(12_600, 12_000, sent, SONNET, 5_000).net == 9_000 * 300 - 5_000


def test_tokens_that_no_cache_keeps_cost_the_ordinary_price():
    assert saved(4_000, 0, Sent(input=1_000), SONNET).net == 3_000 * 3_000


def test_what_was_read_whole_tells_no_price_of_writing():
    found = saved(1_500, 1_000, Sent(cache_read=1_000), SONNET)

    assert found.without == 1_000 * 300 + 500 * 3_000


def test_no_more_is_read_than_the_prompt_holds():
    assert saved(1_000, 9_000, Sent(cache_read=1_000), SONNET).net == 0


@given(
    st.lists(
        st.builds(
            Saved,
            gross=st.integers(-100, 100),
            net=st.integers(-100, 100),
            without=st.integers(0, 100),
            shorter=st.integers(-100, 100),
            calls=st.just(1),
        )
    )
)
def test_a_total_is_the_sum_of_each(each):
    found = total(each)

    assert found.calls == len(each)
    assert found.net == sum(one.net for one in each)
    assert found.gross == sum(one.gross for one in each)
    assert found.without == sum(one.without for one in each)
    assert found.shorter == sum(one.shorter for one in each)


LOSS = Saved(gross=900, net=-20, without=1_000, shorter=300, calls=50)


def test_shorter_but_dearer_is_told():
    assert dearer(LOSS)


@pytest.mark.parametrize(
    "window",
    [
        replace(LOSS, calls=49),
        replace(LOSS, shorter=0),
        replace(LOSS, net=-10),
        replace(LOSS, net=20),
    ],
    ids=["too few calls", "nothing shorter", "hardly dearer", "cheaper"],
)
def test_what_may_be_chance_or_is_none_of_its_doing_is_not(window):
    assert not dearer(window)
