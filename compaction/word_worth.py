"""The worth of words, and so of a text of a conversation, as facts or in any other form.

A word is worth more the rarer it is among the messages, if it holds a figure or looks like a name,
if several messages say it, and if later ones name it again. A word that stands already is worth
little again. Texts are compared by this alone, whatever wrote them.
"""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from math import log
from typing import Final

from compaction.reading.message import ParsedMessage, Voice
from compaction.reading.text_analysis_cache import TextAnalyzer, analyze_uncached
from compaction.value_tokens import SPACELESS_SCRIPTS

_ascii_words = re.compile(r"\w++(?:[.@/-]\w++)*+", re.ASCII).findall
_L: Final = rf"[^\W{SPACELESS_SCRIPTS}]"
_spaced_words = re.compile(rf"{_L}+(?:[.@/-]{_L}+)*").findall
#: In scripts that are written without spaces, any two letters in a row: a name is found again
#: wherever it begins.
_letter_pairs = re.compile(rf"(?=([{SPACELESS_SCRIPTS}]{{2}}))").findall
_letter = re.compile(r"\w").search
_ASCII: Final = bytes(range(128))
_is_value = re.compile(r"\d|\w[_.@/-]\w|[a-z][A-Z]").search
#: Worth of each character of a word that holds a figure, of one that begins with a capital, and of
#: any other; further characters tell no more.
_VALUE, _NAME, _PLAIN = 0.5, 0.35, 0.1
_MAX_TELLING_CHARS: Final = 12
#: Share of a word's worth if it stands already: of a value or name, and of any other.
_VALUE_AGAIN, _PLAIN_AGAIN = 0.1, 0.4
#: Factors for a word that several messages say, and for one that only records repeat, as an address
#: in each order.
_AGAIN_FACTOR, _REPEATED_FACTOR = 2.0, 1.4
#: Factor for a word that later messages name again.
_LATER_FACTOR: Final = 2.0
#: Minimum worth of a word that is looked at; and the unit of worth, a power of two, so that sums
#: are exact in whatever order.
_LEAST, _UNIT = 0.05, 2.0**-20


#: Form and length of a word, the number of messages that say it, and True if more than records
#: name it, and if later messages do: its worth depends on these alone.
_Traits = tuple[int, int, int, bool, bool]


def words_of(text: str) -> list[str]:
    """The words of a text."""
    if text.isascii():
        return _ascii_words(text)
    foreign = text.encode(errors="surrogatepass").translate(None, _ASCII)
    if _letter(foreign.decode(errors="replace")):
        return _spaced_words(text) + _letter_pairs(text)
    return _ascii_words(text.encode("ascii", "replace").decode())


def distinct_words(text: str) -> frozenset[str]:
    """The words of a text, each once."""
    return frozenset(words_of(text))


def _is_small(word: str) -> bool:
    """True if a word is letters alone, and no capital among them."""
    return word.isalpha() and word.islower()


def text_size(text: str) -> int:
    """The letters of a text; the bytes where other scripts than Latin are in it."""
    return len(text) if text.isascii() else len(text.encode(errors="replace"))


class RegionWords:
    """The worth of each word of a region.

    Attributes:
        first: Worth of each telling word where it first stands.
        again: Worth of each where it stands again.

    Args:
        messages: Messages of the region.
        later: Messages after it.
        again: Least share of a word's worth that is left where it stands again; 0 for results that
            are records, not files.
        find: Finds the words of a text.
    """

    def __init__(
        self,
        messages: Sequence[ParsedMessage],
        later: Iterable[ParsedMessage],
        again: float = 0.0,
        find: TextAnalyzer = analyze_uncached,
    ) -> None:
        self._find = find
        counts: Counter[str] = Counter()
        named: set[str] = set()
        for message in messages:
            words = find(distinct_words, _spoken_text(message))
            counts.update(words)
            if again or message.voice is not Voice.RESULT:
                named |= words
        self._named = named
        total = max(1, len(messages))
        #: Rarity of a word that so many messages say.
        self._rarity = {
            times: log(1 + total / times) / log(1 + total) for times in {1, *counts.values()}
        }
        self._counts = counts
        self._later = {
            word
            for message in later
            if message.voice is not Voice.RESULT
            for word in find(distinct_words, _spoken_text(message))
        }
        self._least_again = again
        self._known: set[str] = set()
        self._worths: dict[_Traits, tuple[float, float]] = {}
        self.first: dict[str, float] = {}
        self.again: dict[str, float] = {}

    def telling_words(self, text: str) -> AbstractSet[str]:
        """The words of a text that are worth anything."""
        words = self._find(distinct_words, text)
        self._weigh(words - self._known)
        self._known |= words
        return self.first.keys() & words

    def _weigh(self, words: AbstractSet[str]) -> None:
        """Notes the worth of words that are worth anything."""
        counts, named, later, worths = self._counts, self._named, self._later, self._worths
        values = {word for word in words if not _is_small(word) and _is_value(word)}
        for word in words:
            if word in values:
                form = _VALUE_FORM
            elif word[0].isupper() and word.lower() not in counts:
                form = _NAME_FORM
            else:
                form = _PLAIN_FORM if word.isascii() else _FOREIGN_FORM
            key = form, len(word), counts.get(word, 1), word in named, word in later
            worth = worths.get(key)
            if worth is None:
                worth = worths[key] = self._worth(key)
            if worth[0]:
                self.first[word], self.again[word] = worth

    def _worth(self, traits: _Traits) -> tuple[float, float]:
        """The worth of a word with these traits, and where it stands again; 0 for too little."""
        form, size, times, is_named, is_later = traits
        kind, again = _form_worth(form, min(size, _MAX_TELLING_CHARS))
        worth = kind * self._rarity[times]
        if times > 1:
            worth *= _AGAIN_FACTOR if is_named else _REPEATED_FACTOR
        worth *= _LATER_FACTOR if is_later else 1.0
        if worth < _LEAST:
            return 0.0, 0.0
        again = max(again, self._least_again)
        return _UNIT * round(worth / _UNIT), _UNIT * round(worth * again / _UNIT)


#: Forms of words: with a figure or like a name of one thing, with a capital, plain, and plain in
#: another script than Latin.
_VALUE_FORM, _NAME_FORM, _PLAIN_FORM, _FOREIGN_FORM = range(4)


def _form_worth(form: int, size: int) -> tuple[float, float]:
    """The worth of a word by its form, and the share that is left where it stands again."""
    if form == _VALUE_FORM:
        return 1.0 + _VALUE * size, _VALUE_AGAIN
    if form == _NAME_FORM:
        return _NAME * size, _VALUE_AGAIN
    return _PLAIN * (size * 2 if form == _FOREIGN_FORM else max(0, size - 2)), _PLAIN_AGAIN


def _spoken_text(message: ParsedMessage) -> str:
    """All that a message says, its calls included."""
    if not message.calls:
        return message.text
    return "\n".join([message.text, *(call.arguments for call in message.calls)])


def worth_of_pieces(
    region_words: RegionWords, factors: Mapping[int, float], pieces: Iterable[tuple[int, str]]
) -> float:
    """The worth of pieces of messages, the newest first, each word once in full.

    Args:
        region_words: Worth of each word.
        factors: Factors of the messages.
        pieces: Each with the index of its message.
    """
    standing: set[str] = set()
    total = 0.0
    for index, text in sorted(pieces, key=lambda piece: -piece[0]):
        words = region_words.telling_words(text)
        new = sum(map(region_words.first.__getitem__, words - standing))
        total += factors[index] * (new + sum(map(region_words.again.__getitem__, words & standing)))
        standing |= words
    return total
