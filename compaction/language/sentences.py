"""Sentences of texts in any script, and places where a text may be cut without changing a value."""

import re
from collections.abc import Iterator
from typing import Final

#: Marks that may stand between a sentence's stop and its end.
_CLOSERS: Final = "\"')\\]»”’」』）】》"
_CLOSING: Final = frozenset(_CLOSERS)
_STOPS: Final = frozenset(".!?…")
#: Stops after which a sentence ends with or without a space: Chinese and Japanese, Hindi, Arabic,
#: Urdu, Armenian, Ethiopic, Burmese, Khmer.
_FULL_STOPS: Final = "。！？｡।॥؟۔։።။។"
#: Marks behind which a text without spaces may be cut.
CUT_MARKS: Final = "、，；。：！？"
#: Letters of Thai and Lao, which have no stops: sentences are separated by spaces.
_THAI: Final = "\u0e00-\u0eff"
_HAN: Final = "\u3040-\u30ff\u3400-\u9fff"
#: Regular expression for the space after a stop, or after a mark that may close a sentence. It
#: begins with the space and looks back from there, which makes the search fast.
_STOP: Final = re.compile(r"\s(?<=[.!?\"')\]]\s)\s*").finditer
#: The same for lines with other letters than ASCII.
_ANY_STOP: Final = re.compile(
    rf"\s(?<=[.!?…{_CLOSERS}]\s)\s*"
    rf"|(?<=[{_FULL_STOPS}])[{_CLOSERS}]*(?![{_FULL_STOPS}{_CLOSERS}!?])\s*"
    rf"|(?<=[!?])(?=[{_HAN}])"
    rf"|(?<=[{_THAI}])\s+(?=[{_THAI}])"
).finditer
#: Abbreviations before whose full stop no sentence ends, of all languages; those of single letters
#: ("z. B.", "a.m.", "т. е.") need no entry.
_ABBREVIATIONS: Final = """
mr mrs ms dr prof st jr sr vs approx incl excl dept est fig ext
bzw ca inkl exkl evtl ggf vgl str bsp nr tel usw sog geb zzgl abzgl mind max min mwst std
mme mlle env av bd sra srta dra ud uds avda apdo pág núm aprox lic ing ej
sig dott avv pag num tav rag vd exmo exma bijv resp mevr dhr blz ul np godz zł tj itd itp tzw kl bl
ул пр просп кв руб коп тел стр обл мин сек вул грн напр див гр
vb vs örn bkz cad sok mah apt tl tp ths đ
jan feb mar apr jun jul aug sep sept oct okt nov dec dez
"""
#: Words whose full stop ends no sentence where a figure follows: "No. 5".
_NUMBERED: Final = "no nos art p pp ed sec vol par ch abs hal ok al"
_abbreviations: Final = frozenset(_ABBREVIATIONS.split())
_numbered: Final = frozenset(_NUMBERED.split())
#: Letters after these are no initials: syllables of Korean, Chinese and so on may be words.
_LAST_ALPHABETIC: Final = "\u052f"
#: Particles that end a sentence in Thai, and the least characters of one that ends without.
_THAI_PARTICLES: Final = ("ครับ", "ค่ะ", "คะ", "ค่า", "จ้า", "จ้ะ", "นะ")
_MIN_THAI_CHARS: Final = 40


def sentences(text: str) -> Iterator[str]:
    """The sentences of a text, in order, each within one line of it and without outer spaces.

    A full stop after an abbreviation, a list's number or an ordinal ("30. April") ends none.
    """
    for line in text.splitlines():
        start = 0
        for stop in (_STOP if line.isascii() else _ANY_STOP)(line):
            if not _ends_sentence(line, start, stop):
                continue
            if sentence := line[start : stop.end()].strip():
                yield sentence
            start = stop.end()
        if sentence := line[start:].strip():
            yield sentence


def _ends_sentence(line: str, start: int, stop: re.Match[str]) -> bool:
    """True if a sentence of a line that begins at ``start`` ends at a stop."""
    end = stop.start()
    last = line[end - 1]
    if last == ".":
        return not _is_abbreviated(line, start, stop)
    if "\u0e00" <= last <= "\u0eff":
        return end - start >= _MIN_THAI_CHARS or line.endswith(_THAI_PARTICLES, start, end)
    if last in _CLOSING and stop[0].isspace():
        return line[end - 2 : end - 1] in _STOPS and not line[stop.end() :][:1].islower()
    return True


def _is_abbreviated(line: str, start: int, stop: re.Match[str]) -> bool:
    """True if the full stop before a space belongs to a word or number before it."""
    end = stop.start() - 1
    word = line[max(line.rfind(" ", start, end) + 1, start) : end].lstrip("([\"'„“«*_").lower()
    if word.isdecimal():
        return len(word) <= 2
    if word in _abbreviations or (word in _numbered and line[stop.end() :][:1].isdigit()):
        return True
    pieces = word.split(".")
    return all(
        [len(piece) <= 2 and piece.isdecimal() for piece in pieces]
        if word[:1].isdecimal()
        else [len(piece) == 1 and piece.isalpha() and piece <= _LAST_ALPHABETIC for piece in pieces]
    )
