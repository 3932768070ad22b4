"""The outcome of a command: its exit status, short answer or error, from its result alone."""

import re
from functools import cached_property
from typing import Final

from compaction.reading.message import CalledTool
from compaction.results.rereadable_results import MAX_FAULT_LINES, fault_lines
from compaction.results.result_lines import one_line

#: Maximum characters at a result's beginning and end that are searched for a failure.
_FAILURE_EDGE_CHARS: Final = 400
_FAILURE: Final = re.compile(
    r"""^[\s*\#>\[(-]{0,4}(?:error|exception|traceback|fatal|failed|failure)\b
      | "(?:error|errors|exception)"\s?:\s?(?!\s*(?:null|false|""|\[\]|\{\}))
      | <returncode>(?!0<) | \bTraceback\ \(most\ recent
      | ^[\w.]{0,120}(?:Error|Exception):
      | ^[^\s:]{1,80}:\ (?:line\ \d{1,6}:\ )?
        [^\n]{0,120}(?:command\ not\ found|No\ such\ file|Permission\ denied)
    """,
    re.VERBOSE | re.MULTILINE,
)
_BEGINS: Final = re.compile(r"\s{0,20}(?:error|exception|fatal|failed)\b")
#: Strings, in lower case, of which every report of a failure holds at least one.
_SIGNS: Final = (
    *("error", "exception", "traceback", "fatal", "fail", "returncode"),
    *("not found", "no such", "denied"),
)


def indicates_failure(result: str) -> bool:
    """True if a result tells of a failure, by its beginning and its end."""
    edges = (
        result
        if len(result) <= 2 * _FAILURE_EDGE_CHARS
        else f"{result[:_FAILURE_EDGE_CHARS]}\n{result[-_FAILURE_EDGE_CHARS:]}"
    )
    small = edges.lower()
    if not any(map(small.__contains__, _SIGNS)):
        return False
    return _BEGINS.match(small) is not None or _FAILURE.search(edges) is not None


_EXIT: Final = re.compile(
    r"<returncode>(-?\d{1,5})<|\bexit(?:ed)?(?: (?:with )?(?:code|status))?[: =]{1,3}(-?\d{1,5})\b"
)
#: Regular expression for the tags that a harness puts around a result.
_FRAME: Final = re.compile(r"<returncode>-?\d{1,5}</returncode>|</?output>")
_SEARCH: Final = re.compile(r"\b(?:grep|rg|ag|find|search\w{0,20}|glob)\b").search
#: Maximum characters at each end of a result that are searched for an exit status.
_EXIT_EDGE_CHARS: Final = 200
#: Maximum characters of a result that is kept unmodified.
MAX_SHORT_ANSWER_CHARS: Final = 120
#: Maximum characters kept of a result's last line when only its exit status shows the failure.
_MAX_LAST_LINE_CHARS: Final = 160


class CallOutcome:
    """The outcome of a call.

    Attributes:
        body: Result, without what a harness puts around it.
        exit: Its exit in words; "" where it is not known.
        is_wrong: True if it is known to have failed.
    """

    def __init__(self, called: CalledTool, result: str) -> None:
        match = _EXIT.search(result, 0, _EXIT_EDGE_CHARS) or _EXIT.search(
            result, max(0, len(result) - _EXIT_EDGE_CHARS)
        )
        self.exit = f"exit {match[1] or match[2]}" if match else ""
        self.body = _FRAME.sub("", result).strip()
        self._faults: dict[int, str] = {}
        self._is_miss = self.exit == "exit 1" and bool(_SEARCH(called.arguments))
        self.is_wrong = indicates_failure(result) or (
            self.exit not in {"", "exit 0"} and not self._is_miss
        )

    @property
    def is_whole(self) -> bool:
        """True if all of what came back is said."""
        return len(self.body) <= MAX_SHORT_ANSWER_CHARS

    @cached_property
    def has_failed(self) -> bool:
        """True if it failed, or tells of what can only be a failure."""
        return self.is_wrong or bool(self.faults(1))

    def faults(self, max_lines: int = MAX_FAULT_LINES) -> str:
        """The lines that say what went wrong, at most so many; "" for none."""
        if max_lines not in self._faults:
            self._faults[max_lines] = fault_lines(self.body, max_lines, is_failure=self.is_wrong)
        return self._faults[max_lines]

    def text(self, max_lines: int = MAX_FAULT_LINES) -> str:
        """All that came back where that is short, else the exit and what went wrong."""
        if not self.body:
            return f"{self.exit}, nothing found" if self._is_miss else self.exit
        end = "" if self.exit == "exit 0" else self.exit
        if self.is_whole:
            return one_line(self.body) if end in self.body else f"{end}: {one_line(self.body)}"
        return ": ".join(filter(None, [end, self._failure_text(max_lines)]))

    def _failure_text(self, max_lines: int) -> str:
        """The failure; the last line where nothing but the exit says that it failed."""
        failure = self.faults(max_lines)
        if failure or not max_lines or not self.is_wrong or not self.exit:
            return failure
        return self.body.rpartition("\n")[2].strip()[:_MAX_LAST_LINE_CHARS]
