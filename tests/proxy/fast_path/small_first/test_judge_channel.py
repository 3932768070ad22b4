"""The errors of a noisy judge are undone exactly, on average."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.fast_path.small_first.judge_channel import (
    LOSSES,
    JudgeError,
    Verdict,
    combine_orders,
    estimate_error,
    unbiased_loss,
    undo,
)

errors = st.floats(0, 0.35)


@given(errors, errors, st.booleans())
def test_each_truth_has_verdicts_that_sum_to_one(low, high, both):
    for channel in JudgeError(low, high, both).channels:
        for row in channel:
            assert sum(row) == pytest.approx(1)
            assert min(row) >= -1e-12


@given(errors, st.booleans(), st.tuples(*[st.floats(-3, 3)] * 3))
def test_undone_values_have_the_targets_as_means(error, both, targets):
    channel = JudgeError(error, error, both).channels[0]

    undone = undo(channel, targets)

    for row, target in zip(channel, targets, strict=True):
        mean = sum(share * value for share, value in zip(row, undone, strict=True))
        assert mean == pytest.approx(target, abs=1e-6)


@given(errors, st.booleans())
def test_unbiased_losses_are_right_on_average(error, both):
    judge = JudgeError(error, error, both)

    for row, loss in zip(judge.channels[0], LOSSES, strict=True):
        mean = sum(
            share * unbiased_loss(judge, verdict)
            for share, verdict in zip(row, Verdict, strict=True)
        )
        assert mean == pytest.approx(loss, abs=1e-6)


def test_orders_that_disagree_make_a_verdict_of_equal():
    assert combine_orders(Verdict.WORSE, Verdict.WORSE) is Verdict.WORSE
    assert combine_orders(Verdict.WORSE, Verdict.BETTER) is Verdict.EQUAL
    assert combine_orders(Verdict.BETTER, Verdict.EQUAL) is Verdict.EQUAL


@pytest.mark.parametrize("error", [0.02, 0.1, 0.2])
def test_estimated_error_encloses_the_true_one(error):
    agreement = (1 - error) ** 2 + error**2 / 2

    estimate = estimate_error(round(4_000 * agreement), 4_000, prior=0.1)

    assert estimate.low <= error <= estimate.high
    assert estimate.high - estimate.low < 0.03


def test_estimated_error_without_pairs_is_around_the_prior():
    estimate = estimate_error(0, 0, prior=0.1)

    assert estimate.low < 0.1 < estimate.high
