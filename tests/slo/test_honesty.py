import pytest

from slo.honesty import Honesty


def test_of_no_calls_nothing_is_said():
    honesty = Honesty()

    assert honesty.share is None
    assert honesty.error(0.95) is None


def test_the_share_is_of_calls_whose_cost_is_known():
    honesty = Honesty()
    for settled in (1, 10, 11, None):
        honesty.note(settled, 5, 10)

    assert honesty.share == 2 / 3
    assert (honesty.calls, honesty.within, honesty.unpriced) == (3, 2, 1)


def test_errors_are_settled_over_predicted():
    honesty = Honesty()
    for settled in range(1, 101):
        honesty.note(settled, 100, 1000)

    assert honesty.error(0.5) == pytest.approx(0.5, rel=0.03)
    assert honesty.error(0.99) == pytest.approx(0.99, rel=0.03)


@pytest.mark.parametrize("predicted", [0, None])
def test_what_was_not_predicted_has_no_error(predicted):
    honesty = Honesty()
    honesty.note(5, predicted, 10)

    assert honesty.share == 1
    assert honesty.error(0.5) is None


def test_late_errors_outweigh_early_ones():
    honesty = Honesty()
    for _ in range(10_000):
        honesty.note(1, 1, 1)
    for _ in range(10_000):
        honesty.note(4, 1, 1)

    assert honesty.error(0.5) == pytest.approx(4, rel=0.03)
    assert honesty.calls == 20_000
