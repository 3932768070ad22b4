"""Cache markers of the caller, kept through the translation.

Source: Anthropic, prompt caching, and OpenAI, prompt caching (both 2026-09).
"""

from collections.abc import Sequence
from typing import Any, Final

import msgspec
from msgspec import Raw

from proxy.providers.chat.chat_body import CacheMarkable, invalid_parameter, is_given
from proxy.providers.lenient import UNREADABLE

Block = dict[str, Any]

#: Anthropic accepts at most this many breakpoints in one request.
MAX_MARKERS: Final = 4


def with_marker(block: Block, *carriers: CacheMarkable) -> Block:
    """The block with the marker of the first carrier that has one.

    ``cache_control`` is sent on byte for byte, so its TTL survives.
    """
    for carrier in carriers:
        if is_given(carrier.cache_control):
            block["cache_control"] = carrier.cache_control
            return block
        if is_given(carrier.prompt_cache_breakpoint):
            block["cache_control"] = _translate_mark(carrier.prompt_cache_breakpoint)
            return block
    return block


def mark_last_block(blocks: list[Block], message: CacheMarkable) -> list[Block]:
    """The blocks, the last of them with the message's own marker unless it has one."""
    if blocks and "cache_control" not in blocks[-1]:
        with_marker(blocks[-1], message)
    return blocks


def limit_markers(blocks: Sequence[Block], notes: list[str], *, automatic: bool) -> None:
    """Take surplus markers off the blocks, given in wire order: tools, system, messages.

    Counted after translation, where one message may have become several blocks. The first marker
    stays, because it usually ends what other conversations share; then the latest, because the
    next call of this conversation looks for those.

    Args:
        automatic: True if a top-level marker uses one slot.
    """
    carrying = [block for block in blocks if "cache_control" in block]
    surplus = len(carrying) - (MAX_MARKERS - automatic)
    if surplus <= 0:
        return
    for block in carrying[1 : 1 + surplus]:
        del block["cache_control"]
    notes.append(f"dropped {surplus} cache markers: this model takes at most {MAX_MARKERS}")


class _Breakpoint(msgspec.Struct):
    ttl: str | None = None


_breakpoint = msgspec.json.Decoder(_Breakpoint).decode


def _translate_mark(mark: Raw) -> dict[str, str]:
    """The marker at the same price: 30m costs 1.25 of input as 5m does, 12h more than 1h does.

    So a caller never pays more for a write than it asked to.
    """
    try:
        is_long = _breakpoint(mark).ttl == "12h"
    except UNREADABLE:
        raise invalid_parameter(
            "prompt_cache_breakpoint",
            "prompt_cache_breakpoint must be an object, its ttl a string.",
        ) from None
    return {"type": "ephemeral", "ttl": "1h"} if is_long else {"type": "ephemeral"}
