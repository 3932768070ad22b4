"""A plan sends most calls small that what may be lost pays for, and judges as many as it may."""

from hypothesis import given
from hypothesis import strategies as st

from proxy.fast_path.small_first.judge_channel import JudgeError
from proxy.fast_path.small_first.loss_bound import LossBound
from proxy.fast_path.small_first.spending_plan import Prospect, SpendingPlan, plan_spending


def plan(predictions, allowance, error=0.0, judged_share=0.1):
    prospect = Prospect(
        bound=LossBound(),
        error=JudgeError(error, error),
        allowance=allowance,
        judged_share=judged_share,
        better=0.0,
    )
    return plan_spending(prospect, predictions)


def test_nothing_is_planned_where_nothing_may_be_lost():
    assert plan([0.0] * 100, allowance=0.0) == SpendingPlan()


def test_all_calls_go_small_where_none_is_lost_and_much_may_be():
    planned = plan([0.0] * 400, allowance=200.0)

    assert planned.share > 0.8
    assert planned.probability <= 0.13


def test_calls_of_low_predicted_loss_go_first():
    planned = plan([0.9, 0.0] * 200, allowance=60.0)

    assert planned.threshold >= 0.0
    assert 0.3 < planned.share < 0.65


def test_errors_of_the_judge_leave_less_to_send_small():
    exact = plan([0.02] * 400, allowance=60.0)
    noisy = plan([0.02] * 400, allowance=60.0, error=0.1)

    assert 0 < noisy.share < exact.share


@given(
    st.lists(st.floats(-0.3, 0.9), min_size=1, max_size=400),
    st.floats(0, 500),
    st.floats(0, 0.2),
    st.floats(0.01, 0.5),
)
def test_judged_calls_of_a_plan_stay_within_their_share(predictions, allowance, error, judged):
    planned = plan(predictions, allowance, round(error, 2), judged)

    assert planned.share * planned.probability <= judged
    assert 0 <= planned.share <= 1
