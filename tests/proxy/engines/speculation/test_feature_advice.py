"""Advice for one feature: by its own measured speeds, and honest where calls are few."""

import pytest

from proxy.engines.metrics.decode_speed import SpeedSums
from proxy.engines.profiles import SpeculativeMethod
from proxy.engines.speculation.advice import SpeculationOption
from proxy.engines.speculation.feature_advice import (
    MIN_CALLS,
    FeatureSpeculation,
    advise_feature,
)

RUNS = SpeculationOption(
    setting="draft_model:3",
    method=SpeculativeMethod.DRAFT_MODEL,
    depth=3,
)


def calls(share: float, speeds: tuple[float, float] | None = None) -> FeatureSpeculation:
    """Calls of which this share of drafted tokens was accepted; speeds with and without drafts."""
    sums = [SpeedSums(), SpeedSums()]
    for pace, speed in zip(sums, speeds or (), strict=False):
        for _ in range(MIN_CALLS):
            pace.add_output(100, 100 / speed)
    drafted = 300 * MIN_CALLS
    return FeatureSpeculation(MIN_CALLS, drafted, round(drafted * share), *sums)


def test_a_feature_whose_drafts_made_it_slower_is_advised_none() -> None:
    slower = advise_feature(calls(0.3, (80.0, 100.0)), RUNS)
    (option,) = slower.options

    assert option.measured is not None
    assert option.measured.value == pytest.approx(0.8)
    assert option.acceptance == 0.3
    assert option.tokens_per_step == pytest.approx(1.9)
    assert slower.recommended == "none"
    assert slower.reason.startswith("no method pays: the best, draft_model:3 was measured at 0.80x")


def test_without_calls_that_had_no_drafts_nothing_is_recommended() -> None:
    advice = advise_feature(calls(0.9), RUNS)

    assert advice.recommended == ""
    assert advice.reason.startswith("not measured yet: draft_model:3 needs")


def test_few_calls_and_an_unknown_setting_are_no_advice() -> None:
    few = FeatureSpeculation(calls=1, draft_tokens=30, accepted_tokens=10)

    assert advise_feature(few, RUNS).reason == "not enough data: 1 of 20 calls with drafts"
    unknown = advise_feature(calls(0.6), None)
    assert (unknown.recommended, unknown.options) == ("", ())
    assert unknown.reason == "the setting that runs is not known"
