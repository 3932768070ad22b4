"""Models whose thinking is signed together with all that stood before it; pure.

A signature holds for the prompt that the model saw. Once the same history goes out otherwise, or
unmodified after it had gone out compacted, the provider refuses the call. So where an answer may
hold such thinking, nothing is compacted from the first call on: such features compact natively or
not.

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
        asked = _asked(body)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return True
    if asked.thinking is not None:
        return asked.thinking.type != _DISABLED
    return asked.reasoning_effort not in {None, _NONE}
