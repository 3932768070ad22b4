"""Counters become speeds by setting and by sequences at once; old ones fade."""

import pytest

from proxy.engines.metrics.decode_speed import HALF_LIFE_S, RUNNING_HALF_LIFE_S
from proxy.engines.speculation.evidence import (
    SpeculationCounters,
    SpeculationEvidence,
    SpeculationSample,
    sample_between,
)

NOW = 1_790_000_000.0


def sample(running=1.0, rate=100.0, **counts):
    return SpeculationSample(running=running, tokens=rate * 5, decode_s=5.0, **counts)


def test_samples_are_kept_by_setting_and_concurrency():
    evidence = SpeculationEvidence()
    for running in (1, 1.4, 3, 500):
        evidence.add("ngram:4", sample(running), NOW)
    evidence.add("none", sample(1), NOW)
    evidence.add("none", SpeculationSample(running=1, tokens=0, decode_s=1), NOW)

    samples_by_band = {
        end: band.samples for end, band in evidence.settings["ngram:4"].bands.items()
    }
    assert samples_by_band == {1: 2, 4: 1, 512: 1}
    assert evidence.settings["none"].totals().samples == 1
    made = evidence.recent_tokens()
    assert max(made, key=made.__getitem__) == 1


def test_evidence_that_is_no_longer_added_to_weighs_half_after_a_week():
    evidence = SpeculationEvidence()
    evidence.add("none", sample(), NOW)
    evidence.add("ngram:3", sample(), NOW + HALF_LIFE_S)

    assert evidence.settings["none"].bands[1].samples == pytest.approx(0.5)


def test_old_samples_that_new_ones_follow_weigh_a_sixteenth_after_an_hour():
    evidence = SpeculationEvidence()
    for number in range(720):
        evidence.add("none", sample(rate=100.0), NOW + 5 * number)
    hour_later = NOW + 3_600.0
    for number in range(720):
        evidence.add("none", sample(rate=50.0), hour_later + 5 * number)
    speed = evidence.settings["none"].bands[1].tokens_per_s()

    assert 4 * RUNNING_HALF_LIFE_S == 3_600.0
    assert speed is not None
    assert speed.value == pytest.approx(50 + 50 / 16, abs=1)


def test_the_load_of_late_follows_within_an_hour():
    evidence = SpeculationEvidence()
    for number in range(5_000):
        evidence.add("none", sample(), NOW + 5 * number)
    for number in range(720):
        evidence.add("none", sample(running=8), NOW + 25_000 + 5 * number)
    made = evidence.recent_tokens()

    assert made[8] > 10 * made[1]
    assert evidence.settings["none"].bands[1].tokens_per_s() is not None


def test_the_settings_that_are_kept_are_bounded():
    evidence = SpeculationEvidence()
    for number in range(100):
        evidence.add(f"ngram:{number}", sample(), NOW + number)

    assert len(evidence.settings) == 32
    assert "ngram:99" in evidence.settings


def test_a_restart_between_two_readings_makes_no_sample():
    before = SpeculationCounters(tokens=100, decode_s=2)

    assert sample_between(before, SpeculationCounters(tokens=40, decode_s=1), 1) is None
    made = sample_between(before, SpeculationCounters(tokens=150, decode_s=3, drafts=7), 2)
    assert made == SpeculationSample(running=2, tokens=50, decode_s=1, drafts=7)
