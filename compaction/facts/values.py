"""Facts from the assistant's texts: values it derived or quoted that no other fact holds."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final

import msgspec

from compaction.facts.fact import Fact, FactKind
from compaction.facts.region_contents import RegionContents
from compaction.facts.rendering import flatten_text
from compaction.language.sentences import sentences
from compaction.reading.message import Voice
from compaction.results.value_leaves import is_identifier, value_leaves

_MONEY: Final = "$€£"
#: Characters that may follow a value at the end of a sentence.
_ENDS: Final = ".!?:"
_DIGIT: Final = re.compile(r"\d").search
#: Regular expression for the digit or underscore that every value has; words with neither are
#: skipped.
_FIGURED: Final = re.compile(r"[\d_]").search
#: Regular expression for a closing tag and the punctuation after it.
_CLOSING: Final = re.compile(r"</[\w:.-]+>\W*").fullmatch
#: Regular expression for punctuation before and after a value, which is removed. Signs that belong
#: to values stay: currency and paths before it, percent after it.
_AROUND: Final = re.compile(r"^[^\w/~.$€£-]+|[^\w%/]+$")
#: Regular expression for figures that are not kept as values: a single digit (a list's number), a
#: time of day such as 14:30, and a compound such as 24-hour.
_PASSING: Final = re.compile(r"\d|\d{1,2}:\d\d|\d+(?:-[a-z]+)+").fullmatch
#: Beginnings of the English names of months.
_MONTHS: Final = "Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec"
_MONTH: Final = rf"(?:{_MONTHS})[a-z]{{0,6}}\.?"
_OF_YEAR: Final = tuple(_MONTHS.split("|"))
#: Regular expression for dates with the month as a word ("May 3rd, 2026"). They are removed from
#: the text before values are read, as results write dates otherwise. Its first character class
#: holds every possible first character, which makes the search fast.
_DAY: Final = re.compile(
    r"[JFMASOND\d](?<!\w.)(?:"
    r"(?:(?<=J)(?:an|u[nl])|(?<=F)eb|(?<=M)a[ry]|(?<=A)(?:pr|ug)|(?<=S)ep|(?<=O)ct|(?<=N)ov"
    r"|(?<=D)ec)[a-z]{0,6}\.? \d{1,2}(?:st|nd|rd|th)?\b(?:,? \d{4}\b)?"
    rf"|(?<=\d)\d?(?:st|nd|rd|th)? (?:of )?{_MONTH}(?:,? \d{{4}}\b)?)"
)
#: Characters that separate words, in addition to white space.
_BETWEEN: Final = ",;()[]{}\"'=|"
_WORD: Final = re.compile(rf"[^\s{re.escape(_BETWEEN)}]+")
#: Maximum occurrences of a value that are counted; more make no difference.
_MAX_COUNTED_TIMES: Final = 3
#: Maximum characters of a sentence that is kept for a value in it.
_MAX_SENTENCE_CHARS: Final = 300
#: Returns the values of a text.
ValueFinder = Callable[[str], tuple[str, ...]]
#: The index of a message, and its values.
MessageValues = tuple[int, Sequence[str]]


class ValueOccurrences(msgspec.Struct, frozen=True, gc=False):
    """The places of a value.

    Attributes:
        times: In how many messages.
    """

    times: int
    last: int


class KeptWords:
    """The words of lines, to see which values stand in them."""

    __slots__ = ("_lines", "_words")

    def __init__(self, lines: str) -> None:
        self._lines: list[str] = []
        self._words: set[str] = set()
        self.add_line(lines)

    def __contains__(self, value: object) -> bool:
        bare = str(value).lstrip(_MONEY)
        if bare in self._words:
            return True
        words = _WORD.findall(bare)
        if len(words) < 2 or not self._words.issuperset(words):
            return False
        return any(bare in line for line in self._lines)

    def add_line(self, line: str) -> None:
        """More lines."""
        self._lines.append(line)
        words = _line_words(line)
        self._words |= words
        self._words.update([word.partition(":")[2] for word in words if ":" in word])
        self._words.update([word.rstrip(_ENDS) for word in words if word[-1] in _ENDS])
        self._words.update([word.strip(_ENDS + _MONEY) for word in words if word[0] in _MONEY])


def value_facts(part: RegionContents, kept_words: KeptWords) -> Iterator[Fact]:
    """The sentences of the assistant's texts whose values stand in none of what is kept.

    A value stays within its sentence, which says what it is of; one in a longer sentence goes.

    Args:
        part: Part that is compacted.
        kept_words: All lines there are so far; what is found is added to it.
    """
    for index, message in part.messages_of(Voice.ASSISTANT):
        new = [word for word in part.find(figure_words, message.text) if word not in kept_words]
        text = " ".join(_sentences_holding(message.text, new)) if new else ""
        if text:
            kept_words.add_line(text)
            yield Fact(
                kind=FactKind.VALUE, text=text, turns=(part.turn_of(index),), messages=(index,)
            )


def _sentences_holding(text: str, new: Sequence[str]) -> Iterator[str]:
    """The sentences of a text that hold one of these values and are short enough."""
    left = list(new)
    for sentence in sentences(text):
        sentence_values = [value for value in left if value in sentence]
        if sentence_values and len(sentence) <= _MAX_SENTENCE_CHARS:
            left = [value for value in left if value not in sentence_values]
            yield flatten_text(sentence)


def names_fact(part: RegionContents, names: Iterable[str]) -> Iterator[Fact]:
    """These names of code on one line; nothing for none."""
    last = part.region.end - 1
    text = flatten_text(" ".join(names))
    if text:
        yield Fact(kind=FactKind.VALUE, text=text, turns=(part.turn_of(last),), messages=(last,))


def stated_values(
    part: RegionContents, voices: Iterable[Voice], named: ValueFinder = value_leaves
) -> Iterator[MessageValues]:
    """The values that messages tell, voice by voice; each with its message.

    Args:
        part: Part that is compacted.
        voices: Whose messages are looked through.
        named: The values of a result, or of a user's words.
    """
    for voice in voices:
        of = figure_words if voice is Voice.ASSISTANT else named
        for index, message in part.messages_of(voice):
            yield index, part.find(of, message.text)


def argument_values(
    part: RegionContents, named: ValueFinder = value_leaves
) -> Iterator[MessageValues]:
    """The values that calls were made with, each with its message."""
    for exchange in part.exchanges:
        yield exchange.messages[0], part.find(named, exchange.called.arguments)


def _line_words(line: str) -> set[str]:
    """The words of a line; of a long one, that is twice as quick as a pattern."""
    for separator in _BETWEEN:
        line = line.replace(separator, " ")
    return set(line.split())


def count_occurrences(messages: Iterable[MessageValues]) -> Mapping[str, ValueOccurrences]:
    """The values with where they stand, in their order."""
    occurrences: dict[str, ValueOccurrences] = {}
    for index, values in messages:
        for value in values:
            before = occurrences.get(value)
            occurrences[value] = ValueOccurrences(before.times + 1 if before else 1, index)
    return occurrences


def rank_values(occurrences: Mapping[str, ValueOccurrences]) -> list[str]:
    """The values by what they are worth: those that came again, then the newest."""
    return sorted(
        occurrences,
        key=lambda value: (
            min(occurrences[value].times, _MAX_COUNTED_TIMES),
            occurrences[value].last,
        ),
        reverse=True,
    )


def figure_words(text: str) -> tuple[str, ...]:
    """The words of a text that hold a figure or name something, as they may stand in a result.

    A day whose month is a word is none: results write it otherwise. Nor is the end of a tag.
    """
    if not _FIGURED(text):
        return ()
    if any(map(text.__contains__, _OF_YEAR)):
        text = _DAY.sub(" ", text)
    words = filter(_FIGURED, dict.fromkeys(text.split()))
    bare = [_without_punctuation(word) for word in words if not _CLOSING(word)]
    return tuple([value for value in bare if _is_telling(value)])


def _without_punctuation(word: str) -> str:
    """A word without what stands around it in a sentence."""
    return word if word[0].isalnum() and word[-1].isalnum() else _AROUND.sub("", word)


def _is_telling(value: str) -> bool:
    """True if a word is a figure that may stand in a result, or names something."""
    if _DIGIT(value):
        return not _PASSING(value) or ("_" in value and is_identifier(value))
    return "_" in value and is_identifier(value)
