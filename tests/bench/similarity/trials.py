"""Runs a set of questions through the semantic cache: learnt on one half, shown on the other."""

import random
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, NamedTuple

from proxy.fast_path.similarity.candidate_index import AnsweredQuestion, SimilarQuestion
from proxy.fast_path.similarity.candidates import NEIGHBOURS, SimilarAnswer, choose_candidate
from proxy.fast_path.similarity.evidence import SimilarityEvidence, no_evidence
from proxy.fast_path.similarity.gates import refusing_gate
from proxy.fast_path.similarity.operating_point import OperatingPoint
from proxy.fast_path.similarity.questions import read_question
from proxy.fast_path.similarity.vectors import (
    DenseVectors,
    SparseVectors,
    VectorIndex,
    ngram_vector,
)
from tests.bench.similarity.question_sets import AskedQuestion

#: Neighbours found once for all orders of asking; about half of them were asked before.
_KNOWN_NEIGHBOURS: Final = 80
_COSINES: Final = (0.8, 0.9, 0.95)
_PROMISE: Final = 0.005


class TrialResult(NamedTuple):
    """Hits of one rule among the questions shown, and those of them with a wrong answer."""

    rule: str
    asked: int
    hits: int
    wrong: int


class Trial:
    """A set of questions with the neighbours of each, to be asked in many orders."""

    def __init__(self, questions: Sequence[AskedQuestion], vectors: Sequence[Any] | None) -> None:
        self.questions = questions
        self._answered = []
        for place, (text, answer) in enumerate(questions):
            question = read_question(text)
            assert question is not None
            self._answered.append(AnsweredQuestion(str(place), question, answer))
        index = _filled_index(self._answered, vectors)
        made = vectors or [ngram_vector(row.question) for row in self._answered]
        self._near = [index.nearest(vector, _KNOWN_NEIGHBOURS) for vector in made]

    def run(self, seed: int) -> Iterator[TrialResult]:
        """Yield what each rule serves of the second half of one order."""
        order = list(range(len(self.questions)))
        random.Random(seed).shuffle(order)  # noqa: S311 # no secret
        half = len(order) // 2
        evidence = self._learn(order[:half])
        point = evidence.point
        yield self._show("ours, proved", order, self._by_score(evidence, point))
        plain = _point_of_plain_share(evidence.pairs)
        yield self._show("ours, unproved share", order, self._by_score(evidence, plain))
        yield self._show("perfect labels", order, self._right_candidate)
        for cosine in _COSINES:
            yield self._show(f"cosine {cosine}", order, _nearest_from(cosine))
        yield self._show("exact", order, self._exact)

    def _learn(self, order: Sequence[int]) -> SimilarityEvidence:
        """The evidence after all questions of an order went upstream."""
        evidence, asked = no_evidence(_PROMISE), set[int]()
        for place in order:
            chosen = self._candidate(place, asked)
            if chosen is not None:
                was_right = chosen.answered.answer_digest == self.questions[place].answer
                evidence.learn(chosen, was_right=was_right, was_served=False)
            asked.add(place)
        return evidence

    def _show(
        self,
        rule: str,
        order: Sequence[int],
        serve: Callable[[int, Sequence[SimilarQuestion]], str | None],
    ) -> TrialResult:
        """The hits of a rule in the second half; what is not served is kept for later ones."""
        half = len(order) // 2
        kept, hits, wrong = set(order[:half]), 0, 0
        for place in order[half:]:
            answer = serve(place, self._neighbours(place, kept))
            if answer is None:
                kept.add(place)
                continue
            hits += 1
            wrong += answer != self.questions[place].answer
        return TrialResult(rule, len(order) - half, hits, wrong)

    def _by_score(
        self, evidence: SimilarityEvidence, point: OperatingPoint | None
    ) -> Callable[[int, Sequence[SimilarQuestion]], str | None]:
        """Serves the candidate whose score lies at the point or above."""

        def serve(place: int, near: Sequence[SimilarQuestion]) -> str | None:
            chosen = choose_candidate(self._answered[place].question, near) if point else None
            if not isinstance(chosen, SimilarAnswer) or point is None:
                return None
            is_served = evidence.score(chosen) >= point.score
            return chosen.answered.answer_digest if is_served else None

        return serve

    def _right_candidate(self, place: int, near: Sequence[SimilarQuestion]) -> str | None:
        """Serves a right answer wherever a neighbour that passes the gates has it."""
        question, answer = self._answered[place].question, self.questions[place].answer
        passes = (
            found.answered.answer_digest == answer
            and refusing_gate(question, found.answered.question) is None
            for found in near
        )
        return answer if any(passes) else None

    def _exact(self, place: int, near: Sequence[SimilarQuestion]) -> str | None:
        """Serves the answer of the same text."""
        text = self.questions[place].text
        same = (f.answered for f in near if self.questions[int(f.answered.key)].text == text)
        return next((answered.answer_digest for answered in same), None)

    def _candidate(self, place: int, asked: set[int]) -> SimilarAnswer | None:
        """The candidate of a question among those that were asked."""
        near = self._neighbours(place, asked)
        chosen = choose_candidate(self._answered[place].question, near)
        return chosen if isinstance(chosen, SimilarAnswer) else None

    def _neighbours(self, place: int, asked: set[int]) -> list[SimilarQuestion]:
        """The nearest questions among those that were asked."""
        near = [(slot, cosine) for slot, cosine in self._near[place] if slot in asked]
        return [SimilarQuestion(self._answered[slot], cosine) for slot, cosine in near[:NEIGHBOURS]]


def _filled_index(
    answered: Sequence[AnsweredQuestion], vectors: Sequence[Any] | None
) -> VectorIndex[Any]:
    """An index of all questions: of the vectors given, or of hashed n-grams."""
    if vectors is None:
        index: VectorIndex[Any] = SparseVectors()
    else:
        import numpy as np  # noqa: PLC0415 # only with embeddings

        index = DenseVectors(np, len(vectors[0]), len(answered))
    for slot, row in enumerate(answered):
        index.put(slot, ngram_vector(row.question) if vectors is None else vectors[slot])
    return index


def _nearest_from(cosine: float) -> Callable[[int, Sequence[SimilarQuestion]], str | None]:
    """Serves the nearest question's answer from a cosine on."""

    def serve(_: int, near: Sequence[SimilarQuestion]) -> str | None:
        return near[0].answered.answer_digest if near and near[0].cosine >= cosine else None

    return serve


def _point_of_plain_share(pairs: Sequence[tuple[float, bool]]) -> OperatingPoint | None:
    """The point that serves most with a share of wrong ones within the promise, not its bound."""
    best, wrong = None, 0
    for count, (score, was_right) in enumerate(sorted(pairs, key=lambda pair: -pair[0]), 1):
        wrong += not was_right
        if wrong <= _PROMISE * count:
            best = OperatingPoint(score, count, wrong, wrong / count)
    return best
