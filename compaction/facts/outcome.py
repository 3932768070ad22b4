"""How a call ended: its exit, all of a short answer, what went wrong."""

import re
from functools import cached_property
from typing import Final

from compaction.facts.flat import flat
from compaction.facts.region_contents import Exchange
from compaction.facts.wrong import is_wrong
from compaction.results.rereadable_results import MOST_FAULTS, faults

_EXIT: Final = re.compile(
    r"<returncode>(-?\d{1,5})<|\bexit(?:ed)?(?: (?:with )?(?:code|status))?[: =]{1,3}(-?\d{1,5})\b"
)
#: What a harness puts around an answer.
_FRAME: Final = re.compile(r"<returncode>-?\d{1,5}</returncode>|</?output>")
_SEARCH: Final = re.compile(r"\b(?:grep|rg|ag|find|search\w{0,20}|glob)\b").search
#: Where an exit is told, from either end of an answer.
_EDGE: Final = 200
#: Characters of what came back that stay as they are.
SHORT: Final = 120
#: Characters of the last line of an answer, where only its exit says that it failed.
_REASON: Final = 160


class Outcome:
    """How a call ended.

    Attributes:
        body: What came back, without what a harness puts around it.
        exit: Its exit in words; "" where it is not known.
        is_wrong: Whether it is known to have failed.
    """

    def __init__(self, each: Exchange) -> None:
        result = each.result
        found = _EXIT.search(result, 0, _EDGE) or _EXIT.search(result, max(0, len(result) - _EDGE))
        self.exit = f"exit {found[1] or found[2]}" if found else ""
        self.body = _FRAME.sub("", result).strip()
        self._is_miss = self.exit == "exit 1" and bool(_SEARCH(each.called.arguments))
        self.is_wrong = is_wrong(result) or (self.exit not in {"", "exit 0"} and not self._is_miss)

    @property
    def is_whole(self) -> bool:
        """True if all of what came back is said."""
        return len(self.body) <= SHORT

    @cached_property
    def went_wrong(self) -> bool:
        """True if it failed, or tells of what can only be a failure."""
        return self.is_wrong or bool(self.faults(1))

    def faults(self, most: int = MOST_FAULTS) -> str:
        """The lines that say what went wrong, at most so many; "" for none."""
        return faults(self.body, most, wrong=self.is_wrong)

    def said(self, most: int = MOST_FAULTS) -> str:
        """All that came back where that is short, else the exit and what went wrong."""
        if not self.body:
            return f"{self.exit}, nothing found" if self._is_miss else self.exit
        end = "" if self.exit == "exit 0" else self.exit
        if self.is_whole:
            return flat(self.body) if end in self.body else f"{end}: {flat(self.body)}"
        return ": ".join(filter(None, [end, self._why(most)]))

    def _why(self, most: int) -> str:
        """What went wrong; the last line where nothing but the exit says that it failed."""
        told = self.faults(most)
        if told or not most or not self.is_wrong or not self.exit:
            return told
        return self.body.rpartition("\n")[2].strip()[:_REASON]
