"""Tokens and cost by way and feature."""

import pytest

from proxy.tools.replay.variant_totals import (
    MAX_FEATURES,
    OTHER_FEATURES,
    CumulativeCosts,
    TotalsByFeature,
    VariantTotals,
    sum_of,
)
from slo.usage import Usage


def test_calls_add_up():
    totals = VariantTotals()
    totals.add(Usage(input=10, cache_read=60, write_5m=30, output=5), 1_000_000)
    totals.add(Usage(input=100, output=5), 2_000_000)

    assert (totals.calls, totals.nanos) == (2, 3_000_000)
    assert (totals.input_tokens, totals.cache_read_tokens) == (200, 60)
    assert (totals.cache_write_tokens, totals.output_tokens) == (30, 10)
    assert totals.hit_rate == 0.3


def test_one_unknown_price_makes_the_cost_unknown():
    totals = VariantTotals()
    totals.add(Usage(input=10), None)
    totals.add(Usage(input=10), 5)

    assert totals.nanos is None


def test_totals_of_no_calls_have_a_hit_rate_of_nothing():
    assert VariantTotals().hit_rate == 0.0
    assert sum_of(()) == []


def add_calls(*answers: int | None, feature: str = "f", into: TotalsByFeature) -> None:
    """Calls of a feature that cost 100 each, with answers at these prices; None for none."""
    for nanos in answers:
        totals = into.of(feature)
        for way in totals.ways:
            way.add(Usage(input=1), 100 + (nanos or 0))
        if nanos is None:
            totals.unanswered += 1
        else:
            totals.add_answer(nanos)


def test_an_unanswered_call_costs_the_mean_answer_of_its_feature_in_every_way():
    totals = TotalsByFeature(2)
    add_calls(10, 30, None, None, into=totals)
    add_calls(1000, feature="g", into=totals)

    feature = totals.features()[0]

    assert [way.nanos for way in feature.ways] == [400 + 40 + 2 * 20] * 2
    assert feature.unanswered == 2


def test_a_feature_without_any_answer_takes_the_mean_of_the_others():
    totals = TotalsByFeature(1)
    add_calls(None, feature="silent", into=totals)
    add_calls(50, 70, feature="g", into=totals)

    assert totals.features()[0].ways[0].nanos == 100 + 60


@pytest.mark.parametrize("answers", [(None,), (None, None)])
def test_without_any_known_answer_the_cost_is_of_prompts_alone(answers):
    totals = TotalsByFeature(1)
    add_calls(*answers, into=totals)

    assert totals.features()[0].ways[0].nanos == 100 * len(answers)


def test_features_are_bounded_and_none_is_lost():
    totals = TotalsByFeature(1)
    for number in range(MAX_FEATURES + 50):
        add_calls(1, feature=str(number), into=totals)

    features = totals.features()

    assert len(features) == MAX_FEATURES + 1
    assert features[-1].feature == OTHER_FEATURES
    assert sum_of(features)[0].calls == MAX_FEATURES + 50


def totals_of(*nanos: int | None) -> list[VariantTotals]:
    return [VariantTotals(nanos=amount) for amount in nanos]


@pytest.mark.parametrize("calls", [1, 4, 5, 9, 1_000])
def test_curves_are_bounded_and_end_at_the_last_call(calls: int):
    costs = CumulativeCosts(2, max_points=4)
    for _ in range(calls):
        costs.add((3, 1), is_answered=True)

    points, (dear, cheap) = costs.curves(totals_of(3 * calls, calls))

    assert len(points) <= 5
    assert points[-1] == calls
    assert dear == tuple(3 * point for point in points)
    assert cheap == points


def test_curves_spread_the_answers_estimated_over_the_calls_without_one():
    costs = CumulativeCosts(1)
    for is_answered in (True, False, True, False):
        costs.add((10,), is_answered=is_answered)

    assert costs.curves(totals_of(40 + 6)) == ((1, 2, 3, 4), [(10, 23, 33, 46)])


def test_curves_leave_out_calls_at_no_known_price_and_are_none_without_any():
    costs = CumulativeCosts(1)
    costs.add((None,), is_answered=True)
    assert costs.curves(totals_of(0)) == ((), [])
    costs.add((7,), is_answered=True)
    assert costs.curves(totals_of(7)) == ((1,), [(7,)])
    assert costs.curves(totals_of(None)) == ((), [])
