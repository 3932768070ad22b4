"""What went wrong, and what mended it."""

from collections.abc import Iterator
from typing import Final

from compaction.facts.calls import said, same
from compaction.facts.fact import Fact, Kind
from compaction.facts.flat import flat
from compaction.facts.part import Exchange, Part
from compaction.facts.secrets import redacted
from compaction.facts.wrong import is_wrong
from compaction.results.masks import faults

#: Characters of a call that stay.
_CALL: Final = 80


def errors(part: Part) -> Iterator[Fact]:
    """What went wrong in calls that were made again; said to be mended where they went well then.

    The line of its command says it of the latest of equal calls.
    """
    good: dict[str, int] = {}
    latest: dict[str, int] = {}
    for at, each in enumerate(part.exchanges):
        key = same(each.called)
        latest[key] = at
        if not is_wrong(each.result):
            good[key] = at
    told: set[str] = set()
    for at, each in enumerate(part.exchanges):
        key = same(each.called)
        again = bool(key) and latest[key] > at
        text = _told(each, mended=good.get(key, -1) > at) if again and is_wrong(each.result) else ""
        if text and text not in told:
            told.add(text)
            yield Fact(kind=Kind.ERROR, text=text, turns=(each.turn,), messages=each.messages)


def _told(each: Exchange, *, mended: bool) -> str:
    """A call with what went wrong in it; "" where it does not say so."""
    wrong = flat(faults(each.result))
    if not wrong:
        return ""
    text = f"{said(each.called, _CALL)}: {wrong}"
    return redacted(f"{text} (went well later)" if mended else text)
