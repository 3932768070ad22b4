"""What was run, and how it ended."""

import re
from collections.abc import Iterator
from typing import Final

from compaction.facts.calls import same
from compaction.facts.fact import Fact, Kind
from compaction.facts.flat import flat
from compaction.facts.part import Exchange, Part
from compaction.facts.repeated import Said
from compaction.facts.secrets import redacted
from compaction.facts.shown import names as shared_out
from compaction.facts.wrong import is_wrong
from compaction.results.masks import faults

#: Characters of an argument that stay.
ARGUMENT: Final = 160
_EXIT: Final = re.compile(
    r"<returncode>(-?\d{1,5})<|\bexit(?:ed)?(?: (?:with )?(?:code|status))?[: =]{1,3}(-?\d{1,5})\b"
)
#: What a harness puts around an answer.
_FRAME: Final = re.compile(r"<returncode>-?\d{1,5}</returncode>|</?output>")
_SEARCH: Final = re.compile(r"\b(?:grep|rg|ag|find|search\w{0,20}|glob)\b").search
#: Characters of what came back that stay as they are.
SHORT: Final = 120
#: All the room that there is for names.
NAMES: Final = 400


def commands(part: Part, names: int = NAMES, share: float = 1.0) -> Iterator[Fact]:
    """Each call with how it ended and the names in what came back; of equal calls the latest.

    Args:
        part: What is folded.
        names: How much of the room for names is taken, of ``NAMES``.
        share: The part of the calls that stays: the latest ones.
    """
    keys = [same(each.called) for each in part.exchanges]
    last = {key: at for at, key in enumerate(keys)}
    latest = [last[key] if key else at for at, key in enumerate(keys)]
    first = len(keys) - round(len(keys) * share)
    say = Said(ARGUMENT)
    lines = {
        at: (say(each.called) if keys[at] else "", _end(each))
        for at, each in enumerate(part.exchanges)
        if at >= first and latest[at] == at
    }
    whole = {at: " ".join(line) for at, line in lines.items()}
    shown = shared_out(part, whole, latest, names / NAMES) if names else {}
    for at, line in lines.items():
        each = part.exchanges[at]
        yield Fact(
            kind=Kind.COMMAND,
            text=redacted(" → ".join(filter(None, [*line, " ".join(shown.get(at, ()))]))),
            turns=(each.turn,),
            messages=each.messages,
            key=keys[at],
        )


def _end(each: Exchange) -> str:
    """How a command ended: all it said where that is short, else its exit and what went wrong."""
    result = each.result
    found = _EXIT.search(result, 0, 200) or _EXIT.search(result, max(0, len(result) - 200))
    end = f"exit {found[1] or found[2]}" if found else ""
    body = _FRAME.sub("", result).strip()
    if not body:
        return (
            f"{end}, nothing found" if end == "exit 1" and _SEARCH(each.called.arguments) else end
        )
    end = "" if end == "exit 0" else end
    if len(body) > SHORT:
        told = faults(body) if is_wrong(result) else ""
        return ": ".join(filter(None, [end, told]))
    return flat(body) if end in body else f"{end}: {flat(body)}"
