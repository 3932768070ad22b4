"""Chooses the cached answer that may serve a question, and measures the evidence for it.

The neighbours of a question vote by their answers: where the ten nearest were answered alike, the
next one will be, and where two answers compete, no cosine is high enough. The answer with most of
the votes is served under the key of its nearest question that passes all gates.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

from proxy.fast_path.similarity.answer_words import AnswerWords
from proxy.fast_path.similarity.candidate_index import AnsweredQuestion, SimilarQuestion
from proxy.fast_path.similarity.gates import Gate, refusing_gate
from proxy.fast_path.similarity.questions import Question

#: Neighbours among which the candidate is sought, and the nearest of them, which vote.
NEIGHBOURS: Final = 40
_VOTERS: Final = 10
_FEW_WORDS: Final = 8

#: Number of measures of a candidate, the constant one included.
MEASURES: Final = 21


class SimilarAnswer(NamedTuple):
    """A kept answer that passes all gates, with what speaks for it."""

    answered: AnsweredQuestion
    cosine: float
    measures: tuple[float, ...]


def choose_candidate(
    query: Question, neighbours: Sequence[SimilarQuestion], words: AnswerWords
) -> SimilarAnswer | Gate | None:
    """The candidate among the neighbours of a question, nearest first.

    Args:
        words: The words of all kept questions by their answers.

    Returns the gate that refused the nearest one of the answer with most votes where none passes;
    None without neighbours.
    """
    if not neighbours:
        return None
    digest, share = _voted_answer(neighbours[:_VOTERS])
    same = [neighbour for neighbour in neighbours if neighbour.answered.answer_digest == digest]
    refused: Gate | None = None
    for neighbour in same:
        gate = refusing_gate(query, neighbour.answered.question)
        if gate is None:
            others = {near.answered.answer_digest for near in neighbours} - {digest}
            margin = words.margin(query, digest, others)
            measures = (*_measures(query, neighbour, neighbours, share), margin)
            return SimilarAnswer(neighbour.answered, neighbour.cosine, measures)
        refused = refused or gate
    return refused


def _voted_answer(voters: Sequence[SimilarQuestion]) -> tuple[str, float]:
    """The answer with most votes, weighed by the fourth power of the cosine, and its share."""
    votes: dict[str, float] = {}
    for answered, cosine in voters:
        digest = answered.answer_digest
        votes[digest] = votes.get(digest, 0.0) + max(cosine, 0.01) ** 4
    best = max(votes, key=lambda digest: votes[digest])
    return best, votes[best] / sum(votes.values())


def _measures(
    query: Question, chosen: SimilarQuestion, neighbours: Sequence[SimilarQuestion], share: float
) -> tuple[float, ...]:
    """Numbers about 0 to 1 that speak for or against serving a neighbour's answer."""
    voters = neighbours[:_VOTERS]
    digest = chosen.answered.answer_digest
    same = [neighbour for neighbour in voters if neighbour.answered.answer_digest == digest]
    nearest = same[0].cosine
    rival = max(
        (
            neighbour.cosine
            for neighbour in neighbours
            if neighbour.answered.answer_digest != digest
        ),
        default=neighbours[-1].cosine if len(neighbours) > 1 else 0.0,
    )
    agreeing = len(same) / _VOTERS
    words, cached_words = set(query.content), set(chosen.answered.question.content)
    neighbour_words = {word for neighbour in same for word in neighbour.answered.question.content}
    overlap = len(words & cached_words) / max(1, len(words | cached_words))
    covered = len(words & neighbour_words) / max(1, len(words))
    linear = (chosen.cosine, nearest, nearest - rival, share, agreeing, overlap, covered)
    return (
        1.0,
        *linear,
        *(value * value for value in linear),
        float(len(same) == len(voters)),
        rival,
        min(len(query.content), _FEW_WORDS) / _FEW_WORDS,
        voters[-1].cosine,
        sum(neighbour.cosine for neighbour in voters) / len(voters),
    )
