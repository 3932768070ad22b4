"""Answered questions by similarity: one bounded index for each team, feature and context.

The context is all of a request but its question: system text, tools, model, parameters. Only
within it is an answer another's. The owner of an index sees to that.
"""

from collections import OrderedDict
from typing import Generic, NamedTuple, TypeVar

from proxy.fast_path.similarity.answer_words import AnswerWords
from proxy.fast_path.similarity.questions import Question
from proxy.fast_path.similarity.vectors import VectorIndex

V = TypeVar("V")


class AnsweredQuestion(NamedTuple):
    """A question with the key of its kept answer, and a digest that equal answers share."""

    key: str
    question: Question
    answer_digest: str


class SimilarQuestion(NamedTuple):
    """An answered question near one that is asked, and the cosine between them."""

    answered: AnsweredQuestion
    cosine: float


class CandidateIndex(Generic[V]):
    """A bounded set of answered questions; the one unused for longest goes first.

    Attributes:
        words: Their words by their answers.
    """

    def __init__(self, vectors: VectorIndex[V], max_questions: int) -> None:
        self.words = AnswerWords()
        self._vectors = vectors
        self._free = list(range(max_questions - 1, -1, -1))
        self._slot_by_key: OrderedDict[str, int] = OrderedDict()
        self._answered: dict[int, AnsweredQuestion] = {}

    def __len__(self) -> int:
        return len(self._answered)

    def add(self, answered: AnsweredQuestion, vector: V) -> str:
        """Keeps an answered question; returns the key of the one that made room, or ""."""
        self.remove(answered.key)
        removed = ""
        if not self._free:
            removed = next(iter(self._slot_by_key))
            self.remove(removed)
        slot = self._free.pop()
        self._vectors.put(slot, vector)
        self._slot_by_key[answered.key] = slot
        self._answered[slot] = answered
        self.words.add(answered.question, answered.answer_digest)
        return removed

    def remove(self, key: str) -> None:
        """Forgets a question, as its answer expired or was purged; an unknown one is no error."""
        slot = self._slot_by_key.pop(key, None)
        if slot is not None:
            self._vectors.drop(slot)
            answered = self._answered.pop(slot)
            self.words.remove(answered.question, answered.answer_digest)
            self._free.append(slot)

    def mark_used(self, key: str) -> None:
        """Puts a question last in the order of going."""
        if key in self._slot_by_key:
            self._slot_by_key.move_to_end(key)

    def nearest(self, vector: V, limit: int) -> list[SimilarQuestion]:
        """The answered questions nearest to one, nearest first."""
        return [
            SimilarQuestion(self._answered[slot], cosine)
            for slot, cosine in self._vectors.nearest(vector, limit)
        ]
