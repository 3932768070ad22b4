import pytest
from hypothesis import given
from hypothesis import strategies as st

from compaction.deciding.proof import Evidence, lower, stepped
from compaction.policy import Mode


def test_evidence_of_nothing_says_nothing():
    assert Evidence().share == 0.0
    assert lower(Evidence()) == 0.0


def test_evidence_adds_up():
    assert Evidence(needed=3, lost=1) + Evidence(needed=4) == Evidence(needed=7, lost=1)


@pytest.mark.parametrize(
    ("mode", "gentler"),
    [
        (Mode.FACTS_MODEL, Mode.TRIM),
        (Mode.FACTS, Mode.TRIM),
        (Mode.TRIM, Mode.TRIM),
        (Mode.OFF, Mode.OFF),
        (Mode.NATIVE, Mode.NATIVE),
    ],
)
def test_a_mode_that_folds_and_loses_too_much_steps_back(mode, gentler):
    assert stepped(mode, Evidence(needed=100, lost=20)) is gentler


def test_little_evidence_changes_nothing():
    assert stepped(Mode.FACTS, Evidence(needed=19, lost=19)) is Mode.FACTS
    assert stepped(Mode.FACTS, Evidence(needed=20, lost=20)) is Mode.TRIM


def test_what_chance_explains_changes_nothing():
    assert stepped(Mode.FACTS, Evidence(needed=40, lost=2)) is Mode.FACTS


def test_the_bound_is_wilsons():
    assert lower(Evidence(needed=20, lost=3)) == pytest.approx(0.0616, abs=1e-3)


@given(st.integers(1, 10_000), st.floats(0, 1))
def test_the_bound_lies_between_nothing_and_what_was_seen(count, part):
    found = Evidence(needed=count, lost=int(count * part))

    assert 0.0 <= lower(found) <= found.share + 1e-12
