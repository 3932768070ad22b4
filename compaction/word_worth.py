"""The worth of words, and so of a text of a conversation, as facts or in any other form.

A word is worth more the rarer it is among the messages, if it holds a figure or looks like a name,
if several messages say it, and if later ones name it again. A word that stands already is worth
little again. Texts are compared by this alone, whatever wrote them.
"""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from math import fsum, log
from typing import Final

import msgspec

from compaction.reading.message import ParsedMessage, Voice
from compaction.value_tokens import SPACELESS_SCRIPTS

_ascii_words = re.compile(r"\w+(?:[.@/-]\w+)*", re.ASCII).findall
_L: Final = rf"[^\W{SPACELESS_SCRIPTS}]"
_spaced_words = re.compile(rf"{_L}+(?:[.@/-]{_L}+)*").findall
#: In scripts that are written without spaces, any two letters in a row: a name is found again
#: wherever it begins.
_letter_pairs = re.compile(rf"(?=([{SPACELESS_SCRIPTS}]{{2}}))").findall
_is_value = re.compile(r".*(?:\d|\w[_.@/-]\w|[a-z][A-Z])", re.DOTALL).match
#: Worth of each character of a word that holds a figure, of one that begins with a capital, and of
#: any other; further characters tell no more.
_VALUE, _NAME, _PLAIN = 0.5, 0.35, 0.1
_MAX_TELLING_CHARS: Final = 12
#: Share of a word's worth if it stands already: of a value or name, and of any other.
_VALUE_AGAIN, _PLAIN_AGAIN = 0.1, 0.4
#: Power of a word's rarity, and the factors for one that several messages say, and for one that
#: only records repeat, as an address in each order.
_RARITY_POWER, _AGAIN_FACTOR, _REPEATED_FACTOR = 1.0, 2.0, 1.4
#: Factor for a word that later messages name again.
_LATER_FACTOR: Final = 2.0
#: Minimum worth of a word that is looked at.
_LEAST: Final = 0.05


def words_of(text: str) -> list[str]:
    """The words of a text."""
    return _ascii_words(text) if text.isascii() else _spaced_words(text) + _letter_pairs(text)


def text_size(text: str) -> int:
    """The letters of a text; the bytes where other scripts than Latin are in it."""
    return len(text) if text.isascii() else len(text.encode(errors="replace"))


class WordWorth(msgspec.Struct, frozen=True, gc=False):
    """The worth of a word where it first stands, and where it stands again."""

    first: float
    again: float


class RegionWords:
    """The worth of each word of a region.

    Args:
        messages: Messages of the region.
        later: Messages after it.
        again: Least share of a word's worth that is left where it stands again; 0 for results that
            are records, not files.
    """

    def __init__(
        self,
        messages: Sequence[ParsedMessage],
        later: Iterable[ParsedMessage],
        again: float = 0.0,
    ) -> None:
        counts: Counter[str] = Counter()
        named: set[str] = set()
        for message in messages:
            words = set(words_of(_spoken_text(message)))
            counts.update(words)
            if again or message.voice is not Voice.RESULT:
                named |= words
        self._named = named
        self._messages = max(1, len(messages))
        self._total = log(1 + self._messages)
        self._counts = counts
        self._later = {
            word
            for message in later
            if message.voice is not Voice.RESULT
            for word in words_of(_spoken_text(message))
        }
        self._again = again
        self._worth: dict[str, WordWorth | None] = {}

    def worth_of(self, word: str) -> WordWorth | None:
        """The worth of a word; None for next to nothing."""
        if word not in self._worth:
            self._worth[word] = self._compute(word)
        return self._worth[word]

    def _compute(self, word: str) -> WordWorth | None:
        kind, again = self._kind(word)
        times = self._counts.get(word, 1)
        worth = kind * (log(1 + self._messages / times) / self._total) ** _RARITY_POWER
        if times > 1:
            worth *= _AGAIN_FACTOR if word in self._named else _REPEATED_FACTOR
        worth *= _LATER_FACTOR if word in self._later else 1.0
        return WordWorth(worth, worth * max(again, self._again)) if worth >= _LEAST else None

    def _kind(self, word: str) -> tuple[float, float]:
        """The worth of a word by its form, and the share that is left where it stands again."""
        size = min(len(word), _MAX_TELLING_CHARS)
        if _is_value(word):
            return 1.0 + _VALUE * size, _VALUE_AGAIN
        if word[0].isupper() and word.lower() not in self._counts:
            return _NAME * size, _VALUE_AGAIN
        if not word.isascii():
            return _PLAIN * size * 2, _PLAIN_AGAIN
        return _PLAIN * max(0, size - 2), _PLAIN_AGAIN


def _spoken_text(message: ParsedMessage) -> str:
    """All that a message says, its calls included."""
    if not message.calls:
        return message.text
    return "\n".join([message.text, *(call.arguments for call in message.calls)])


class Coverage:
    """The words that stand, and what more is worth beside them."""

    def __init__(self, words: RegionWords) -> None:
        self._words = words
        self._stands: set[str] = set()

    def gain(self, words: Iterable[str]) -> float:
        """The worth of distinct words beside those that stand, the same in whatever order."""
        worth_of, stands = self._words.worth_of, self._stands
        return fsum(
            [
                worth.again if word in stands else worth.first
                for word in words
                if (worth := worth_of(word)) is not None
            ]
        )

    def add(self, words: Iterable[str]) -> None:
        """More words stand."""
        self._stands.update(words)


def worth_of_pieces(
    region_words: RegionWords, factors: Mapping[int, float], pieces: Iterable[tuple[int, str]]
) -> float:
    """The worth of pieces of messages, the newest first, each word once in full.

    Args:
        region_words: Worth of each word.
        factors: Factors of the messages.
        pieces: Each with the index of its message.
    """
    coverage = Coverage(region_words)
    total = 0.0
    for index, text in sorted(pieces, key=lambda piece: -piece[0]):
        words = set(words_of(text))
        total += factors[index] * coverage.gain(words)
        coverage.add(words)
    return total
