"""The recall tool of mode ``facts+recall`` as the prompt has it, and the index of a segment; pure.

::

    segment ─ its index: turns that are shortened, and how to ask for them
    model ── thriftgate_recall(id | query) ──▶ removed messages, or passages with words
"""

from collections.abc import Sequence
from typing import Any, Final

import orjson

from compaction.reading.message import Count
from compaction.reading.turns import MessageUnit

#: Rounds of a call in which the tool is answered, and tokens of all its answers together.
MAX_ROUNDS: Final = 3
MAX_RECALL_TOKENS: Final = 8_000

TOOL_NAME: Final = "thriftgate_recall"
TOOL_DESCRIPTION: Final = (
    "Returns earlier messages of this conversation that are shortened in the record. Use it"
    " only for what the record lacks: by `id`, a turn's number there, or by `query`, a few"
    " words that the message holds."
)
TOOL_SCHEMA: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {"id": {"type": "string"}, "query": {"type": "string"}},
}
_FUNCTION: Final = {
    "name": TOOL_NAME,
    "description": TOOL_DESCRIPTION,
    "parameters": TOOL_SCHEMA,
}
TOOL: Final = orjson.dumps({"type": "function", "function": _FUNCTION})
"""The tool as a chat body has it."""
_INDEX: Final = (
    "\n[Turns {turns} are shortened above. If an answer needs what is missing, call"
    f' {TOOL_NAME}: id "{{first}}" returns turn {{first}} whole, query passages with some words.]'
)
_AGAIN: Final = f"\n[Turns {{turns}} are shortened above, too: see {TOOL_NAME}.]"


def index_text(part: int, units: Sequence[MessageUnit]) -> str:
    """The index of a segment: the turns that can be recalled.

    Args:
        part: Number of the segment, from 1.
        units: The messages that it stands for.
    """
    first, last = max(units[0].turn, 1), max(units[-1].turn, 1)
    span = f"{first}-{last}" if last > first else str(first)
    return _INDEX.format(turns=span, first=first) if part == 1 else _AGAIN.format(turns=span)


def index_tokens(index: str, part: int, count: Count) -> int:
    """Tokens that the index of a part adds to a prompt; the first one brings the tool."""
    if not index:
        return 0
    return count(index) + (count(TOOL.decode()) if part == 1 else 0)
