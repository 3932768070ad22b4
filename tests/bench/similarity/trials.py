"""Runs a set of questions through the semantic cache: learnt on one half, shown on the other."""

import copy
import random
from collections.abc import Callable, Iterator, Sequence
from math import inf
from typing import Any, Final, NamedTuple

from proxy.fast_path.similarity.answer_words import AnswerWords
from proxy.fast_path.similarity.candidate_index import AnsweredQuestion, SimilarQuestion
from proxy.fast_path.similarity.candidates import NEIGHBOURS, SimilarAnswer, choose_candidate
from proxy.fast_path.similarity.evidence import SimilarityEvidence, no_evidence
from proxy.fast_path.similarity.gates import refusing_gate
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
_CHECKED_SHARE: Final = 0.1
#: Pairs whose scores are no evidence, as in ``evidence.py``.
_WARM_UP_PAIRS: Final = 1_000


class TrialResult(NamedTuple):
    """Hits of one rule among the questions shown, and those of them with a wrong answer."""

    rule: str
    asked: int
    hits: int
    wrong: int


class Trial:
    """A set of questions with the neighbours of each, to be asked in many orders."""

    def __init__(
        self, questions: Sequence[AskedQuestion], vectors: Sequence[Any] | None, promise: float
    ) -> None:
        self.questions = questions
        self._promise = promise
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
        dice = random.Random(seed)  # noqa: S311 # no secret
        order = list(range(len(self.questions)))
        dice.shuffle(order)
        half = len(order) // 2
        evidence, scores = self._learn(order[:half])
        yield self._show("ours, proved", order, _by_score(evidence, _served_score(evidence)))
        yield self._go_on(order, copy.deepcopy(evidence), dice)
        plain = _score_of_plain_share(scores)
        yield self._show("ours, unproved share", order, _by_score(evidence, plain))
        yield self._show("perfect labels", order, self._right_candidate)
        for cosine in _COSINES:
            yield self._show(f"cosine {cosine}", order, _nearest_from(cosine))
        yield self._show("exact", order, self._exact)

    def _learn(self, order: Sequence[int]) -> tuple[SimilarityEvidence, list[tuple[float, bool]]]:
        """The evidence after all questions of an order went upstream, and the later scores."""
        evidence, index = no_evidence(self._promise), _KeptQuestions()
        scores: list[tuple[float, bool]] = []
        for place in order:
            chosen = self._candidate(place, index)
            if chosen is not None:
                was_right = chosen.answered.answer_digest == self.questions[place].answer
                if evidence.learned >= _WARM_UP_PAIRS:
                    scores.append((evidence.score(chosen), was_right))
                evidence.learn(chosen, was_right=was_right, was_served=False)
            index.add(self._answered[place])
        return evidence, scores

    def _go_on(
        self, order: Sequence[int], evidence: SimilarityEvidence, dice: random.Random
    ) -> TrialResult:
        """The hits in the second half where learning goes on and hits are checked."""
        half = len(order) // 2
        index = self._keep_all(order[:half])
        hits = wrong = 0
        for place in order[half:]:
            chosen = self._candidate(place, index)
            if chosen is not None:
                was_right = chosen.answered.answer_digest == self.questions[place].answer
                is_served = evidence.is_served(evidence.score(chosen))
                if is_served and dice.random() >= evidence.checked_share(_CHECKED_SHARE):
                    hits += 1
                    wrong += not was_right
                    continue
                evidence.learn(chosen, was_right=was_right, was_served=is_served)
            index.add(self._answered[place])
        return TrialResult("ours, learning on", len(order) - half, hits, wrong)

    def _show(
        self,
        rule: str,
        order: Sequence[int],
        serve: "Callable[[int, Sequence[SimilarQuestion], SimilarAnswer | None], str | None]",
    ) -> TrialResult:
        """The hits of a rule in the second half; what is not served is kept for later ones."""
        half = len(order) // 2
        index, hits, wrong = self._keep_all(order[:half]), 0, 0
        for place in order[half:]:
            is_ours = rule.startswith("ours")
            chosen = self._candidate(place, index) if is_ours else None
            near = [] if is_ours else self._neighbours(place, index)
            answer = serve(place, near, chosen)
            if answer is None:
                index.add(self._answered[place])
                continue
            hits += 1
            wrong += answer != self.questions[place].answer
        return TrialResult(rule, len(order) - half, hits, wrong)

    def _right_candidate(
        self, place: int, near: Sequence[SimilarQuestion], _: SimilarAnswer | None
    ) -> str | None:
        """Serves a right answer wherever a neighbour that passes the gates has it."""
        question, answer = self._answered[place].question, self.questions[place].answer
        passes = (
            found.answered.answer_digest == answer
            and refusing_gate(question, found.answered.question) is None
            for found in near
        )
        return answer if any(passes) else None

    def _exact(
        self, place: int, near: Sequence[SimilarQuestion], _: SimilarAnswer | None
    ) -> str | None:
        """Serves the answer of the same text."""
        text = self.questions[place].text
        same = (f.answered for f in near if self.questions[int(f.answered.key)].text == text)
        return next((answered.answer_digest for answered in same), None)

    def _keep_all(self, places: Sequence[int]) -> "_KeptQuestions":
        """These questions, as they are kept."""
        index = _KeptQuestions()
        for place in places:
            index.add(self._answered[place])
        return index

    def _candidate(self, place: int, index: "_KeptQuestions") -> SimilarAnswer | None:
        """The candidate of a question among those that are kept."""
        near = self._neighbours(place, index)
        chosen = choose_candidate(self._answered[place].question, near, index.words)
        return chosen if isinstance(chosen, SimilarAnswer) else None

    def _neighbours(self, place: int, index: "_KeptQuestions") -> list[SimilarQuestion]:
        """The nearest questions among those that are kept."""
        near = [(slot, cosine) for slot, cosine in self._near[place] if slot in index.places]
        return [SimilarQuestion(self._answered[slot], cosine) for slot, cosine in near[:NEIGHBOURS]]


class _KeptQuestions:
    """The places of kept questions, and their words."""

    def __init__(self) -> None:
        self.places: set[int] = set()
        self.words = AnswerWords()

    def add(self, answered: AnsweredQuestion) -> None:
        self.places.add(int(answered.key))
        self.words.add(answered.question, answered.answer_digest)


def _served_score(evidence: SimilarityEvidence) -> float:
    """The score from which on a feature is served; infinite where nothing is proved."""
    return inf if evidence.served_point is None else evidence.served_point.score


def _by_score(
    evidence: SimilarityEvidence, least: float
) -> Callable[[int, Sequence[SimilarQuestion], SimilarAnswer | None], str | None]:
    """Serves the candidate whose score is so high or higher."""

    def serve(_: int, __: Sequence[SimilarQuestion], chosen: SimilarAnswer | None) -> str | None:
        if chosen is None or evidence.score(chosen) < least:
            return None
        return chosen.answered.answer_digest

    return serve


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


def _nearest_from(
    cosine: float,
) -> Callable[[int, Sequence[SimilarQuestion], SimilarAnswer | None], str | None]:
    """Serves the nearest question's answer from a cosine on."""

    def serve(_: int, near: Sequence[SimilarQuestion], __: SimilarAnswer | None) -> str | None:
        return near[0].answered.answer_digest if near and near[0].cosine >= cosine else None

    return serve


def _score_of_plain_share(scores: Sequence[tuple[float, bool]]) -> float:
    """The least score with a share of wrong ones within the promise, not its bound."""
    best, wrong = inf, 0
    for count, (score, was_right) in enumerate(sorted(scores, key=lambda pair: -pair[0]), 1):
        wrong += not was_right
        if wrong <= _PROMISE * count:
            best = score
    return best
