import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.fast_path.similarity.questions import read_question
from proxy.fast_path.similarity.vectors import DenseVectors, SparseVectors, ngram_vector

VECTORS = st.dictionaries(st.integers(0, 9), st.floats(0.1, 1.0), min_size=1, max_size=5)


def ngrams(text):
    question = read_question(text)
    assert question is not None
    return ngram_vector(question)


def cosine(one, other):
    return sum(weight * other.get(bucket, 0.0) for bucket, weight in one.items())


@given(st.text(min_size=1, max_size=60).filter(str.strip))
def test_ngram_vector_has_length_one_or_no_word(text):
    length = math.hypot(*ngrams(text).values())

    assert length == pytest.approx(1.0) or length == 0.0


def test_like_texts_have_a_higher_cosine_than_unlike_ones():
    query = ngrams("how do i freeze my account")
    near = cosine(query, ngrams("how can i freeze an account"))
    far = cosine(query, ngrams("what is the weather like"))

    assert near > 0.6
    assert far < 0.3


@given(st.lists(VECTORS, max_size=8), VECTORS)
def test_nearest_sparse_vectors_are_those_of_a_full_search(vectors, query):
    index = SparseVectors()
    for slot, vector in enumerate(vectors):
        index.put(slot, vector)
    nearest = index.nearest(query, 3)
    every = sorted((cosine(query, vector) for vector in vectors), reverse=True)

    expected = [value for value in every if value > 0][:3]
    assert [value for _, value in nearest] == pytest.approx(expected)


def test_dropped_sparse_vector_leaves_nothing_behind():
    index = SparseVectors()
    index.put(3, {1: 1.0})
    index.drop(3)
    index.drop(3)

    assert index.nearest({1: 1.0}, 5) == []
    assert not index._slots_by_bucket


def test_dense_vectors_grow_and_forget():
    numpy = pytest.importorskip("numpy")
    index = DenseVectors(numpy, 2, max_vectors=1_000)
    index.put(0, numpy.array([1.0, 0.0]))
    index.put(999, numpy.array([0.6, 0.8]))
    query = numpy.array([0.0, 1.0], dtype=numpy.float32)

    assert [slot for slot, _ in index.nearest(query, 1)] == [999]
    index.drop(999)
    assert 999 not in dict(index.nearest(query, 1_000))
