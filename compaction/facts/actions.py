"""Calls that changed something, with how that went: they are not to be made again."""

from collections.abc import Iterator, Sequence

from compaction.facts.call_records import Say, exchanged, say_nothing
from compaction.facts.fact import Fact, Kind
from compaction.facts.region_contents import Part


def actions(part: Part, say: Say, stands: Sequence[bool]) -> Iterator[Fact]:
    """Each call that changed something, with its outcome; equal ones stand each for itself.

    Args:
        part: What is folded.
        say: Says a result on one line; "" leaves it out.
        stands: Whether the result of each exchange still stands; of others only how they ended.
    """
    for each, still in zip(part.exchanges, stands, strict=True):
        if each.acts:
            yield exchanged(each, Kind.ACTION, say if still else say_nothing)
