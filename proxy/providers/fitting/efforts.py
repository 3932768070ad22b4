"""Thinking and its efforts, as models take them; pure.

DeepSeek's models think unless they are told not to, and want their reasoning back with calls of
tools. Callers that ask for no thinking do not send it, and another model's calls came without any.
Such a conversation is refused once it holds a call, so thinking is disabled for it.

Source: OpenAI API reference, ``reasoning_effort``; DeepSeek, thinking mode, tool calls (2026-11).
"""

from collections.abc import Mapping
from typing import Final

import msgspec

from proxy.providers.chat.chat_body import Fields
from proxy.providers.lenient import decode_or

#: Efforts, from the least to the most, with the trait that each needs.
_EFFORTS: Final[Mapping[str, str]] = {
    "none": "effort_none",
    "minimal": "effort_minimal",
    "low": "effort",
    "medium": "effort",
    "high": "effort",
    "xhigh": "effort_xhigh",
    "max": "effort_max",
}
#: The most thinking tokens of an effort, for callers that asked for a number of them.
_EFFORT_BUDGETS: Final = ((2_048, "low"), (8_192, "medium"))
_DISABLED: Final = msgspec.Raw(b'{"type":"disabled"}')
_NONE: Final = frozenset({b"null", b'"none"'})
_NULL: Final = msgspec.Raw(b"null")
#: Note of the change.
THINKING_DISABLED: Final = (
    "sent thinking disabled: the model wants reasoning back that this conversation does not hold"
)


class _Message(msgspec.Struct):
    role: str = ""
    tool_calls: list[msgspec.Raw] | None = None
    reasoning_content: str | None = None


_messages: Final = msgspec.json.Decoder(list[_Message]).decode


def effort_for_budget(budget_tokens: int) -> str:
    """The effort of a caller that asked for a number of thinking tokens."""
    return next((name for most, name in _EFFORT_BUDGETS if budget_tokens <= most), "high")


def takes_effort(traits: frozenset[str]) -> bool:
    """True if a model with these traits takes an effort of any kind."""
    return not traits.isdisjoint(_EFFORTS.values())


def nearest_effort(effort: str, traits: frozenset[str]) -> str:
    """The nearest effort that the model takes, the lower of two; an unknown one as it is."""
    accepted = [name for name, trait in _EFFORTS.items() if trait in traits]
    if effort in accepted or effort not in _EFFORTS:
        return effort
    order = list(_EFFORTS)
    return min(accepted, key=lambda name: abs(order.index(name) - order.index(effort)))


def disable_unasked_thinking(fields: Fields) -> bool:
    """Disable thinking in a chat body unless it is asked for and can go on; True if that is done.

    Args:
        fields: Fields of the body, thinking said as ``reasoning_effort``; changed in place.
    """
    effort = bytes(fields.get("reasoning_effort", _NULL))
    if effort not in _NONE and _holds_all_reasoning(fields.get("messages", _NULL)):
        return False
    fields.pop("reasoning_effort", None)
    fields["thinking"] = _DISABLED
    return True


def _holds_all_reasoning(messages: msgspec.Raw) -> bool:
    """True if each call of tools in the conversation has its reasoning."""
    history = decode_or(_messages, messages, None)
    return history is not None and all(
        message.reasoning_content for message in history if message.tool_calls
    )
