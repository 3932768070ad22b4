"""Nearest vectors of a bounded set: sparse ones by their rare buckets, dense ones by a product.

Hashed n-grams need no model and find what is asked in nearly the same words. A sentence embedding
finds more; what either finds has to pass the same proof. The dense form needs numpy, which is
passed in, so that this room imports without it.
"""

from collections.abc import Iterator, Mapping
from heapq import nlargest
from itertools import islice
from math import sqrt
from typing import Any, Final, Protocol, TypeVar

from xxhash import xxh32_intdigest

from proxy.fast_path.similarity.protected_words import FREE_WORDS
from proxy.fast_path.similarity.questions import Question, stem

V_contra = TypeVar("V_contra", contravariant=True)

#: Of words that may come and go freely, this part of another word's weight.
_FREE_WEIGHT: Final = 0.3
_WORD_WEIGHT: Final = 1.0
_PAIR_WEIGHT: Final = 0.5
_PIECE_WEIGHT: Final = 0.35
_PIECE_LENGTHS: Final = (3, 4)
#: Entries of lists that one lookup visits, those of the rarest buckets first: about a millisecond.
_MAX_VISITS: Final = 6_000


def ngram_vector(question: Question) -> Mapping[int, float]:
    """Weights by hash of a text's stems, pairs of words and pieces of words, of length one."""
    weights: dict[int, float] = {}
    for gram, weight in _grams(question.words):
        bucket = xxh32_intdigest(gram.encode())
        weights[bucket] = weights.get(bucket, 0.0) + weight
    length = sqrt(sum(weight * weight for weight in weights.values())) or 1.0
    return {bucket: weight / length for bucket, weight in weights.items()}


def _grams(words: tuple[str, ...]) -> Iterator[tuple[str, float]]:
    """Each piece of a text with its weight."""
    before = "^"
    for word in words:
        part = _FREE_WEIGHT if word in FREE_WORDS else 1.0
        root = stem(word)
        yield f"w {root}", _WORD_WEIGHT * part
        yield f"p {before} {root}", _PAIR_WEIGHT * part
        before = root
        if part == 1.0:
            framed = f"<{word}>"
            for length in _PIECE_LENGTHS:
                for start in range(len(framed) - length + 1):
                    yield f"c {framed[start : start + length]}", _PIECE_WEIGHT


class VectorIndex(Protocol[V_contra]):
    """A bounded set of vectors of length one, by slot."""

    def put(self, slot: int, vector: V_contra) -> None:
        """Keeps a vector in a slot that is empty."""
        ...

    def drop(self, slot: int) -> None:
        """Empties a slot; none is no error."""
        ...

    def nearest(self, vector: V_contra, limit: int) -> list[tuple[int, float]]:
        """The slots with the highest cosines to a vector, highest first, with their cosines."""
        ...


class SparseVectors:
    """Vectors of few buckets, such as hashed n-grams, with a list of slots by bucket.

    A lookup compares those that share the rarest buckets, so its work is bounded.
    """

    def __init__(self) -> None:
        self._vectors: dict[int, Mapping[int, float]] = {}
        self._slots_by_bucket: dict[int, dict[int, float]] = {}

    def put(self, slot: int, vector: Mapping[int, float]) -> None:
        """Keeps a vector in a slot that is empty."""
        self._vectors[slot] = vector
        for bucket, weight in vector.items():
            self._slots_by_bucket.setdefault(bucket, {})[slot] = weight

    def drop(self, slot: int) -> None:
        """Empties a slot; none is no error."""
        for bucket in self._vectors.pop(slot, {}):
            slots = self._slots_by_bucket[bucket]
            del slots[slot]
            if not slots:
                del self._slots_by_bucket[bucket]

    def nearest(self, vector: Mapping[int, float], limit: int) -> list[tuple[int, float]]:
        """The slots nearest to a vector that share a rare bucket with it, highest cosine first."""
        lists = [
            (slots, weight)
            for bucket, weight in vector.items()
            if (slots := self._slots_by_bucket.get(bucket))
        ]
        partial: dict[int, float] = {}
        visited = 0
        for slots, weight in sorted(lists, key=lambda pair: len(pair[0])):
            visited += len(slots)
            if visited > _MAX_VISITS and partial:
                break
            for slot, other in islice(slots.items(), _MAX_VISITS):
                partial[slot] = partial.get(slot, 0.0) + weight * other
        likely = nlargest(2 * limit, partial, key=partial.__getitem__)
        cosines = [(slot, self._cosine(vector, slot)) for slot in likely]
        return nlargest(limit, cosines, key=lambda pair: pair[1])

    def _cosine(self, vector: Mapping[int, float], slot: int) -> float:
        """The product of a vector and the one in a slot."""
        other = self._vectors[slot]
        return sum(weight * other[bucket] for bucket, weight in vector.items() if bucket in other)


class DenseVectors:
    """Vectors of a sentence embedding, as rows of a matrix that grows to its bound."""

    def __init__(self, numpy: Any, dimensions: int, max_vectors: int) -> None:  # noqa: ANN401 # a module
        self._numpy = numpy
        self._max = max_vectors
        self._rows = numpy.zeros((min(256, max_vectors), dimensions), dtype=numpy.float32)
        self._used: set[int] = set()

    def put(self, slot: int, vector: Any) -> None:  # noqa: ANN401 # an array of numpy
        """Keeps a vector in a slot that is empty, 0 to the bound."""
        if slot >= len(self._rows):
            rows = min(self._max, max(slot + 1, 2 * len(self._rows)))
            grown = self._numpy.zeros((rows, self._rows.shape[1]), dtype=self._numpy.float32)
            grown[: len(self._rows)] = self._rows
            self._rows = grown
        self._rows[slot] = vector
        self._used.add(slot)

    def drop(self, slot: int) -> None:
        """Empties a slot; none is no error."""
        if slot in self._used:
            self._used.remove(slot)
            self._rows[slot] = 0.0

    def nearest(self, vector: Any, limit: int) -> list[tuple[int, float]]:  # noqa: ANN401 # an array
        """The slots with the highest cosines to a vector, highest first, with their cosines."""
        cosines = self._rows @ vector
        limit = min(limit, len(cosines))
        if limit == 0:
            return []
        best = self._numpy.argpartition(cosines, len(cosines) - limit)[-limit:]
        pairs = [(int(slot), float(cosines[slot])) for slot in best if int(slot) in self._used]
        return sorted(pairs, key=lambda pair: -pair[1])
