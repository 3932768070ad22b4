"""Other ways to shorten the old part of a conversation, small and plain, to be measured beside.

Random lines and TextRank keep a quarter of the part's tokens. TextRank is PageRank over sentences
that share words (Mihalcea and Tarau, 2004: shared words over the sum of the logarithms of the
sentences' lengths, damping 0.85); a sentence looks at most 150 sentences away.
"""

import math
import random
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from tests.bench.compaction_metrics import CompactedRange, Method
from tests.fakes.dialogue import Message, words

_SENTENCE: Final = re.compile(r"(?<=[.!?])\s+|\n+")
_WORD: Final = re.compile(r"\w+")
_SHARE: Final = 0.25
_REACH: Final = 150
_MASK: Final = "[tool result left out]"
_HEAD: Final = 300
#: Sentences are no longer than this, so that a line of JSON is not one.
_LONG: Final = 240


def raw(cut: CompactedRange) -> Sequence[str]:
    """Everything."""
    return [words(message) for message in cut.part]


def keep_last(cut: CompactedRange) -> Sequence[str]:
    """Nothing of the part."""
    return []


def users_only(cut: CompactedRange) -> Sequence[str]:
    """Texts of the users' messages."""
    turns = set(cut.dialogue.turns)
    return [
        words(message) for index, message in enumerate(cut.part, start=cut.start) if index in turns
    ]


def mask_results(cut: CompactedRange) -> Sequence[str]:
    """All but tool results."""
    return _results(cut, lambda text: _MASK)


def crop_results(cut: CompactedRange) -> Sequence[str]:
    """Everything, tool results up to 300 characters."""
    return _results(cut, lambda text: text[:_HEAD])


def at_random(count: Callable[[str], int]) -> Method:
    """Sentences drawn by lot; the same ones in every run."""

    def draw_sentences(cut: CompactedRange) -> Sequence[str]:
        them = sentences(cut.part)
        lot = random.Random(f"{cut.dialogue.name} {cut.end}")  # noqa: S311 - a lot, no secret
        return _quarter(them, [lot.random() for _ in them], count)

    return draw_sentences


def text_rank(count: Callable[[str], int]) -> Method:
    """The sentences that share most words with sentences that do."""

    def rank_sentences(cut: CompactedRange) -> Sequence[str]:
        them = sentences(cut.part)
        return _quarter(
            them, ranks([set(_WORD.findall(sentence.lower())) for sentence in them]), count
        )

    return rank_sentences


def sentences(part: Sequence[Message]) -> list[str]:
    """The part's sentences and lines; longer ones in pieces."""
    them = (piece for message in part for piece in _SENTENCE.split(words(message)))
    return [
        text[start : start + _LONG]
        for text in them
        if text.strip()
        for start in range(0, len(text), _LONG)
    ]


def ranks(bags: Sequence[set[str]]) -> list[float]:
    """The centrality of each bag of words among its neighbours."""
    edges: list[dict[int, float]] = [{} for _ in bags]
    for one, bag in enumerate(bags):
        for other in range(one + 1, min(len(bags), one + _REACH)):
            shared = len(bag & bags[other])
            weight = math.log(1 + len(bag)) + math.log(1 + len(bags[other]))
            if shared:
                edges[one][other] = edges[other][one] = shared / weight
    totals = [sum(edge.values()) or 1.0 for edge in edges]
    rank = [1.0] * len(bags)
    for _ in range(15):
        rank = [
            0.15
            + 0.85 * sum(rank[other] * weight / totals[other] for other, weight in edge.items())
            for edge in edges
        ]
    return rank


def baselines(count: Callable[[str], int]) -> Mapping[str, Method]:
    """All of them, by name."""
    return {
        "raw": raw,
        "keep last": keep_last,
        "users' words": users_only,
        "TextRank 25 %": text_rank(count),
        "random 25 %": at_random(count),
        "mask results": mask_results,
        "crop results to 300": crop_results,
    }


def _quarter(
    them: Sequence[str], marks: Sequence[float], count: Callable[[str], int]
) -> Sequence[str]:
    """The best, in their order, up to a quarter of the tokens."""
    weights = [count(each) for each in them]
    left = _SHARE * sum(weights)
    chosen = set()
    for index in sorted(range(len(them)), key=lambda each: (-marks[each], each)):
        if weights[index] <= left:
            left -= weights[index]
            chosen.add(index)
    return [each for index, each in enumerate(them) if index in chosen]


def _results(cut: CompactedRange, shorten: Callable[[str], str]) -> Sequence[str]:
    return [
        shorten(words(message)) if index in cut.dialogue.results else words(message)
        for index, message in enumerate(cut.part, start=cut.start)
    ]
