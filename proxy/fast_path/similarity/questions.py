"""Reads of a question what the gates compare: its words, numbers, names and protected words."""

import re
import unicodedata
from collections import Counter
from collections.abc import Iterator
from functools import lru_cache
from typing import Final

import msgspec

from proxy.fast_path.similarity.protected_words import (
    CONTRACTIONS,
    COUNTED_CLASSES,
    DIRECTIONS,
    FREE_WORDS,
    LANGUAGE_WORDS,
    NOT_NUMBERS,
    NUMBER_WORDS,
    ONLY_BEHIND_NUMBERS,
    SAME_SET,
)

#: Longer texts are not compared: what matters in them is not told by a few words.
MAX_QUESTION_CHARACTERS: Final = 1_000

_TOKEN: Final = re.compile(
    r"[€$£¥₹%]|°[cfCF]|\d+(?:[.,:/-]\d+)*|[^\W\d_]+(?:['.&+-]?[^\W_]+)*\+*#?|[^\W_]+"
)
_UNIT_NUMBER: Final = re.compile(r"(\d+(?:[.,]\d+)*)([^\W\d_]{1,2}|°[cfCF])$")
_QUOTED: Final = re.compile(r"[\"“”«»„`]([^\"“”«»„`]{1,80})[\"“”«»„`]|(?<!\w)'([^']{1,80})'(?!\w)")
_IDENTIFIER: Final = re.compile(
    r"(?:https?://|www\.)\S+|[\w.+-]+@[\w-]+\.\w+|[\w.~-]*[/\\][\w./\\~-]+|\w+(?:[._]\w+)+|[#@]\w+"
)
#: "Paris: the weather tomorrow": a label in front says whose text it is.
_LABEL: Final = re.compile(r"\s*([^\s:]{1,40}):\s")
_CONDITION_PHRASES: Final = re.compile(
    r"\b(?:in case|as long as|so long as|given that|on condition)\b", re.IGNORECASE
)
#: Behind these, "if" means "whether".
_ASKERS: Final = frozenset(
    {"know", "see", "check", "wonder", "wondering", "ask", "tell me", "show me", "find out"}
)
_SENTENCE_END: Final = frozenset(".!?:;\n")


class Question(msgspec.Struct, frozen=True):
    """The parts of a text that the gates compare, read once when it is asked or kept.

    Attributes:
        words: All words, normalised, by appearance.
        stems: Stems of all words.
        content: Stems of the words that may not come and go freely, by appearance.
        numbers: Every number, sorted; words of numbers as digits.
        names: Quoted texts, identifiers and words with a capital within a sentence, in small.
        counted: Occurrences of each class of negation, condition, restriction and quantifier.
        same_set: Canonical dates, times, units and currencies, each as often as it is there.
        arguments: The content words behind each word of direction or condition, by appearance.
        language: Code of the language, or a script; "" where a text is too short to tell.
    """

    words: tuple[str, ...]
    stems: frozenset[str]
    content: tuple[str, ...]
    numbers: tuple[str, ...]
    names: frozenset[str]
    counted: tuple[tuple[str, int], ...]
    same_set: tuple[str, ...]
    arguments: tuple[tuple[str, str], ...]
    language: str


def read_question(text: str) -> Question | None:
    """The parts of a text that the gates compare; None where it is empty or too long for them."""
    if not text.strip() or len(text) > MAX_QUESTION_CHARACTERS:
        return None
    text = unicodedata.normalize("NFKC", text).replace("\N{RIGHT SINGLE QUOTATION MARK}", "'")
    text = _CONDITION_PHRASES.sub(" provided ", text)
    tokens = _split_units([match.group() for match in _TOKEN.finditer(text)])
    words = _normalise_words(tokens)
    numbers = sorted(_numbers(words))
    return Question(
        words=tuple(words),
        stems=frozenset(map(stem, words)),
        content=tuple(_content(words)),
        numbers=tuple(numbers),
        names=frozenset(_names(text)),
        counted=tuple(sorted(Counter(_counted_classes(words)).items())),
        same_set=tuple(sorted(_same_set(words))),
        arguments=tuple(_arguments(words)),
        language=_language(text, words),
    )


@lru_cache(maxsize=20_000)
def stem(word: str) -> str:
    """A word without the ends that English inflects it by: "cards" and "card" have one stem."""
    if len(word) <= 3 or not word.isalpha():
        return word
    for end, put in (("ies", "y"), ("ing", ""), ("ed", ""), ("es", "e"), ("s", ""), ("ly", "")):
        if word.endswith(end) and len(word) - len(end) >= 3 and not word.endswith("ss"):
            word = word.removesuffix(end) + put
            break
    if len(word) > 3 and word[-1] == word[-2] and word[-1] not in "lsz":
        word = word[:-1]
    return word.removesuffix("e") if len(word) > 3 else word


def is_number(word: str) -> bool:
    """True for a word that begins with a digit."""
    return word[:1].isdigit()


def _split_units(tokens: list[str]) -> Iterator[str]:
    """The tokens, those of a number and a unit written together parted: "5km", "3pm"."""
    for token in tokens:
        together = _UNIT_NUMBER.match(token)
        if together and together[2].lower() not in {"st", "nd", "rd", "th"}:
            yield from together.groups()
        else:
            yield token


def _normalise_words(tokens: Iterator[str]) -> list[str]:
    """The words in small letters, contractions written out, possessive endings removed."""
    words: list[str] = []
    for token in tokens:
        word = token.casefold()
        if (whole := CONTRACTIONS.get(word)) is not None:
            words += whole.split()
            continue
        for end in ("'s", "'re", "'ve", "'ll", "'d", "s'"):
            word = word.removesuffix(end)
        if word:
            words.append(word)
    return _without_asking_if(words)


def _without_asking_if(words: list[str]) -> list[str]:
    """The words without an "if" that means "whether": "tell me if my card works"."""
    return [
        word
        for place, word in enumerate(words)
        if word != "if"
        or not (
            (words[place - 1 : place] and words[place - 1] in _ASKERS)
            or " ".join(words[max(0, place - 2) : place]) in _ASKERS
        )
    ]


def _numbers(words: list[str]) -> Iterator[str]:
    """The numbers of a text, each in one way of writing."""
    for word in words:
        if is_number(word):
            yield word.replace(",", "") if re.fullmatch(r"\d{1,3}(,\d{3})+(\.\d+)?", word) else word
        elif word in NUMBER_WORDS and word not in NOT_NUMBERS:
            yield NUMBER_WORDS[word]


def _counted_classes(words: list[str]) -> Iterator[str]:
    """The class of each word of negation, restriction or whole quantity; a condition's own word."""
    for word in words:
        kind = COUNTED_CLASSES.get(word)
        if kind is not None:
            yield word if kind == "condition" else kind


def _same_set(words: list[str]) -> Iterator[str]:
    """The canonical name of each date, time, unit and currency."""
    before = ""
    for word in words:
        if word in SAME_SET and (word not in ONLY_BEHIND_NUMBERS or is_number(before)):
            yield SAME_SET[word]
        before = word


def _content(words: list[str]) -> Iterator[str]:
    """The stems of words that may not come and go freely."""
    yield from (_canonical(word) for word in words if word not in FREE_WORDS)


def _canonical(word: str) -> str:
    """A number in digits, another word's stem."""
    return word if word in NOT_NUMBERS else NUMBER_WORDS.get(word) or stem(word)


def _arguments(words: list[str]) -> Iterator[tuple[str, str]]:
    """Each word of direction or condition with the first content word behind it."""
    waiting: list[str] = []
    for word in words:
        if word in DIRECTIONS or COUNTED_CLASSES.get(word) == "condition":
            waiting.append(word)
        elif word not in FREE_WORDS:
            yield from ((direction, _canonical(word)) for direction in waiting)
            waiting.clear()


def _names(text: str) -> Iterator[str]:
    """Quoted texts, identifiers, a label, and words with a capital or a digit in a sentence."""
    if (label := _LABEL.match(text)) is not None:
        yield label[1].casefold()
    for quoted in _QUOTED.finditer(text):
        yield (quoted[1] or quoted[2]).casefold().strip()
    for found in _IDENTIFIER.finditer(text):
        yield found.group().casefold().strip(".,!?")
    begins = True
    for match in re.finditer(r"\S+", text):
        word = match.group().strip("\"'“”„«»()[]{},;:!?.*")
        if word and _is_name(word, begins=begins):
            yield word.casefold().removesuffix("'s")
        begins = match.group()[-1:] in _SENTENCE_END


def _is_name(word: str, *, begins: bool) -> bool:
    """True for a word with capitals where none are needed, or with letters and digits mixed."""
    if any(char.isdigit() for char in word):
        return any(char.isalpha() for char in word)
    if any(char.isupper() for char in word[1:]):
        return True
    return not begins and word[0].isupper() and word not in {"I", "I'm", "I'd", "I've", "I'll"}


_SCRIPTS: Final = ("CJK", "HIRAGANA", "KATAKANA", "HANGUL", "CYRILLIC", "ARABIC", "GREEK", "HEBREW")


def _language(text: str, words: list[str]) -> str:
    """The language whose function words are most, or the first script that is not Latin."""
    for char in text:
        if char > "\u02ff" and char.isalpha():
            first = unicodedata.name(char, "").partition(" ")[0]
            return first if first in _SCRIPTS else "other"
    votes = {code: sum(word in own for word in words) for code, own in LANGUAGE_WORDS.items()}
    best = max(votes, key=lambda code: votes[code])
    return best if votes[best] else ""
