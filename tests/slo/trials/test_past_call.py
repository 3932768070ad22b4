"""Sums of past calls."""

from slo.trials.past_call import TrialSums
from tests.fakes.past_calls import CENT, a_past_call


def test_sums_count_calls_of_unknown_price_as_nothing() -> None:
    sums = TrialSums()
    for call in (a_past_call(), a_past_call(cost_nanos=None)):
        sums.add(call)

    assert (sums.calls, sums.nanos) == (2, CENT)
