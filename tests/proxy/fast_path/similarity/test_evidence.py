import random

import pytest

from proxy.fast_path.similarity.candidate_index import AnsweredQuestion
from proxy.fast_path.similarity.candidates import MEASURES, SimilarAnswer
from proxy.fast_path.similarity.evidence import (
    MAX_CHECKED_PAIRS,
    decode_evidence,
    encode_evidence,
    no_evidence,
)
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
    while evidence.point is None and evidence.learned < 9_000:
        strength = dice.random()
        evidence.learn(answer(strength), was_right=strength > 0.3, was_served=False)
    return evidence


@pytest.fixture(scope="module")
def stored_evidence():
    return encode_evidence(proved_evidence())


def copy_of(stored_evidence):
    evidence = decode_evidence(stored_evidence)
    assert evidence is not None
    return evidence


def test_feature_without_evidence_serves_nothing():
    evidence = no_evidence()

    assert not evidence.is_served(evidence.score(answer(1.0)))
    assert not evidence.is_served(30.0)


def test_proved_feature_serves_strong_candidates_and_no_weak_ones(stored_evidence):
    evidence = copy_of(stored_evidence)

    assert evidence.point is not None
    assert evidence.point.bound <= evidence.promise
    assert evidence.is_served(evidence.score(answer(0.95)))
    assert not evidence.is_served(evidence.score(answer(0.1)))


def test_wrong_hits_end_serving_and_void_the_proof(stored_evidence):
    evidence = copy_of(stored_evidence)
    stopped = [evidence.learn(answer(0.9), was_right=False, was_served=True) for _ in range(2)]

    assert stopped == [False, True]
    assert evidence.point is None
    assert evidence.pairs == []
    assert evidence.stops == 1


def test_every_hit_is_checked_after_a_wrong_one_until_enough_were_right(stored_evidence):
    evidence = copy_of(stored_evidence)
    assert evidence.checked_share(0.1) == 0.1

    evidence.learn(answer(0.9), was_right=False, was_served=True)
    assert evidence.checked_share(0.1) == 1.0
    for _ in range(60):
        evidence.learn(answer(0.9), was_right=True, was_served=True)
    assert evidence.checked_share(0.1) == 0.1


def test_right_hits_keep_serving(stored_evidence):
    evidence = copy_of(stored_evidence)

    assert not any(evidence.learn(answer(0.9), was_right=True, was_served=True) for _ in range(50))
    assert evidence.point is not None


def test_checked_pairs_are_bounded():
    evidence = no_evidence()
    evidence.pairs = [(0.0, True)] * MAX_CHECKED_PAIRS
    evidence.learned = 100_000
    evidence.learn(answer(0.5), was_right=True, was_served=False)

    assert len(evidence.pairs) == MAX_CHECKED_PAIRS


def test_evidence_survives_storing_and_another_version_is_not_read(stored_evidence):
    evidence = copy_of(stored_evidence)

    assert encode_evidence(evidence) == stored_evidence
    assert len(stored_evidence) < 100_000
    evidence.verifier.weights.append(0.0)
    assert decode_evidence(encode_evidence(evidence)) is None
    assert decode_evidence(b"torn") is None
