"""What tools gave back, each on one line with its call: values stay beside each other."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from compaction.facts.call_records import Say, exchanged
from compaction.facts.fact import Fact, Kind
from compaction.facts.region_contents import Exchange, Part

#: Tools that only take a note of what was thought.
_THINK: Final = frozenset({"think", "thinking", "sequentialthinking", "sequential_thinking"})
#: A name that is longer is no name.
_LONGEST: Final = 128


def records(part: Part, say: Say, stands: Sequence[bool]) -> Iterator[Fact]:
    """Calls that only read, with what came back; those whose results no longer stand are left out.

    Thoughts that were noted in the form of a call, and nothing came back of, are left out too.

    Args:
        part: What is folded.
        say: Says a result on one line; "" leaves it out.
        stands: Whether the result of each exchange still stands.
    """
    before = _before(part)
    for each, still in zip(part.exchanges, stands, strict=True):
        if still and not each.acts and not _is_thought(each):
            yield exchanged(each, Kind.RECORD, say, each.key, before.get(each.key, 0))


def _is_thought(each: Exchange) -> bool:
    return not each.result and each.called.name[:_LONGEST].lower() in _THINK


def _before(part: Part) -> Mapping[str, int]:
    """The turn of the latest record of each call in the segments before, by its key."""
    return {
        fact.key: fact.turns[-1]
        for segment in part.region.earlier
        for fact in segment.facts
        if fact.kind is Kind.RECORD
    }
