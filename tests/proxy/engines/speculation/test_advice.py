"""Advice from evidence: by speeds that were measured alone, and honest where data are few."""

from dataclasses import replace

import pytest

from proxy.engines.metrics.decode_speed import SpeedSums
from proxy.engines.profiles import Engine, Speculation, SpeculativeMethod
from proxy.engines.speculation.advice import (
    MIN_CALLS,
    FeatureSpeculation,
    SpeculationOption,
    advise,
    advise_feature,
    describe_options,
    parse_setting,
    setting_name,
)
from proxy.engines.speculation.evidence import SpeculationEvidence, SpeculationSample
from tests.fakes.engine_profiles import a_profile

PROFILE = a_profile('gpu = "H100"')
NOW = 1_790_000_000.0


def add_samples(evidence=None, **settings):
    """Evidence of 20 samples per setting: its speed, and its acceptance rate at depth 3."""
    evidence = evidence or SpeculationEvidence()
    for setting, (speed, rate, running) in settings.items():
        for number in range(20):
            drafts = 100.0 if rate is not None else 0.0
            share = rate or 0.0
            made = SpeculationSample(
                running=running,
                tokens=speed * 5 * (1 + 0.01 * (number % 3)),
                decode_s=5.0,
                drafts=drafts,
                draft_tokens=3 * drafts,
                accepted=3 * drafts * share,
            )
            name = setting if rate is None else f"{setting}:3"
            evidence.add(name, made, NOW)
    return evidence


def test_advice_without_measurements_says_not_enough_data():
    advice = advise(PROFILE, SpeculationEvidence())

    assert (advice.recommended, advice.options) == ("", ())
    assert advice.reason == "not enough data: a method needs 200 drafts"


def test_few_drafts_are_not_enough_data():
    evidence = SpeculationEvidence()
    evidence.add("ngram:3", SpeculationSample(running=1, tokens=9, decode_s=1, drafts=9), NOW)
    advice = advise(PROFILE, evidence)

    assert advice.recommended == ""
    assert advice.options[0].measured is None


def test_advice_needs_measurements_with_and_without_an_option():
    for name in ("ngram", "draft_model", "eagle3"):
        advice = advise(PROFILE, add_samples(**{name: (100, 0.95, 1)}))

        assert advice.recommended == ""
        assert advice.reason.startswith(f"not measured yet: {name}:3 needs 10 samples")
        assert [option.setting for option in advice.options] == [f"{name}:3"]


def test_a_draft_model_measured_to_be_slower_is_not_recommended_at_any_depth():
    advice = advise(PROFILE, add_samples(draft_model=(85, 0.9, 1), none=(100, None, 1)))
    option = advice.option("draft_model:3")

    assert option is not None
    assert option.measured is not None
    assert option.acceptance == pytest.approx(0.9)
    assert option.tokens_per_step == pytest.approx(1 + 3 * 0.9)
    assert option.measured.value == pytest.approx(0.85, abs=0.01)
    assert advice.recommended == "none"
    assert advice.reason.startswith("no method pays: the best, draft_model:3 was measured at 0.85x")


def test_a_setting_that_was_measured_to_pay_is_recommended():
    advice = advise(PROFILE, add_samples(draft_model=(190, 0.7, 1), none=(100, None, 1)))

    assert advice.recommended == "draft_model:3"
    assert advice.reason.startswith("draft_model:3 was measured at 1.90x")


def test_speeds_at_other_numbers_of_sequences_are_kept_apart():
    evidence = add_samples(ngram=(180, 0.7, 1), none=(100, None, 1))
    add_samples(evidence, ngram=(34, 0.7, 8), none=(40, None, 8))
    advice = advise(PROFILE, evidence)
    option = advice.option("ngram:3")

    assert option is not None
    assert [band.sequences for band in option.bands] == [1, 8]
    speed_ups = [band.speed_up.value for band in option.bands if band.speed_up]
    assert speed_ups == [pytest.approx(1.8, abs=0.01), pytest.approx(0.85, abs=0.01)]
    assert sum(band.share for band in option.bands) == pytest.approx(1.0)
    assert option.measured is not None
    assert 1.2 < option.measured.value < 1.6
    assert advice.reason.endswith("slower at 5 to 8 sequences at once: 0.85x")


def test_advice_follows_a_change_of_load_within_an_hour():
    evidence = SpeculationEvidence()
    for number in range(2 * 720):
        running, speeds = (1, (180, 100)) if number < 720 else (8, (34, 40))
        for setting, speed in zip(("ngram:3", "none"), speeds, strict=True):
            drafts = {"drafts": 100.0, "draft_tokens": 300.0, "accepted": 200.0}
            made = SpeculationSample(
                running=running,
                tokens=speed * 5 * (1 + 0.01 * (number % 3)),
                decode_s=5.0,
                **(drafts if setting != "none" else {}),
            )
            evidence.add(setting, made, NOW + 5 * number)
        if number == 719:
            assert advise(PROFILE, evidence).recommended == "ngram:3"

    assert advise(PROFILE, evidence).recommended == "none"


def test_a_load_that_was_measured_one_way_alone_is_not_advised_on():
    evidence = add_samples(ngram=(180, 0.7, 1), none=(100, None, 1))
    add_samples(evidence, ngram=(500, 0.7, 64))

    assert advise(PROFILE, evidence).recommended == ""


@pytest.mark.parametrize("engine", list(Engine))
def test_engine_that_counts_too_little_gets_no_advice(engine):
    is_measured = engine in {Engine.VLLM, Engine.LLAMACPP}
    reason = advise(replace(PROFILE, engine=engine), SpeculationEvidence()).reason

    assert reason.startswith("not enough data" if is_measured else "no advice, and none will come")
    assert is_measured or f"{engine} counts no" in reason
    assert is_measured or reason.endswith("only vllm and llamacpp are measured")


def test_options_are_described_in_plain_values():
    (best, *_) = describe_options(advise(PROFILE, add_samples(ngram=(150, 0.8, 1))))

    assert best["method"] == "ngram"
    assert best["speed_up_measured"] is None


def test_names_of_settings_are_read_back():
    chosen = Speculation(method=SpeculativeMethod.NGRAM, tokens=5)

    assert parse_setting(setting_name(chosen)) == (SpeculativeMethod.NGRAM, 5)
    assert parse_setting(setting_name(None)) == (None, 0)
    assert parse_setting("wishes:9") == (None, 0)


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
