"""Calls that changed something, with how that went: they are not to be made again."""

import re
from collections.abc import Iterator, Sequence
from typing import Final

from compaction.facts.calls import changes
from compaction.facts.exchanged import Say, exchanged
from compaction.facts.fact import Fact, Kind
from compaction.facts.part import Exchange, Part

#: What tools say of a change; only looked for where a result begins.
_DONE: Final = re.compile(
    r"\b(?:success\w*|(?:has|have) been|was|were) (?:\w+ ){0,2}"
    r"(?:booked|cancell?ed|created|updated|deleted|removed|sent|added|saved|moved|paid|transferred)\b",
)
#: None of that is said without one of these.
_SIGNS: Final = ("success", " been ", "was ", "were ")
#: Characters of a result that are searched for that.
_HEAD: Final = 300


def acts(each: Exchange) -> bool:
    """Whether an exchange changed something: by its tool's name, or by what came back."""
    return changes(each.called) or _tells(each.result[:_HEAD].lower())


def actions(part: Part, say: Say, stands: Sequence[bool]) -> Iterator[Fact]:
    """Each call that changed something, with its outcome; equal ones stand each for itself.

    Args:
        part: What is folded.
        say: Says a result on one line; "" leaves it out.
        stands: Whether the result of each exchange still stands; of others only that it came.
    """
    for each, still in zip(part.exchanges, stands, strict=True):
        if acts(each):
            yield exchanged(each, Kind.ACTION, say if still else _passed)


def _passed(result: str) -> str:
    """That a result came which a later one tells as much as."""
    return "done"


def _tells(small: str) -> bool:
    """Whether the beginning of a result says that something was changed, in small letters."""
    return any(map(small.__contains__, _SIGNS)) and _DONE.search(small) is not None
