import pytest
from hypothesis import given
from hypothesis import strategies as st

from compaction.policy import CompactionMode
from compaction.quality_evidence import QualityEvidence, lowest_likely_share, next_mode


def test_evidence_of_nothing_says_nothing():
    assert QualityEvidence().share == 0.0
    assert lowest_likely_share(QualityEvidence()) == 0.0


def test_evidence_adds_up():
    assert QualityEvidence(needed=3, lost=1) + QualityEvidence(needed=4) == QualityEvidence(
        needed=7, lost=1
    )


@pytest.mark.parametrize(
    ("mode", "gentler"),
    [
        (CompactionMode.FACTS, CompactionMode.TRIM),
        (CompactionMode.FACTS_RECALL, CompactionMode.FACTS),
        (CompactionMode.TRIM, CompactionMode.TRIM),
        (CompactionMode.OFF, CompactionMode.OFF),
        (CompactionMode.NATIVE, CompactionMode.NATIVE),
    ],
)
def test_a_mode_that_compacts_and_loses_too_much_steps_back(mode, gentler):
    assert next_mode(mode, QualityEvidence(needed=100, lost=20)) is gentler


def test_little_evidence_changes_nothing():
    assert (
        next_mode(CompactionMode.FACTS, QualityEvidence(needed=19, lost=19)) is CompactionMode.FACTS
    )
    assert (
        next_mode(CompactionMode.FACTS, QualityEvidence(needed=20, lost=20)) is CompactionMode.TRIM
    )


@pytest.mark.parametrize(("lost", "mode"), [(27, CompactionMode.FACTS), (28, CompactionMode.TRIM)])
def test_a_mode_steps_back_once_surely_more_than_two_percent_are_lost(lost, mode):
    """Of a thousand values, 28 lost are 2.06 % by the lower bound, 27 are 1.98 %."""
    evidence = QualityEvidence(needed=1_000, lost=lost)

    assert next_mode(CompactionMode.FACTS, evidence) is mode


def test_losses_that_chance_explains_keep_the_mode():
    assert (
        next_mode(CompactionMode.FACTS, QualityEvidence(needed=40, lost=2)) is CompactionMode.FACTS
    )


def test_the_bound_is_wilsons():
    assert lowest_likely_share(QualityEvidence(needed=20, lost=3)) == pytest.approx(
        0.0616, abs=1e-3
    )


@given(st.integers(1, 10_000), st.floats(0, 1))
def test_the_bound_lies_between_nothing_and_what_was_seen(count, part):
    evidence = QualityEvidence(needed=count, lost=int(count * part))

    assert 0.0 <= lowest_likely_share(evidence) <= evidence.share + 1e-12


def test_evidence_begins_with_nothing_needed_and_nothing_lost():
    some = QualityEvidence(needed=3, lost=1)

    assert QualityEvidence() + some == some
