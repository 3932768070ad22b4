"""True if a user's words say little without what the assistant said before them."""

import re
from enum import IntEnum
from typing import Final

#: Characters of an answer that is short.
_SHORT: Final = 40
#: Characters of an answer that takes something up, or chooses; a longer one says what it means.
_TAKEN_UP: Final = 120
#: Characters of an answer that is a letter, or a number, of what was offered.
_LETTER: Final = 20
_chooses: Final = re.compile(
    r"""\b(?:
      (?:the|that|this|your|my)\ (?:very\ )?(?:first|second|third|fourth|fifth|last|other|former
        | latter|next|one|ones|cheap\w{0,4}|early|earli\w{1,3}|lat\w{1,3}|fast\w{0,3}|direct)
    | option | both | either | neither | (?:first|second|third|last|other|former|latter)\ one
    | take\ (?:it|that) | number\ (?:one|two|three|\d)
    )\b""",
    re.VERBOSE,
).search
_letter: Final = re.compile(r"(?:\w+ ){0,2}\(?(?:[a-f]|\d)[).!]*(?: please[.!]?)?").fullmatch


class Refers(IntEnum):
    """How far an answer leans on what it answers."""

    NOT = 0
    AGREES = 1  #: It says yes or no, or is only a few words: the question gives it its sense.
    CHOOSES = 2  #: It names one of several by its place or its letter.


def refers(answer: str) -> Refers:
    """How far an answer leans on what it answers."""
    if len(answer) > _TAKEN_UP:
        return Refers.NOT
    small = answer.strip().lower()
    if _chooses(small) or (len(small) <= _LETTER and _letter(small)):
        return Refers.CHOOSES
    says_more = len(small) > _SHORT or any(map(str.isdigit, small))
    return Refers.NOT if says_more else Refers.AGREES
