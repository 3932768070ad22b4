"""A call and what came back, on one line."""

from collections.abc import Callable
from typing import Final

from compaction.facts.calls import said
from compaction.facts.fact import Fact, Kind
from compaction.facts.flat import flat
from compaction.facts.part import Exchange
from compaction.facts.secrets import redacted
from compaction.facts.unquoted import unquoted

#: How a result is said on one line.
Say = Callable[[str], str]

#: Characters of an argument that stay.
_ARGUMENT: Final = 400
#: The same where nothing came back: thoughts, and what still waits.
_THOUGHT: Final = 100
#: Stands for a result that is left out: without an arrow nothing came back.
_LEFT_OUT: Final = "…"


def exchanged(each: Exchange, kind: Kind, say: Say, key: str = "", replaces: int = 0) -> Fact:
    """A call and what came back as a fact."""
    most = _ARGUMENT if each.result else _THOUGHT
    result = unquoted(flat(say(each.result)))
    text = said(each.called, most, result) if each.key else "result"
    back = result or (_LEFT_OUT if each.result else "")
    return Fact(
        kind=kind,
        text=redacted(f"{text} → {back}" if back else text),
        turns=(each.turn,),
        messages=each.messages,
        key=key,
        replaces=replaces,
    )
