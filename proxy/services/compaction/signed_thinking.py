"""Detects calls whose answers may hold signed thinking, which rules compaction out; pure.

A signature is valid only after the prompt that the model saw. If the same history is later sent
otherwise, or unmodified after it was sent compacted, the provider refuses the call. So such a
conversation is not compacted from its first call on; its feature compacts natively, or not at all.

Source: Anthropic, preserved thinking (2026-11).
"""

from typing import Final

import msgspec

from proxy.catalog.entries import Route

_DISABLED: Final = "disabled"
_NONE: Final = "none"


class _Thinking(msgspec.Struct):
    type: str = ""


class _ThinkingRequest(msgspec.Struct):
    reasoning_effort: str | None = None
    thinking: _Thinking | None = None


_asked = msgspec.json.Decoder(_ThinkingRequest).decode


def may_sign_thinking(body: bytes, route: Route) -> bool:
    """True if the answer may hold signed thinking; a body that cannot be read may ask for it."""
    if not route.upstream.speaks_messages:
        return False
    if "always_thinking" in route.traits:
        return True
    try:
        fields = _asked(body)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return True
    if fields.thinking is not None:
        return fields.thinking.type != _DISABLED
    return fields.reasoning_effort not in {None, _NONE}
