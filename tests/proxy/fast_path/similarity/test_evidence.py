import random

import msgspec
import pytest

from proxy.fast_path.similarity.candidate_index import AnsweredQuestion
from proxy.fast_path.similarity.candidates import MEASURES, SimilarAnswer
from proxy.fast_path.similarity.evidence import copy_of, no_evidence
from proxy.fast_path.similarity.questions import read_question


def answer(strength: float) -> SimilarAnswer:
    question = read_question("where is my card")
    assert question is not None
    measures = (1.0, strength, *([0.0] * (MEASURES - 2)))
    return SimilarAnswer(AnsweredQuestion("key", question, "digest"), strength, measures)


def proved_evidence():
    """Evidence of candidates that are right from a strength of one half on."""
    dice = random.Random(3)  # noqa: S311 # no secret
    evidence = no_evidence()
    while evidence.served_point is None and evidence.learned < 9_000:
        strength = dice.random()
        evidence.learn(answer(strength), was_right=strength > 0.3, was_served=False)
    return evidence


@pytest.fixture(scope="module")
def proved_state():
    return proved_evidence()


@pytest.fixture
def evidence(proved_state):
    return copy_of(proved_state)


def test_feature_without_evidence_serves_nothing():
    evidence = no_evidence()

    assert not evidence.is_served(evidence.score(answer(1.0)))
    assert not evidence.is_served(30.0)


def test_proved_feature_serves_strong_candidates_and_no_weak_ones(evidence):
    assert evidence.served_point is not None
    assert evidence.served_point.bound <= evidence.promise
    assert evidence.is_served(evidence.score(answer(0.95)))
    assert not evidence.is_served(evidence.score(answer(0.1)))


def test_pairs_of_the_warm_up_are_no_evidence():
    evidence = no_evidence()
    for _ in range(1_000):
        evidence.learn(answer(1.0), was_right=True, was_served=False)

    assert evidence.points[0].checked == 0
    evidence.learn(answer(1.0), was_right=True, was_served=False)
    assert evidence.points[0].checked == 1


def test_wrong_hits_end_serving_and_void_the_proof(evidence):
    stopped = [evidence.learn(answer(0.9), was_right=False, was_served=True) for _ in range(2)]

    assert stopped == [False, True]
    assert evidence.served_point is None
    assert evidence.points[-1].checked == 0
    assert (evidence.checked_hits, evidence.wrong_hits, evidence.stops) == (2, 2, 1)


def test_every_hit_is_checked_after_a_wrong_one_until_enough_were_right(evidence):
    evidence.drift.checks = 1_000
    assert evidence.checked_share(0.1) == 0.1

    evidence.learn(answer(0.9), was_right=False, was_served=True)
    assert evidence.checked_share(0.1) == 1.0
    for _ in range(60):
        evidence.learn(answer(0.9), was_right=True, was_served=True)
    assert evidence.checked_share(0.1) == 0.1


def test_right_hits_keep_serving(evidence):
    assert not any(evidence.learn(answer(0.9), was_right=True, was_served=True) for _ in range(50))
    assert evidence.served_point is not None


def test_copy_stays_as_it_is_while_the_feature_learns(proved_state):
    before = msgspec.json.encode(proved_state)
    learning = copy_of(proved_state)
    for strength in (0.1, 0.9):
        learning.learn(answer(strength), was_right=False, was_served=True)

    assert msgspec.json.encode(proved_state) == before
    assert learning != proved_state
