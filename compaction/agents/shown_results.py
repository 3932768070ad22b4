"""Head and tail of a long result, for the calls after the one that showed it whole.

A search, a listing or a log has done its work once the model has seen it, and can be had again. A
file, a patch or other code is worked with over many calls: it stays.
"""

import re
from collections.abc import Sequence
from typing import Final

from compaction.agents.file_operations import FileEffect, file_operations
from compaction.reading.message import CalledTool, ParsedMessage
from compaction.results.rereadable_results import fault_lines
from compaction.results.result_profile import is_rereadable
from compaction.results.result_trimming import replace_text

#: Minimum tokens of a result that is cut.
MIN_SHOWN_TOKENS: Final = 400
#: Characters that stay, as a share of a result's; at least, and at most. A cut pays at once where
#: less stays than reading costs of writing, 4 to 8 %.
_KEPT_SHARE: Final = 0.06
_MIN_KEPT_CHARS: Final = 160
_MAX_KEPT_CHARS: Final = 2_000
#: Lines by which a text is taken for code, and the minimum share of them.
_MAX_SCANNED_LINES: Final = 200
_MIN_CODE_SHARE: Final = 0.3
_DONE_WITH: Final = frozenset({FileEffect.SEARCHED, FileEffect.RUN, FileEffect.TESTED})

#: A hit of a search, and a line of code, numbered or not.
_hit = re.compile(r"\s*[-\w./~+@]+:\d+[:\s]").match
_code = re.compile(
    r"\s*+(?:\d{1,6}[ \t]*[:|→\t]\s*+)?"
    r"(?:(?:def|class|return|if|elif|else|for|while|try|except|import|from|function|const|let|var"
    r"|public|private|static|struct|fn|func|@\w+|#include|//|/\*)\b|[^\s].*[;{}]\s*$|[})\]]+[,;]?\s*$)"
).match


def shown_result(message: ParsedMessage, call: CalledTool | None) -> bytes | None:
    """The message with head and tail of its text; None for what stays whole."""
    text = message.text
    if message.tokens < MIN_SHOWN_TOKENS or message.signed or not message.whole:
        return None
    if not is_rereadable(text, call) or (call is not None and _is_worked_with(call)):
        return None
    if _is_code(text):
        return None
    raw = replace_text(message, _head_and_tail(text))
    return None if raw is message.raw else raw


def _is_worked_with(call: CalledTool) -> bool:
    """True if a call shows a file that later calls work with, or changes one."""
    return any(operation.effect not in _DONE_WITH for operation in file_operations(call))


def _is_code(text: str) -> bool:
    lines = [line for line in text.split("\n", _MAX_SCANNED_LINES)[:_MAX_SCANNED_LINES] if line]
    telling = sum(1 for line in lines if not _hit(line) and _code(line))
    return telling > _MIN_CODE_SHARE * len(lines)


def _head_and_tail(text: str) -> str:
    """The first and the last lines of a text, and the errors between them."""
    room = min(max(int(len(text) * _KEPT_SHARE), _MIN_KEPT_CHARS), _MAX_KEPT_CHARS)
    lines = text.split("\n")
    head = _lines_within(lines, room // 2)
    tail = _lines_within(lines[len(head) :][::-1], room // 2)[::-1]
    between = lines[len(head) : len(lines) - len(tail)]
    errors = fault_lines("\n".join(between), is_failure=False)
    note = f"[… {len(between)} lines shown before"
    note = f"{note}; with {errors}]" if errors else f"{note}]"
    return "\n".join([*head, note, *tail])


def _lines_within(lines: Sequence[str], room: int) -> list[str]:
    """The first lines that have room."""
    first_lines = []
    for line in lines:
        room -= len(line) + 1
        if room < 0:
            break
        first_lines.append(line)
    return first_lines
