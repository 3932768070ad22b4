"""Looks up and keeps the answers of one context: find, remember, learn.

The owner holds one of these per team, feature and context, all of a feature with one evidence. It
makes the vectors, outside the event loop where a model makes them, and drops answers that expire.
"""

from typing import Any, Final, NamedTuple

from proxy.fast_path.similarity.candidate_index import AnsweredQuestion, CandidateIndex
from proxy.fast_path.similarity.candidates import NEIGHBOURS, SimilarAnswer, choose_candidate
from proxy.fast_path.similarity.evidence import SimilarityEvidence
from proxy.fast_path.similarity.gates import Gate
from proxy.fast_path.similarity.questions import Question, read_question
from proxy.fast_path.similarity.vectors import (
    DenseVectors,
    SparseVectors,
    VectorIndex,
    ngram_vector,
)

#: Questions kept of a context where a feature says nothing else.
DEFAULT_MAX_QUESTIONS: Final = 10_000


class Finding(NamedTuple):
    """A lookup's result, kept until the call's own answer is known, if it is to be known.

    Attributes:
        question: The question as it was read; None where it is too long or empty.
        answer: The kept answer with what speaks for it; None where there is none.
        refused_by: The gate that refused the nearest question of the likeliest answer.
        score: Logit of the probability that the answer is right; None without an answer.
        is_served: The score lies at or above the feature's proved point.
    """

    question: Question | None
    answer: SimilarAnswer | None = None
    refused_by: Gate | None = None
    score: float | None = None
    is_served: bool = False

    def is_right(self, answer_digest: str) -> bool:
        """True where the kept answer is the one that came."""
        return self.answer is not None and self.answer.answered.answer_digest == answer_digest


class SimilarAnswers:
    """The answered questions of one context, with the evidence of its feature."""

    def __init__(self, evidence: SimilarityEvidence, vectors: VectorIndex[Any], bound: int) -> None:
        self._evidence = evidence
        self._index: CandidateIndex[Any] = CandidateIndex(vectors, bound)

    def __len__(self) -> int:
        return len(self._index)

    def find(self, text: str, vector: Any = None) -> Finding:  # noqa: ANN401 # of the index's kind
        """The kept answer that is likeliest right for a text, and whether it is served.

        Args:
            text: The question: the last user message of a call.
            vector: The text's embedding; None where the index holds hashed n-grams.
        """
        question = read_question(text)
        if question is None:
            return Finding(None)
        near = self._index.nearest(_vector(question, vector), NEIGHBOURS)
        chosen = choose_candidate(question, near, self._index.words)
        if not isinstance(chosen, SimilarAnswer):
            return Finding(question, refused_by=chosen)
        score = self._evidence.score(chosen)
        is_served = self._evidence.is_served(score)
        if is_served:
            self._index.mark_used(chosen.answered.key)
        return Finding(question, chosen, None, score, is_served)

    def remember(self, key: str, finding: Finding, answer_digest: str, vector: Any = None) -> str:  # noqa: ANN401 # of the index's kind
        """Keeps the question of a lookup under the key of its own answer.

        Returns the key of the question that made room for it, or "".
        """
        if finding.question is None:
            return ""
        answered = AnsweredQuestion(key, finding.question, answer_digest)
        return self._index.add(answered, _vector(finding.question, vector))

    def learn(self, finding: Finding, answer_digest: str) -> bool:
        """Compares a lookup's candidate with the answer that came; true where this ends serving."""
        if finding.answer is None:
            return False
        was_right = finding.is_right(answer_digest)
        return self._evidence.learn(
            finding.answer, was_right=was_right, was_served=finding.is_served
        )

    def forget(self, key: str) -> None:
        """Drops a question whose answer expired or was purged."""
        self._index.remove(key)


def ngram_answers(
    evidence: SimilarityEvidence, max_questions: int = DEFAULT_MAX_QUESTIONS
) -> SimilarAnswers:
    """A context whose questions are compared by hashed n-grams; needs no model."""
    return SimilarAnswers(evidence, SparseVectors(), max_questions)


def embedded_answers(
    evidence: SimilarityEvidence,
    numpy: Any,  # noqa: ANN401 # the module
    dimensions: int,
    max_questions: int = DEFAULT_MAX_QUESTIONS,
) -> SimilarAnswers:
    """A context whose questions are compared by embeddings of so many dimensions."""
    return SimilarAnswers(evidence, DenseVectors(numpy, dimensions, max_questions), max_questions)


def _vector(question: Question, vector: Any) -> Any:  # noqa: ANN401 # of the index's kind
    """The embedding that came with a question, or its hashed n-grams."""
    return ngram_vector(question) if vector is None else vector
