"""Compresses plain text: drops characters that a terminal would not show, and repeated lines."""

import re
from itertools import groupby
from operator import eq
from typing import Final

#: Minimum equal lines in a row that are written once.
MIN_RUN_LINES: Final = 3
#: Three equal lines in a row: each but the last equals the next.
_THREE_EQUAL: Final = b"\1" * (MIN_RUN_LINES - 1)
#: Minimum characters of a line worth replacing; repeating a shorter one costs less.
_MIN_LINE_CHARS: Final = 4

_coloured = re.compile(
    r"\x1b(?:\[[0-?]{0,32}[ -/]{0,8}[@-~]|\][^\x07\x1b\n]{0,256}(?:\x07|\x1b\\)|[@-Z\\^_=>])"
).sub
_moving = re.compile(r"\d|[█▏▎▍▌▋▊▉░▒▓#=]{3}|^\s*[-\\|/⠀-⣿]\s*$").search
_wrong = re.compile(r"(?i)error|fail|fatal|panic|exception|warn|denied|abort").search
_TIMES: Final = "\N{MULTIPLICATION SIGN}"
_counted = re.compile(rf"\[{_TIMES}\d+\]$", re.MULTILINE).search


def compress_log(text: str) -> str:
    """The text without escape codes, overwritten progress and lines that repeat."""
    if "\x1b" in text:
        text = _coloured("", text)
    if "\r" in text:
        text = _final_line_states(text)
    return _collapse_runs(text)


def _final_line_states(text: str) -> str:
    """Each line in the state that the terminal was left with; a file of bare returns stays."""
    text = text.replace("\r\n", "\n")
    if "\r" not in text or "\n" not in text:
        return text
    return "\n".join([_final_state(line) if "\r" in line else line for line in text.split("\n")])


def _final_state(line: str) -> str:
    *before, last = states = [state for state in line.split("\r") if state.strip()] or [""]
    if any(_wrong(state) or not _moving(state) for state in before):
        return "\r".join(states)
    return last


def _collapse_runs(text: str) -> str:
    """Runs of equal lines as one with a count; nothing where such counts stand already."""
    lines = text.split("\n")
    if _THREE_EQUAL not in bytes(map(eq, lines, lines[1:])) or _counted(text):
        return text
    collapsed: list[str] = []
    for line, run in groupby(lines):
        times = sum(1 for _ in run)
        if times >= MIN_RUN_LINES and len(line.strip()) >= _MIN_LINE_CHARS:
            collapsed.append(f"{line} [{_TIMES}{times}]")
        else:
            collapsed += [line] * times
    return "\n".join(collapsed)
