"""The few words of a prompt that may stand in an explanation, where its team keeps prompts."""

from typing import Final

import msgspec

from proxy.prefix.prediction.changes import ChangeKind, PromptChange
from proxy.prefix.prediction.sent import SentCall, leading_text, split_lines
from proxy.prefix.prompts.objects import Unplannable
from proxy.prefix.prompts.prompt import Prompt

_SHOWN: Final = 40


def excerpt(sent: SentCall, at: PromptChange, shown: Prompt | None) -> str:
    """The beginning of the line that changed, or a tool's name; "" where none may be shown."""
    if shown is None or at.block is None or at.how is ChangeKind.REMOVED:
        return ""
    block = sent.blocks[at.block]
    try:
        if block.message < 0:
            return _clean(_tool(shown.tools[block.part]).named)
        return (
            _clean(split_lines(leading_text(shown, block))[at.line]) if at.line is not None else ""
        )
    except (IndexError, Unplannable, msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return ""


def _clean(words: str) -> str:
    """Words that fit a line and do nothing to a terminal."""
    kept = "".join(each if each.isprintable() else " " for each in words[: _SHOWN + 1]).strip()
    return kept if len(words) <= _SHOWN + 1 else f"{kept}…"


class _Function(msgspec.Struct):
    name: str = ""


class _Tool(msgspec.Struct):
    name: str = ""
    function: _Function | None = None

    @property
    def named(self) -> str:
        return self.function.name if self.function is not None else self.name


_tool = msgspec.json.Decoder(_Tool).decode
