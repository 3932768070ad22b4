"""Refuses a cached answer where a small difference changes the question.

A threshold on a score cannot replace these: "transfer 50 from savings to checking" and "transfer 50
from checking to savings" lie closer together than most paraphrases do. Each gate compares what two
texts say in one respect, and refuses where they differ. They need no learning, and no learning
overrules them.
"""

from collections.abc import Callable, Sequence
from enum import StrEnum
from typing import Final

from proxy.fast_path.similarity.protected_words import (
    FREE_WORDS,
    OPPOSITE_PREFIXES,
    OPPOSITES,
    SAME_WHERE_BOTH,
    SYNONYMS,
)
from proxy.fast_path.similarity.questions import Question, is_number, stem


class Gate(StrEnum):
    """The respect in which two questions differ."""

    LANGUAGE = "language"
    NUMBERS = "numbers"
    NAMES = "names"
    NEGATION = "negation, condition or quantity"
    UNITS_DATES = "units or dates"
    PERSON_TIME_PLACE = "person, time or place"
    OPPOSITE = "opposites"
    ORDER = "order"
    EXCHANGED_WORD = "exchanged word"
    EXCHANGED_OBJECT = "exchanged object"
    ADDED_WORDS = "added words"
    OTHER_ADDITION = "other addition"
    LITTLE_SHARED = "little in common"


def _groups_by_word(groups: tuple[frozenset[str], ...]) -> dict[str, frozenset[str]]:
    """The stems that stand in one group with each stem."""
    members: dict[str, set[str]] = {}
    for group in groups:
        stems = {stem(word) for word in group}
        for word in stems:
            members.setdefault(word, set()).update(stems - {word})
    return {word: frozenset(others) for word, others in members.items()}


_OPPOSITES_BY_WORD: Final = _groups_by_word(OPPOSITES)
_SYNONYMS_BY_WORD: Final = _groups_by_word(SYNONYMS)
_NONE: Final[frozenset[str]] = frozenset()
#: Two texts are of one pattern where they share at least this part of their content words.
_SHARED_PART: Final = 0.5
#: Words of a common beginning and end that make a frame.
_FRAME_WORDS: Final = 5

#: Content words from which on a text is longer, and the part of all words that two of them share.
_LONGER_WORDS: Final = 5
_LEAST_SHARED_PART: Final = 0.4


def refusing_gate(query: Question, cached: Question) -> Gate | None:
    """The first gate by which a kept answer may not be served; None where all agree."""
    if query.words == cached.words and query.names == cached.names:
        return None
    return next((gate for gate, differs in _GATES.items() if differs(query, cached)), None)


def _language_differs(query: Question, cached: Question) -> bool:
    """True where two languages or scripts are told apart."""
    return query.language != cached.language and bool(query.language and cached.language)


def _numbers_differ(query: Question, cached: Question) -> bool:
    """True where one text has a number that the other has not, or has it more often."""
    return query.numbers != cached.numbers


def _names_differ(query: Question, cached: Question) -> bool:
    """True where a name of one text is in no way in the other."""
    return bool(_missing_names(query, cached) or _missing_names(cached, query))


def _missing_names(one: Question, other: Question) -> list[str]:
    """The names of one text whose words the other has not, as name or as words."""
    if one.names == other.names:
        return []
    words = set(other.words)
    return [
        name
        for name in one.names - other.names
        if not all(part in words or stem(part) in other.content for part in name.split())
    ]


def _counted_differ(query: Question, cached: Question) -> bool:
    """True where negations, conditions, restrictions or words of all are not as many in both."""
    return query.counted != cached.counted


def _units_differ(query: Question, cached: Question) -> bool:
    """True where dates, times, units or currencies are not the same."""
    return query.same_set != cached.same_set


def _person_differs(query: Question, cached: Question) -> bool:
    """True where both say a person, time, place or duty, and not the same one."""
    return any(
        (in_asked := {classes[word] for word in query.words if word in classes})
        and (in_kept := {classes[word] for word in cached.words if word in classes})
        and in_asked != in_kept
        for classes in SAME_WHERE_BOTH
    )


def _has_opposites(query: Question, cached: Question) -> bool:
    """True where a word of one text is the opposite of a word of the other, not shared by both."""
    only_asked, only_kept = query.stems - cached.stems, cached.stems - query.stems
    return any(
        not only_kept.isdisjoint(_OPPOSITES_BY_WORD.get(word, _NONE))
        or any(f"{prefix}{word}" in only_kept for prefix in OPPOSITE_PREFIXES)
        or any(
            word.startswith(prefix) and word[len(prefix) :] in only_kept
            for prefix in OPPOSITE_PREFIXES
        )
        for word in only_asked
    )


def _order_differs(query: Question, cached: Question) -> bool:
    """True where the same words stand in another order or number, or behind other directions."""
    shared = set(query.content) & set(cached.content)
    if query.content != cached.content and set(query.content) == set(cached.content):
        return True
    in_asked, in_kept = (_directions(question, shared) for question in (query, cached))
    return any(
        in_kept[direction].isdisjoint(words)
        and any(words & others for other, others in in_kept.items() if other != direction)
        for direction, words in in_asked.items()
        if direction in in_kept
    )


def _directions(question: Question, shared: set[str]) -> dict[str, set[str]]:
    """The shared content words behind each word of direction."""
    words_by_direction: dict[str, set[str]] = {}
    for direction, word in question.arguments:
        if word in shared:
            words_by_direction.setdefault(direction, set()).add(word)
    return words_by_direction


def _word_exchanged(query: Question, cached: Question) -> bool:
    """True where texts of one pattern differ by a content word that is no synonym."""
    only_asked, only_kept, shared = _differences(query, cached)
    if not only_asked or not only_kept:
        return False
    if shared and not _is_one_pattern(only_asked, only_kept, shared):
        return False
    return not all(_is_synonym_of_any(word, only_kept) for word in only_asked) or not all(
        _is_synonym_of_any(word, only_asked) for word in only_kept
    )


def _object_exchanged(query: Question, cached: Question) -> bool:
    """True where one word of direction or condition stands before another word in each text."""
    of_kept = dict(cached.arguments)
    return any(
        direction in of_kept
        and word not in cached.content
        and of_kept[direction] not in query.content
        and not _is_synonym_of_any(word, list(cached.content))
        for direction, word in query.arguments
    )


def _words_added(query: Question, cached: Question) -> bool:
    """True where one text is the other with content words added."""
    only_asked, only_kept, shared = _differences(query, cached)
    if bool(only_asked) == bool(only_kept):
        return False
    if _is_one_pattern(only_asked, only_kept, shared):
        return True
    longer, shorter = sorted((query.words, cached.words), key=len, reverse=True)
    return f" {' '.join(shorter)} " in f" {' '.join(longer)} "


def _additions_differ(query: Question, cached: Question) -> bool:
    """True where texts with one beginning and end have several words each between them."""
    ahead = _common_length(query.words, cached.words)
    rest, other_rest = query.words[ahead:], cached.words[ahead:]
    behind = _common_length(rest[::-1], other_rest[::-1])
    if ahead + behind < max(_FRAME_WORDS, min(len(query.words), len(cached.words)) / 2):
        return False
    between = (rest[: len(rest) - behind], other_rest[: len(other_rest) - behind])
    return all(sum(word not in FREE_WORDS for word in words) > 1 for words in between)


def _shares_little(query: Question, cached: Question) -> bool:
    """True where two longer texts share so few words that a difference is told by none."""
    in_asked, in_kept = set(query.content), set(cached.content)
    if min(len(in_asked), len(in_kept)) < _LONGER_WORDS:
        return False
    return len(in_asked & in_kept) < _LEAST_SHARED_PART * len(in_asked | in_kept)


def _common_length(one: Sequence[str], other: Sequence[str]) -> int:
    """The number of equal words that two texts begin with."""
    pairs = zip(one, other, strict=False)
    return next((n for n, (a, b) in enumerate(pairs) if a != b), min(len(one), len(other)))


def _differences(query: Question, cached: Question) -> tuple[list[str], list[str], int]:
    """The content words that only one of two texts has, and the number of shared ones."""
    in_asked, in_kept = set(query.content), set(cached.content)
    return (
        sorted(in_asked - in_kept),
        sorted(in_kept - in_asked),
        len(in_asked & in_kept),
    )


def _is_one_pattern(only_asked: list[str], only_kept: list[str], shared: int) -> bool:
    """True where so much is shared that the rest is what was asked differently."""
    longest = max(len(only_asked), len(only_kept))
    return shared >= _SHARED_PART * (shared + longest)


def _is_synonym_of_any(word: str, others: list[str]) -> bool:
    """True where one of the other text's words is a synonym or another spelling of a word."""
    synonyms = _SYNONYMS_BY_WORD.get(word, frozenset())
    return any(other in synonyms or _is_misspelling(word, other) for other in others)


def _is_misspelling(word: str, other: str) -> bool:
    """True for two long words that differ by one letter put in, left out or exchanged."""
    if min(len(word), len(other)) < 6 or abs(len(word) - len(other)) > 1:
        return False
    if is_number(word) or is_number(other) or word[0] != other[0]:
        return False
    ahead = next((n for n, (a, b) in enumerate(zip(word, other, strict=False)) if a != b), -1)
    if ahead < 0:
        return True
    rest, other_rest = word[ahead:], other[ahead:]
    return (
        rest[1:] == other_rest[1:]
        or rest[1:] == other_rest
        or rest == other_rest[1:]
        or (rest[:2] == other_rest[1::-1] and rest[2:] == other_rest[2:])
    )


_GATES: Final[dict[Gate, Callable[[Question, Question], bool]]] = {
    Gate.LANGUAGE: _language_differs,
    Gate.NUMBERS: _numbers_differ,
    Gate.NAMES: _names_differ,
    Gate.NEGATION: _counted_differ,
    Gate.UNITS_DATES: _units_differ,
    Gate.PERSON_TIME_PLACE: _person_differs,
    Gate.OPPOSITE: _has_opposites,
    Gate.ORDER: _order_differs,
    Gate.EXCHANGED_WORD: _word_exchanged,
    Gate.EXCHANGED_OBJECT: _object_exchanged,
    Gate.ADDED_WORDS: _words_added,
    Gate.OTHER_ADDITION: _additions_differ,
    Gate.LITTLE_SHARED: _shares_little,
}
