from proxy.fast_path.similarity.answer_words import AnswerWords
from proxy.fast_path.similarity.candidate_index import AnsweredQuestion, SimilarQuestion
from proxy.fast_path.similarity.candidates import MEASURES, SimilarAnswer, choose_candidate
from proxy.fast_path.similarity.gates import Gate
from proxy.fast_path.similarity.questions import read_question


def near(text, digest, cosine):
    question = read_question(text)
    assert question is not None
    return SimilarQuestion(AnsweredQuestion(text, question, digest), cosine)


def choose(text, *neighbours):
    question = read_question(text)
    assert question is not None
    words = AnswerWords()
    for neighbour in neighbours:
        words.add(neighbour.answered.question, neighbour.answered.answer_digest)
    return choose_candidate(question, neighbours, words)


def test_answer_with_most_votes_wins_over_the_nearest_question():
    chosen = choose(
        "how can i freeze my account",
        near("freeze my account how", "other", 0.80),
        near("how do i freeze my account", "freeze", 0.79),
        near("how to freeze an account", "freeze", 0.78),
    )

    assert isinstance(chosen, SimilarAnswer)
    assert chosen.answered.answer_digest == "freeze"
    assert len(chosen.measures) == MEASURES


def test_candidate_is_the_nearest_question_that_passes_the_gates():
    chosen = choose(
        "how do i freeze my account",
        near("how do i not freeze my account", "freeze", 0.95),
        near("how can i freeze my account", "freeze", 0.90),
    )

    assert isinstance(chosen, SimilarAnswer)
    assert chosen.answered.key == "how can i freeze my account"


def test_gate_that_refused_the_nearest_question_is_named():
    assert choose("is it 5 km", near("is it 6 km", "a", 0.9)) is Gate.NUMBERS
    assert choose("is it 5 km") is None


def test_competing_answer_lowers_the_measured_margin():
    same = near("how can i freeze my account", "freeze", 0.9)
    sure = choose("how do i freeze my account", same, near("close it", "freeze", 0.5))
    unsure = choose("how do i freeze my account", same, near("close it", "close", 0.88))

    assert isinstance(sure, SimilarAnswer)
    assert isinstance(unsure, SimilarAnswer)
    assert sure.measures[3] > unsure.measures[3]


def test_words_of_other_answers_lower_the_last_measure():
    same = near("how do i freeze my account", "freeze", 0.9)
    sure = choose("how can i freeze my account", same, near("who can close it", "close", 0.5))
    unsure = choose("how can i freeze my account", same, near("can my account do", "close", 0.5))

    assert isinstance(sure, SimilarAnswer)
    assert isinstance(unsure, SimilarAnswer)
    assert sure.measures[-1] > unsure.measures[-1]
