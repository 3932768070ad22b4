import pytest

from slo.prediction_accuracy import PredictionAccuracy


def test_of_no_calls_nothing_is_said():
    honesty = PredictionAccuracy()

    assert (honesty.calls, honesty.within) == (0, 0)
    assert honesty.error_quantile(0.95) is None


def test_the_share_is_of_calls_whose_cost_is_known():
    honesty = PredictionAccuracy()
    for settled in (1, 10, 11, None):
        honesty.record(settled, 5, 10)

    assert (honesty.calls, honesty.within, honesty.unpriced) == (3, 2, 1)


def test_errors_are_settled_over_predicted():
    honesty = PredictionAccuracy()
    for settled in range(1, 101):
        honesty.record(settled, 100, 1000)

    assert honesty.error_quantile(0.5) == pytest.approx(0.5, rel=0.03)
    assert honesty.error_quantile(0.99) == pytest.approx(0.99, rel=0.03)


@pytest.mark.parametrize("predicted", [0, None])
def test_what_was_not_predicted_has_no_error(predicted):
    honesty = PredictionAccuracy()
    honesty.record(5, predicted, 10)

    assert honesty.within == honesty.calls == 1
    assert honesty.error_quantile(0.5) is None


def test_late_errors_outweigh_early_ones():
    honesty = PredictionAccuracy()
    for _ in range(10_000):
        honesty.record(1, 1, 1)
    for _ in range(10_000):
        honesty.record(4, 1, 1)

    assert honesty.error_quantile(0.5) == pytest.approx(4, rel=0.03)
    assert honesty.calls == 20_000
