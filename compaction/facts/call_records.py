"""A call and what came back, on one line."""

from collections.abc import Callable
from typing import Final

from compaction.facts.call_lines import looks, said
from compaction.facts.call_outcomes import ERROR, action_outcome
from compaction.facts.fact import Fact, Kind
from compaction.facts.flat import flat
from compaction.facts.region_contents import Exchange
from compaction.facts.unquoted import unquoted
from compaction.reading.redaction import redacted

#: How a result is said on one line.
Say = Callable[[str], str]

#: Stands between a call, what came back, and how it ended.
ARROW: Final = " → "
#: Characters of an argument that stay.
_ARGUMENT: Final = 400
#: The same where nothing came back: thoughts, and what still waits.
_THOUGHT: Final = 100
#: Stands for a result that is left out: without an arrow nothing came back.
_LEFT_OUT: Final = "…"
#: Characters of a result before the words of its error that say no more than that it is one.
_TITLE: Final = 12


def say_nothing(_: str) -> str:
    """Nothing of a result."""
    return ""


def exchanged(each: Exchange, kind: Kind, say: Say, key: str = "", replaces: int = 0) -> Fact:
    """A call and what came back as a fact; an action's line ends with how it ended."""
    ended = action_outcome(each)
    result = unquoted(flat(say(each.result)))
    result = "" if _says_no_more(result, ended) else result
    text = (
        said(each.called, _ARGUMENT if each.result else _THOUGHT, result) if each.key else "result"
    )
    is_action = kind is Kind.ACTION
    back = result if is_action or result else _instead(each, ended)
    line = redacted(f"{text}{ARROW}{back}" if back else text)
    is_left_out = ended.startswith(ERROR) and (ended.partition(": ")[2] or ended) not in line
    return Fact(
        kind=kind,
        text=f"{line}{ARROW}{ended}" if is_action or is_left_out else line,
        turns=(each.turn,),
        messages=each.messages,
        key=key,
        replaces=replaces,
    )


def _instead(each: Exchange, ended: str) -> str:
    """How a call ended whose result is left out; a look that went well needs no word."""
    if ended.startswith(ERROR) or not looks(each.called):
        return ended
    return _LEFT_OUT if each.result else ""


def _says_no_more(result: str, ended: str) -> bool:
    """True if a result says no more than how its call ended."""
    words = ended.partition(": ")[2] or ended
    return result.endswith(words) and len(result) <= len(words) + _TITLE
