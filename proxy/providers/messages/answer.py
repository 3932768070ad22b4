"""The message object that a chat answer becomes: frame, usage, why it stopped.

Source: Anthropic, Messages API, the message object, usage, stop reasons; OpenAI API reference, Chat
Completions; vLLM, OpenAI-compatible server, ``stop_reason`` (2026-11).
"""

from collections.abc import Mapping
from typing import Any, Final

from proxy.providers.answers.usage import believable_usage
from proxy.providers.messages.body import Json

#: Stop reasons by chat's ``finish_reason``; any other ends the turn.
_STOP_REASONS: Final = {
    "stop": "end_turn",
    "length": "max_tokens",
    "tool_calls": "tool_use",
    "function_call": "tool_use",
    "content_filter": "refusal",
}
_TIERS: Final = {"default": "standard", "priority": "priority"}


def final_delta(finish: str | None, stop: str | None, *, calls: bool, refused: bool) -> Json:
    """Stop reason and sequence, as ``message_delta`` has them.

    Args:
        finish: Chat's reason.
        stop: The stop sequence that ended it; None where it is unknown or was none.
        calls: True if tools are called, which some upstreams do not give as the reason.
        refused: True if the model refused in words of its own.
    """
    reason = _STOP_REASONS.get(finish or "", "end_turn")
    if reason == "end_turn" and (calls or refused):
        reason = "tool_use" if calls else "refusal"
    if reason != "end_turn" or stop is None:
        return {"stop_reason": reason, "stop_sequence": None}
    return {"stop_reason": "stop_sequence", "stop_sequence": stop}


def opening_message(name: str, model: str, prompt_tokens: int = 0) -> Json:
    """The message before anything is said, with estimated usage, as chat counts at the end."""
    return {
        "id": name,
        "type": "message",
        "role": "assistant",
        "model": model,
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": messages_counts({}) | {"input_tokens": prompt_tokens},
    }


def messages_counts(reported: Mapping[str, Any], tier: str | None = None) -> Json:
    """Chat's usage object as Anthropic's, whose input excludes what a cache read or stored.

    OpenAI's 30 minutes are counted with the shorter lifetime, its 12 hours with the longer.
    """
    usage = believable_usage(reported)
    if usage is None:
        return {
            "input_tokens": 0,
            "cache_creation_input_tokens": 0,
            "cache_read_input_tokens": 0,
            "output_tokens": 0,
        }
    short, long = usage.write_5m + usage.write_30m, usage.write_1h + usage.write_12h
    counts: Json = {
        "input_tokens": usage.input,
        "cache_creation_input_tokens": short + long,
        "cache_read_input_tokens": usage.cache_read,
        "output_tokens": usage.generated_tokens,
    }
    if short + long:
        counts["cache_creation"] = {
            "ephemeral_5m_input_tokens": short,
            "ephemeral_1h_input_tokens": long,
        }
    if usage.reasoning:
        counts["output_tokens_details"] = {"thinking_tokens": usage.reasoning}
    if tier in _TIERS:
        counts["service_tier"] = _TIERS[tier]
    return counts
