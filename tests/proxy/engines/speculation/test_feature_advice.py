"""Advice for one feature: measured before expected, and honest where calls are few."""

import pytest

from proxy.engines.profiles import SpeculativeMethod
from proxy.engines.speculation.advice import SpeculationAdvice, SpeculationOption
from proxy.engines.speculation.feature_advice import (
    MIN_CALLS,
    FeatureSpeculation,
    advise_feature,
    features_speed_up,
)
from proxy.engines.speculation.formula import speed_up

RUNS = SpeculationOption(
    setting="draft_model:3",
    method=SpeculativeMethod.DRAFT_MODEL,
    depth=3,
)


def calls(share: float, speeds: tuple[float, float] | None = None) -> FeatureSpeculation:
    """Calls of which this share of drafted tokens was accepted; speeds with and without drafts."""
    found = FeatureSpeculation()
    for _ in range(MIN_CALLS):
        found.add((300, round(300 * share)), 100, 100 / speeds[0] if speeds else 0.0)
        if speeds:
            found.add(None, 100, 100 / speeds[1])
    return found


def at(concurrency: float) -> SpeculationAdvice:
    return SpeculationAdvice(concurrency=concurrency, saturation=200)


def test_the_expected_speed_up_is_that_of_the_published_formula() -> None:
    advice = advise_feature(calls(0.6), RUNS, at(1.0))
    ran = advice.option("draft_model:3")

    assert ran is not None
    assert ran.acceptance is not None
    assert ran.expected is not None
    rate = ran.acceptance.value
    assert rate + rate**2 + rate**3 == pytest.approx(3 * 0.6, abs=1e-6)
    assert ran.expected.value == pytest.approx(speed_up(rate, 3, 0.1, 1.0, 200))


def test_a_measured_speed_up_goes_before_the_expected_one() -> None:
    slower = advise_feature(calls(0.3, (80.0, 100.0)), RUNS, at(1.0))
    ran = slower.option("draft_model:3")

    assert ran is not None
    assert ran.measured is not None
    assert ran.expected is not None
    assert ran.measured.value == pytest.approx(0.8)
    assert ran.expected.value > 1.0
    assert slower.recommended == "none"
    assert slower.reason.startswith("no method pays: the best, draft_model:3 was measured at 0.80x")


def test_without_calls_that_had_no_drafts_nothing_is_recommended() -> None:
    advice = advise_feature(calls(0.9), RUNS, at(1.0))

    assert advice.recommended == ""
    assert advice.reason.startswith("not measured yet: draft_model:3 needs")


def test_the_speed_up_over_features_weighs_them_by_their_tokens() -> None:
    quick, slow = calls(0.9, (200.0, 100.0)), calls(0.1, (50.0, 100.0))
    both = features_speed_up([quick, slow, calls(0.5)])

    assert features_speed_up([calls(0.5)]) is None
    assert both is not None
    assert both.value == pytest.approx((1 / 100 + 1 / 100) / (1 / 200 + 1 / 50))


def test_few_calls_and_an_unknown_setting_are_no_advice() -> None:
    few = FeatureSpeculation()
    few.add((30, 10), 10, 0.1)

    assert advise_feature(few, RUNS, at(1.0)).reason == "not enough data: 1 of 20 calls with drafts"
    unknown = advise_feature(calls(0.6), None, at(1.0))
    assert (unknown.recommended, unknown.options) == ("", ())
    assert unknown.reason == "the setting that runs is not known"
