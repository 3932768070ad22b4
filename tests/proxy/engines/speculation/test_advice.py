"""Advice from evidence: measured before expected, and honest where data are few."""

from dataclasses import replace

import pytest

from proxy.engines.profiles import Engine, Speculation, SpeculativeMethod
from proxy.engines.speculation.advice import (
    advise,
    describe_options,
    parse_setting,
    setting_name,
)
from proxy.engines.speculation.evidence import SpeculationEvidence, SpeculationSample
from tests.fakes.engine_profiles import a_profile

PROFILE = a_profile('gpu = "H100"')
NOW = 1_790_000_000.0


def add_samples(evidence=None, **settings):
    """Evidence of 20 samples per setting: its speed, and its acceptance at depth 3."""
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
                accepted=drafts * (share + share**2 + share**3),
                full_drafts=drafts * share**3,
            )
            name = setting if rate is None else f"{setting}:3"
            evidence.add(name, made, NOW)
    return evidence


def test_nothing_measured_is_not_enough_data():
    advice = advise(PROFILE, SpeculationEvidence())

    assert (advice.recommended, advice.options) == ("", ())
    assert advice.reason == "not enough data: a method needs 200 drafts"


def test_few_drafts_are_not_enough_data():
    evidence = SpeculationEvidence()
    evidence.add("ngram:3", SpeculationSample(running=1, tokens=9, decode_s=1, drafts=9), NOW)
    advice = advise(PROFILE, evidence)

    assert advice.recommended == ""
    assert advice.options[0].gain is None


def test_by_formula_a_high_acceptance_gets_a_deeper_draft_and_a_low_one_none():
    good = advise(PROFILE, add_samples(ngram=(100, 0.85, 1)))
    poor = advise(PROFILE, add_samples(draft_model=(100, 0.05, 1)))

    assert good.recommended.startswith("ngram:")
    assert int(good.recommended.partition(":")[2]) > 3
    assert "by the formula" in good.reason
    assert poor.recommended in {"none", ""}


def test_a_measured_speed_goes_before_the_formula():
    advice = advise(PROFILE, add_samples(ngram=(80, 0.8, 1), none=(100, None, 1)))
    option = advice.option("ngram:3")

    assert option is not None
    assert option.measured is not None
    assert option.measured.value == pytest.approx(0.8, abs=0.01)
    assert option.is_cost_measured
    assert option.expected is not None
    assert option.expected.value == pytest.approx(option.measured.value)


def test_a_draft_model_is_not_promised_to_pay_before_its_cost_is_measured():
    unknown = advise(PROFILE, add_samples(draft_model=(100, 0.7, 1)))
    slow = advise(PROFILE, add_samples(draft_model=(70, 0.7, 1), none=(100, None, 1)))
    fast = advise(PROFILE, add_samples(draft_model=(190, 0.7, 1), none=(100, None, 1)))

    assert unknown.recommended == ""
    assert unknown.reason.startswith("not enough data to tell: draft_model:")
    assert slow.recommended == "none"
    assert fast.recommended.startswith("draft_model:")


def test_the_same_acceptance_pays_alone_and_not_in_large_batches():
    alone = advise(PROFILE, add_samples(eagle3=(100, 0.7, 1)))
    crowd = advise(PROFILE, add_samples(eagle3=(100, 0.7, 260)))

    assert alone.recommended.startswith("eagle3:")
    assert crowd.recommended == "none"
    assert "no method pays" in crowd.reason
    option = alone.option("eagle3:3")
    assert option is not None
    assert option.break_even is not None
    assert 100 < option.break_even < 295


def test_an_assumed_draft_cost_makes_the_answer_less_sure():
    assumed = advise(PROFILE, add_samples(draft_model=(100, 0.7, 1))).option("draft_model:3")
    evidence = add_samples(draft_model=(180, 0.7, 1), none=(100, None, 1))
    measured = advise(PROFILE, evidence).option("draft_model:3")

    assert assumed is not None
    assert measured is not None
    assert assumed.expected is not None
    assert measured.expected is not None
    width = assumed.expected.high - assumed.expected.low
    assert width > measured.expected.high - measured.expected.low


@pytest.mark.parametrize("engine", list(Engine))
def test_an_engine_that_counts_too_little_is_said_to_get_no_advice(engine):
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
