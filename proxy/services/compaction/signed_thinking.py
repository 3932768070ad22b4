"""The rules of a route about signed thinking, as part of a compaction policy; pure.

=====================================  =========================================================
route                                  rule
=====================================  =========================================================
Claude before 5.5, Gemini, OpenAI      closed turns may go with their thinking; the turn under way
                                       stays as it is
Claude with the trait                  thinking is refused once anything before it has changed
``bound_thinking``                     (Opus, Sonnet and Haiku 5.5; Fable and Mythos from 5.1 on)
others                                 unknown: nothing before signed content changes
=====================================  =========================================================

Source: Anthropic, preserved thinking, and what is new in Haiku 5.5; Google, thought signatures;
OpenAI, reasoning items (all 2026-11).
"""

from typing import Final

import msgspec

from compaction.policy import CompactionPolicy
from proxy.catalog.entries import Route

_DISABLED: Final = "disabled"
_NONE: Final = "none"


class _Thinking(msgspec.Struct):
    type: str = ""


class _ThinkingRequest(msgspec.Struct):
    reasoning_effort: str | None = None
    thinking: _Thinking | None = None


_asked = msgspec.json.Decoder(_ThinkingRequest).decode


def with_thinking_rules(policy: CompactionPolicy, body: bytes, route: Route) -> CompactionPolicy:
    """The policy with what a route's provider says about signed thinking.

    Args:
        body: The call's, or as much of it as asks for thinking.
    """
    is_bound = route.upstream.speaks_messages and "bound_thinking" in route.traits
    return msgspec.structs.replace(
        policy,
        drops_signed=not is_bound and _frees_closed_turns(route),
        thinks=is_bound and _may_think(body, route),
    )


def _frees_closed_turns(route: Route) -> bool:
    """True if the provider checks signed content in the turn under way alone."""
    upstream = route.upstream
    is_openai = upstream.kind == "openai" and upstream.provider == "openai"
    return upstream.speaks_messages or upstream.kind == "gemini" or is_openai


def _may_think(body: bytes, route: Route) -> bool:
    """True if the answer may hold thinking; such models think unless told not to."""
    if "always_thinking" in route.traits:
        return True
    fields = _thinking_request(body)
    if fields is None:
        return True
    if fields.thinking is not None:
        return fields.thinking.type != _DISABLED
    return fields.reasoning_effort != _NONE


def _thinking_request(body: bytes) -> _ThinkingRequest | None:
    """The fields that ask for thinking; None where they cannot be read."""
    try:
        return _asked(body)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return None
