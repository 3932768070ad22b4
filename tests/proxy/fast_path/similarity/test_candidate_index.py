from hypothesis import given
from hypothesis import strategies as st

from proxy.fast_path.similarity.candidate_index import AnsweredQuestion, CandidateIndex
from proxy.fast_path.similarity.questions import read_question
from proxy.fast_path.similarity.vectors import SparseVectors

QUESTION = read_question("where is my card")
VECTOR = {1: 1.0}


def answered_question(key):
    assert QUESTION is not None
    return AnsweredQuestion(key, QUESTION, "answer")


def keys(index):
    return {found.answered.key for found in index.nearest(VECTOR, 100)}


def test_the_longest_unused_question_makes_room():
    index = CandidateIndex(SparseVectors(), 2)
    index.add(answered_question("a"), VECTOR)
    index.add(answered_question("b"), VECTOR)
    index.mark_used("a")

    assert index.add(answered_question("c"), VECTOR) == "b"
    assert keys(index) == {"a", "c"}


def test_question_kept_again_stands_once():
    index = CandidateIndex(SparseVectors(), 2)
    index.add(answered_question("a"), VECTOR)

    assert index.add(answered_question("a"), VECTOR) == ""
    assert len(index) == 1


@given(st.lists(st.tuples(st.sampled_from("abcdef"), st.booleans()), max_size=40))
def test_index_holds_what_was_added_last_and_never_more_than_its_bound(steps):
    index = CandidateIndex(SparseVectors(), 3)
    expected: list[str] = []
    for key, is_added in steps:
        expected = [other for other in expected if other != key]
        if is_added:
            index.add(answered_question(key), VECTOR)
            expected = [*expected, key][-3:]
        else:
            index.remove(key)

    assert keys(index) == set(expected)
    assert len(index) == len(expected)
