"""Tells wishes, acceptances, refusals and outcomes in texts of nineteen languages."""

import re
from collections.abc import Callable, Sequence
from functools import cache
from typing import Final

import msgspec

from compaction.language.latin_phrases import LATIN_PHRASES
from compaction.language.other_phrases import OTHER_PHRASES
from compaction.language.phrases import Phrases

#: Maximum characters of a wish; a longer sentence is a report or a text of somebody else's.
_MAX_WISH_CHARS: Final = 500
#: Maximum characters at a text's beginning and end that are searched for an outcome.
_OUTCOME_EDGE_CHARS: Final = 300
#: Minimum words in Latin letters by which a text of another script is also read in their language.
_MIN_LATIN_WORDS: Final = 4
#: Maximum characters of a clause that may only disagree.
_MAX_REFUSAL_CHARS: Final = 16
_QUESTION_MARKS: Final = ("?", "？", "؟")
#: Beginnings of sentences that quote somebody.
_QUOTES: Final = tuple("\"“”„«»「『'‘_")
#: Letters that are spelt in several ways, and the one by which the table spells them.
_SPELLINGS: Final = str.maketrans({"\u2019": "'", "İ": "i", "\u0640": None})
_latin_words: Final = re.compile("[a-z]+").findall
#: Words; the simpler form reads texts of ASCII in less time.
_words: Final = re.compile(r"[^\W\d_]+(?:'[^\W\d_]+)?").findall
_ascii_words: Final = re.compile(r"[A-Za-z]+(?:'[A-Za-z]+)?").findall
_LIST_MARK: Final = re.compile(r"^[\s>*•–-]*(?:\d{1,3}[.)] ?)?")
_clauses: Final = re.compile(
    r"[,;:\u2013\u2014] | - |[，；：、،؛]|\s(?:but|so|and|because|since|aber|sondern|denn"
    r"|deshalb|und|mais|donc|car|et|pero|porque|y|mas|ma|quindi|maar|dus|en|ale|więc|но|поэтому|и|але"
    r"|ama|ve|nhưng|tapi|dan)\s"
).split
#: Words before a clause's own beginning.
_OPENERS: Final = re.compile(
    r"^\s*(?:(?:please|so|and|but|then|instead|now|just|also|ok|okay|yes|no,|oh|well|actually|bitte"
    r"|und|aber|ja|oui|et|mais|alors|merci|por favor|pero|sí|mas|per favore|sì|en|maar|dus"
    r"|но|да|але|так|ve|ama|evet|và|vâng|ya|dan|tolong|mohon)[ ,]+)*"
)
#: The scripts that tell a language, the first that a text holds.
_SCRIPTS: Final = (
    (re.compile("[\u3040-\u30ff]").search, "ja"),
    (re.compile("[\u4e00-\u9fff]").search, "zh"),
    (re.compile("[\uac00-\ud7af]").search, "ko"),
    (re.compile("[\u0e00-\u0e7f]").search, "th"),
    (re.compile("[\u0600-\u06ff]").search, "ar"),
    (re.compile("[\u0900-\u097f]").search, "hi"),
    (re.compile("[\u0400-\u052f]").search, "ru"),
)
_by_code: Final = {row.code: row for row in OTHER_PHRASES}


class _Family:
    """Languages of one script, told apart by their frequent words.

    A word has a byte for each language, 1 where it is frequent in it, so one sum counts for all.
    """

    def __init__(self, rows: Sequence[Phrases]) -> None:
        self.rows = rows
        self._counts: dict[str, int] = {}
        for place, row in enumerate(rows):
            for word in set(row.common.split()):
                self._counts[word] = self._counts.get(word, 0) + (1 << 8 * place)

    def languages_of(self, text: str) -> Sequence[Phrases]:
        """Those with the most frequent words in a text; the first before others in plain ASCII."""
        words_of_text = _ascii_words(text) if text.isascii() else _words(text)
        words = self._counts.keys() & set(words_of_text)
        counts = sum(map(self._counts.__getitem__, words)).to_bytes(len(self.rows), "little")
        best = max(counts)
        if best and counts[0] == best and text.isascii():
            return self.rows[:1]
        return [row for row, count in zip(self.rows, counts, strict=True) if count == best]


_LATIN: Final = _Family(LATIN_PHRASES)
_CYRILLIC: Final = _Family([row for row in OTHER_PHRASES if row.code in {"ru", "uk"}])

#: True if a text holds some phrase.
_Search = Callable[[str], re.Match[str] | None]


class _Patterns(msgspec.Struct, frozen=True):
    """The compiled phrases of one language."""

    standing: _Search
    wishes: _Search
    once: _Search
    reports: _Search
    done: _Search
    failed: _Search
    accepts: _Search
    refuses: _Search
    chooses: _Search


def is_wish(sentence: str) -> bool:
    """True if a sentence tells how things are to be done from now on.

    A question, a quotation, a report or a choice for the task at hand does not.
    """
    if len(sentence) > _MAX_WISH_CHARS:
        return False
    small = _in_lower_case(sentence)
    small = small if small[:1].isalpha() else _LIST_MARK.sub("", small, count=1)
    if small.startswith(_QUOTES) or small.count('"') % 2 or small.count("“") != small.count("”"):
        return False
    languages = [_patterns(row) for row in languages_of(small)]
    clauses = [_OPENERS.sub("", clause, count=1) for clause in _clauses(small)]
    if len(clauses[0]) <= _MAX_REFUSAL_CHARS and _is_whole_refusal(clauses[0], languages):
        clauses = clauses[1:]
    whole = clauses if len(clauses) == 1 else [*clauses, small]
    if any(any(map(language.standing, whole)) for language in languages):
        return True
    return not any(map(small.__contains__, _QUESTION_MARKS)) and any(
        language.wishes(clause) and not language.reports(clause)
        for language in languages
        if not language.once(small)
        for clause in clauses
    )


def _is_whole_refusal(clause: str, languages: Sequence[_Patterns]) -> bool:
    """True if a clause only disagrees."""
    bare = clause.rstrip(".!。！ ")
    return any(
        match is not None and match.end() == len(bare)
        for match in [language.refuses(bare) for language in languages]
    )


def is_acceptance(text: str) -> bool:
    """True if an answer begins by agreeing."""
    small, rows = _answer(text)
    return any(_patterns(row).accepts(small) for row in rows) and not is_refusal(text)


def is_refusal(text: str) -> bool:
    """True if an answer begins by disagreeing."""
    small, rows = _answer(text)
    return any(_patterns(row).refuses(small) for row in rows)


def is_choice(text: str) -> bool:
    """True if an answer names one of several by its place or kind: "the second one"."""
    small, rows = _answer(text)
    return any(_patterns(row).chooses(small) for row in rows)


def tells_success(text: str) -> bool:
    """True if a text's beginning or end says that something was done."""
    small, rows = _outcome(text)
    return any(_patterns(row).done(small) and not _patterns(row).failed(small) for row in rows)


def tells_failure(text: str) -> bool:
    """True if a text's beginning or end says that something failed."""
    small, rows = _outcome(text)
    return any(_patterns(row).failed(small) is not None for row in rows)


def languages_of(text: str) -> Sequence[Phrases]:
    """The languages in which a text, in lower case, may be written, of those in the table."""
    code = "" if text.isascii() else next((code for has, code in _SCRIPTS if has(text)), "")
    if code and code != "ru":
        has_latin = len(_latin_words(text)) >= _MIN_LATIN_WORDS
        return (_by_code[code], *(_LATIN.languages_of(text) if has_latin else ()))
    return (_CYRILLIC if code else _LATIN).languages_of(text)


def _in_lower_case(text: str) -> str:
    return (text if text.isascii() else text.translate(_SPELLINGS)).lower()


def _answer(text: str) -> tuple[str, Sequence[Phrases]]:
    """The beginning of an answer in lower case, and its languages."""
    small = _in_lower_case(text.strip()[:_OUTCOME_EDGE_CHARS])
    return small.lstrip('"“¡¿'), languages_of(small)


def _outcome(text: str) -> tuple[str, Sequence[Phrases]]:
    """The ends of a text in lower case, and its languages."""
    edges = text
    if len(text) > 2 * _OUTCOME_EDGE_CHARS:
        edges = f"{text[:_OUTCOME_EDGE_CHARS]}\n{text[-_OUTCOME_EDGE_CHARS:]}"
    small = _in_lower_case(edges)
    return small, languages_of(small)


@cache
def _patterns(row: Phrases) -> _Patterns:
    """The compiled phrases of a language, at its first text."""
    before, after = (r"(?<!\w)", r"(?!\w)") if row.is_spaced else ("", "")

    def search(phrases: str) -> _Search:
        return re.compile(f"{before}(?:{phrases}){after}").search

    def match(phrases: str) -> _Search:
        return re.compile(f"(?:{phrases}){after}").match

    return _Patterns(
        standing=search(row.standing),
        wishes=search(row.wishes),
        once=search(row.once),
        reports=search(row.reports),
        done=search(row.done),
        failed=search(row.failed),
        accepts=match(row.accepts),
        refuses=match(row.refuses),
        chooses=search(row.chooses),
    )
