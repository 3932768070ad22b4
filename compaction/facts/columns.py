"""Columns that many results share, said once."""

import re
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Final

import msgspec

from compaction.facts.fact import Fact

#: Names of columns that are worth a letter; bounded, so that a long text is read in one pass.
_COLUMNS: Final = re.compile(r"columns:\[(?<!\w.{9})([^\[\]\"]{40,4000})\]")
_SIGN: Final = "columns:["
_LETTERS: Final = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
#: Names of columns within the same object, one after the other.
_WITHIN: Final = re.compile(r"(?<![^ \[])([\w-]{1,80}\.)[\w.-]{1,80}(?: \1[\w.-]{1,80})+")


def shared(facts: Sequence[Fact]) -> tuple[Fact, ...]:
    """The facts; columns that come again get a letter where they first come, and are it then.

    Of names within one object, one after the other, only the first says which: ``a.b .c`` is
    ``a.b a.c``.
    """
    facts = [_brief(fact) for fact in facts]
    seen = Counter(found for fact in facts for found in _columns(fact.text))
    again = [found for found, times in seen.items() if times > 1][: len(_LETTERS)]
    letters = dict(zip(again, _LETTERS, strict=False))
    if not letters:
        return tuple(facts)
    told: set[str] = set()

    def named(found: re.Match[str]) -> str:
        letter = letters.get(found[1], "")
        if not letter or found[1] not in told:
            told.add(found[1])
            return f"columns {letter}:[{found[1]}]" if letter else found[0]
        return f"columns {letter}"

    return tuple([_renamed(fact, named) if _SIGN in fact.text else fact for fact in facts])


def _columns(text: str) -> Sequence[str]:
    """The columns that a text names; most name none, which is quick to see."""
    return _COLUMNS.findall(text) if _SIGN in text else ()


def _brief(fact: Fact) -> Fact:
    return _renamed(fact, _within) if _SIGN in fact.text else fact


def _renamed(fact: Fact, named: Callable[[re.Match[str]], str]) -> Fact:
    text = _COLUMNS.sub(named, fact.text)
    return fact if text == fact.text else msgspec.structs.replace(fact, text=text)


def _within(found: re.Match[str]) -> str:
    return f"{_SIGN}{_WITHIN.sub(_once, found[1])}]"


def _once(found: re.Match[str]) -> str:
    return found[0].replace(f" {found[1]}", " .")
