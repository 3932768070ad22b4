import pytest

from proxy.fast_path.similarity.evidence import no_evidence
from proxy.fast_path.similarity.gates import Gate
from proxy.fast_path.similarity.operating_point import OperatingPoint
from proxy.fast_path.similarity.similar_answers import embedded_answers, ngram_answers


def remember(answers, key, text, digest):
    answers.remember(key, answers.find(text), digest)


def test_candidate_is_found_and_not_served_before_a_proof():
    answers = ngram_answers(no_evidence())
    remember(answers, "k1", "how do i freeze my account", "freeze")

    found = answers.find("how can i freeze my account")

    assert found.answer is not None
    assert found.answer.answered.key == "k1"
    assert found.score == 0.0
    assert not found.is_served


def test_candidate_is_served_at_a_proved_point():
    evidence = no_evidence()
    evidence.points = [OperatingPoint(score=-1.0, checked=1_300, wrong=0, bound=0.004)]
    answers = ngram_answers(evidence)
    remember(answers, "k1", "how do i freeze my account", "freeze")

    assert answers.find("how can i freeze my account").is_served
    refused = answers.find("how can i freeze my account unless i call")
    assert refused.refused_by is Gate.NEGATION
    assert not refused.is_served


def test_lookup_learns_whether_its_candidate_was_right():
    evidence = no_evidence()
    answers = ngram_answers(evidence)
    remember(answers, "k1", "how do i freeze my account", "freeze")
    found = answers.find("how can i freeze my account")

    answers.learn(found, "freeze")

    assert evidence.learned == 1
    assert found.score is not None
    again = answers.find("how can i freeze my account").score
    assert again is not None
    assert again > found.score


def test_lookup_without_a_candidate_teaches_nothing():
    evidence = no_evidence()
    answers = ngram_answers(evidence)

    assert not answers.learn(answers.find("where is my card"), "digest")
    assert not answers.learn(answers.find(""), "digest")
    assert answers.remember("k", answers.find(""), "digest") == ""
    assert evidence.learned == 0


def test_forgotten_answer_is_not_found():
    answers = ngram_answers(no_evidence(), max_questions=1)
    remember(answers, "k1", "how do i freeze my account", "freeze")
    answers.forget("k1")

    assert answers.find("how do i freeze my account").answer is None
    assert len(answers) == 0


def test_contexts_of_two_teams_share_no_answer():
    ours, theirs = ngram_answers(no_evidence()), ngram_answers(no_evidence())
    remember(ours, "k1", "how do i freeze my account", "freeze")

    assert theirs.find("how do i freeze my account").answer is None


def test_embedded_questions_are_found_by_their_vectors():
    numpy = pytest.importorskip("numpy")
    answers = embedded_answers(no_evidence(), numpy, dimensions=2)
    vector = numpy.array([1.0, 0.0], dtype=numpy.float32)
    answers.remember("k1", answers.find("freeze my account", vector), "freeze", vector)

    assert answers.find("please freeze my account", vector).answer is not None
