"""Counts the words of the questions that have each answer, and weighs a question by them.

Neighbours tell what is near; the words of all questions of an answer tell what it is about. "When
do I need a new card" lies next to "how do I get a new card", but its "when" is of other answers.
"""

from collections import Counter
from collections.abc import Iterable
from math import log
from typing import Final

from proxy.fast_path.similarity.questions import Question

#: Added to the count of a word, so that an unseen one only speaks against an answer.
_UNSEEN: Final = 0.3
#: Logits that count as one, and the most that a margin is.
_SCALE: Final = 10.0
_MAX_MARGIN: Final = 3.0


class AnswerWords:
    """The number of kept questions of each answer, and of those with each word."""

    def __init__(self) -> None:
        self._words: dict[str, Counter[str]] = {}
        self._questions: Counter[str] = Counter()

    def add(self, question: Question, answer: str) -> None:
        """Counts a question that is kept."""
        self._questions[answer] += 1
        self._words.setdefault(answer, Counter()).update(question.stems)

    def remove(self, question: Question, answer: str) -> None:
        """Counts a question no longer."""
        self._questions[answer] -= 1
        if self._questions[answer] <= 0:
            del self._questions[answer], self._words[answer]
            return
        words = self._words[answer]
        for word in question.stems:
            words[word] -= 1
            if words[word] <= 0:
                del words[word]

    def margin(self, question: Question, answer: str, others: Iterable[str]) -> float:
        """The lead of an answer over the best other one, by the question's words (naive Bayes)."""
        own = self._likelihood(question, answer)
        rival = max((self._likelihood(question, other) for other in others), default=own - _SCALE)
        return max(-_MAX_MARGIN, min(_MAX_MARGIN, (own - rival) / _SCALE))

    def _likelihood(self, question: Question, answer: str) -> float:
        """The logarithm of the likelihood of a question's words and an answer, up to a constant."""
        words, count = self._words.get(answer, Counter()), self._questions[answer]
        seen = sum(log((words[word] + _UNSEEN) / (count + 1.0)) for word in question.stems)
        return seen + log(count + 1.0)
