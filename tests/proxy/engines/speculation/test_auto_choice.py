"""The setting that ``auto`` takes: within what the profile permits, and without flapping."""

import json
from dataclasses import replace

import pytest

from proxy.engines.metrics.kv_pressure import KVSums
from proxy.engines.profiles import AutoSpeculation, KVDtype, Speculation, SpeculativeMethod
from proxy.engines.speculation.advice import advise
from proxy.engines.speculation.auto_choice import (
    RETRY_S,
    SpeculationChoice,
    SpeculationRecord,
    apply_choice,
    choose_setting,
    permitted_methods,
)
from proxy.engines.speculation.evidence import SpeculationEvidence, SpeculationSample
from tests.fakes.engine_profiles import a_profile, written_flags
from tests.proxy.engines.speculation.test_advice import NOW, add_samples

NGRAM = a_profile('speculative = "auto"\ngpu = "H100"')
DRAFT = a_profile('speculative = { method = "auto", draft = "d" }\ngpu = "H100"')


def choose(profile, evidence=None, present=None, later=0.0):
    record = SpeculationRecord(choice=present)
    if evidence is not None:
        record.evidence = evidence
    return choose_setting(profile, record, NOW + later)


def choice_before(setting):
    return SpeculationChoice(setting=setting, reason="before", since=NOW)


def test_a_profile_permits_its_draft_and_ngrams():
    assert permitted_methods(NGRAM) == (SpeculativeMethod.NGRAM,)
    assert permitted_methods(DRAFT) == (SpeculativeMethod.DRAFT_MODEL, SpeculativeMethod.NGRAM)


LISTED = a_profile(
    'speculative = { method = "auto", methods = ["mtp", "eagle3", "suffix"], draft = "head" }'
)


def test_methods_that_the_profile_lists_are_permitted_in_their_order():
    assert permitted_methods(LISTED) == (
        SpeculativeMethod.MTP,
        SpeculativeMethod.EAGLE3,
        SpeculativeMethod.SUFFIX,
    )


@pytest.mark.parametrize(
    ("tried", "setting", "draft"),
    [
        ({}, "mtp:1", ""),
        ({"mtp": (50, 0.2, 1)}, "eagle3:3", "head"),
        ({"mtp": (50, 0.2, 1), "eagle3": (50, 0.2, 1)}, "suffix:8", ""),
    ],
)
def test_listed_methods_are_tried_one_after_the_other_each_with_a_depth_that_suits_it(
    tried, setting, draft
):
    evidence = add_samples(**tried, none=(100, None, 1))
    choice = choose(LISTED, evidence, choice_before("none") if tried else None)
    flags = written_flags(apply_choice(LISTED, choice))
    config = json.loads(flags[flags.index("--speculative-config") + 1])

    assert choice.setting == setting
    assert f"{config['method']}:{config['num_speculative_tokens']}" == setting
    assert config.get("model", "") == draft


def test_without_data_the_first_permitted_method_is_tried():
    assert choose(NGRAM).setting == "ngram:3"
    choice = choose(DRAFT)

    assert choice.setting == "draft_model:3"
    assert choice.reason.startswith("not enough data")
    assert apply_choice(DRAFT, choice).speculation == Speculation(
        method=SpeculativeMethod.DRAFT_MODEL, draft="d", tokens=3
    )


def test_a_draft_that_the_profile_no_longer_gives_is_not_used_again():
    assert choose(NGRAM, present=choice_before("draft_model:3")).setting == "ngram:3"


def test_plain_speed_of_which_half_was_measured_on_a_busy_machine_is_not_sure_to_be_beaten():
    evidence = SpeculationEvidence()
    for number in range(24):
        drafted = SpeculationSample(
            running=1, tokens=500, decode_s=5, drafts=50, draft_tokens=150, accepted=50
        )
        evidence.add("draft_model:3", drafted, NOW + 5 * number)
    for number in range(12):
        plain = SpeculationSample(running=1, tokens=500 if number < 6 else 300, decode_s=5)
        evidence.add("none", plain, NOW + 120 + 5 * number)
    advice = advise(DRAFT, evidence).option("draft_model:3")

    assert advice is not None
    assert advice.measured is not None
    assert advice.measured.value > 1.2
    assert choose(DRAFT, evidence, choice_before("none")).setting == "ngram:3"


def test_a_method_that_does_not_pay_is_given_up_and_the_next_one_tried():
    slow = add_samples(draft_model=(50, 0.2, 1), none=(100, None, 1))
    choice = choose(DRAFT, slow, choice_before("draft_model:3"))

    assert choice.setting == "none"
    assert "did not pay: 0.50x" in choice.reason
    assert choose(DRAFT, slow, choice).setting == "ngram:3"
    assert apply_choice(DRAFT, choice).speculation is None


def test_without_a_control_replica_a_measured_method_gives_way_once_to_none():
    evidence = add_samples(ngram=(150, 0.6, 1))
    choice = choose(NGRAM, evidence, choice_before("ngram:3"))
    add_samples(evidence, none=(100, None, 1))
    after = choose(NGRAM, evidence, choice)

    assert choice.setting == "none"
    assert choice.reason == "ngram:3 is measured; without speculation comes next, to compare"
    assert after.setting == "ngram:3"
    assert after.reason.endswith("measured to pay")
    assert choose(NGRAM, evidence, after).setting == "ngram:3"


def test_no_further_method_is_tried_before_none_is_measured():
    evidence = add_samples(draft_model=(150, 0.6, 1))
    choice = choose(DRAFT, evidence, choice_before("none"))

    assert choice.setting == "none"


def test_a_control_replica_measures_none_meanwhile():
    evidence = add_samples(ngram=(150, 0.6, 1))
    profile = replace(NGRAM, replicas=2, control_replicas=1)

    assert choose(profile, evidence, choice_before("ngram:3")).setting == "ngram:3"


def test_speculation_stays_off_until_the_next_trial():
    slow = add_samples(ngram=(50, 0.2, 1), none=(100, None, 1))

    assert choose(NGRAM, slow, choice_before("none"), RETRY_S - 1).setting == "none"
    assert choose(NGRAM, slow, choice_before("none"), RETRY_S + 1).setting == "ngram:3"


@pytest.mark.parametrize(("speed", "setting"), [(165, "ngram:3"), (260, "draft_model:3")])
def test_a_setting_gives_way_only_to_one_that_is_clearly_better(speed, setting):
    both = add_samples(ngram=(160, 0.3, 1), draft_model=(speed, 0.3, 1), none=(100, None, 1))

    assert choose(DRAFT, both, choice_before("ngram:3")).setting == setting


def test_the_choice_settles_when_it_is_made_again_and_again():
    evidence = add_samples(draft_model=(200, 0.8, 1), none=(100, None, 1))
    choice = choice_before("draft_model:3")
    settings = []
    for _ in range(6):
        choice = choose(DRAFT, evidence, choice)
        settings.append(choice.setting)

    assert len(set(settings[1:])) == 1


def measured_record():
    """A record in which a draft model pays on the profile with a draft."""
    evidence = add_samples(draft_model=(200, 0.8, 1), none=(100, None, 1))
    record = SpeculationRecord(
        evidence=evidence,
        choice=choice_before("draft_model:3"),
        kv_sums={"auto": KVSums(calls=1_000, preemptions=40)},
    )
    record.clear_if_other(DRAFT)  # it was measured on this model: the record had none before
    return record


@pytest.mark.parametrize(
    "change",
    [
        {"model": "another.gguf"},
        {"auto_speculation": AutoSpeculation(draft="another")},
        {"kv_dtype": KVDtype.FP8},
        {"gpu": "A100"},
    ],
    ids=lambda change: next(iter(change)),
)
def test_evidence_and_choice_are_forgotten_with_the_model_that_they_were_measured_on(change):
    record = measured_record()
    changed = replace(DRAFT, **change)
    assert choose_setting(changed, record, NOW).gain
    record.clear_if_other(changed)

    assert (record.evidence.settings, record.choice) == ({}, None)
    assert bool(record.kv_sums) == ("kv_dtype" in change)  # its sums are kept by format
    assert choose_setting(changed, record, NOW).reason.startswith("not enough data")


def test_evidence_stays_while_the_profile_changes_in_what_it_does_not_depend_on():
    record = measured_record()
    record.clear_if_other(replace(DRAFT, replicas=3, max_sequences=9))
    record.clear_if_other(replace(DRAFT, auto_speculation=AutoSpeculation()))  # n-grams meanwhile
    record.clear_if_other(DRAFT)

    assert set(record.evidence.settings) == {"draft_model:3", "none"}
    assert record.kv_sums["auto"].preemptions == 40
    record.clear_if_other(replace(DRAFT, auto_speculation=AutoSpeculation(draft="another")))
    assert record.evidence.settings == {}
