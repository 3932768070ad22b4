"""What went wrong, and what mended it."""

from collections.abc import Iterator
from typing import Final

from compaction.facts.call_lines import said
from compaction.facts.fact import Fact, Kind
from compaction.facts.outcome import Outcome
from compaction.facts.region_contents import Exchange, Part
from compaction.reading.redaction import redacted

#: Characters of a call that stay.
_CALL: Final = 80
#: Lines that stay of what went wrong, and of what was mended.
_LINES, _MENDED = 2, 1


def errors(part: Part) -> Iterator[Fact]:
    """What went wrong in calls that were made again; said to be mended where they went well then.

    The line of its command says it of the latest of equal calls.
    """
    keys = [each.key for each in part.exchanges]
    latest = {key: at for at, key in enumerate(keys)}
    again = {key for at, key in enumerate(keys) if key and latest[key] > at}
    ended = {at: Outcome(part.exchanges[at]) for at, key in enumerate(keys) if key in again}
    good = {keys[at]: at for at, each in ended.items() if not each.went_wrong}
    told = {_told(part.exchanges[latest[key]], ended[latest[key]], mended=False) for key in again}
    told.add("")
    for at, how in ended.items():
        each = part.exchanges[at]
        text = _told(each, how, mended=good.get(keys[at], -1) > at)
        if latest[keys[at]] > at and text not in told:
            told.add(text)
            yield Fact(kind=Kind.ERROR, text=text, turns=(each.turn,), messages=each.messages)


def _told(each: Exchange, ended: Outcome, *, mended: bool) -> str:
    """A call with what went wrong in it; "" where it does not say so."""
    wrong = ended.faults(_MENDED if mended else _LINES)
    if not wrong:
        return ""
    text = f"{said(each.called, _CALL)}: {wrong}"
    return redacted(f"{text} (went well later)" if mended else text)
