"""A Messages body as a chat body, for models whose upstream speaks chat completions.

The same body gives the same bytes, and a body with more messages begins with them, so prompt
caches upstream keep hitting. Fields are said in full; what the model at hand does not take of them
is left out afterwards by ``proxy.providers.fitting.substitution``.

Source: Anthropic, Messages API; OpenAI API reference, create chat completion (2026-11).
"""

from typing import Final

import msgspec

from proxy.providers.chat.chat_body import invalid_parameter, is_given, unsupported_parameter
from proxy.providers.messages.body import Json, MessagesBody, read_messages
from proxy.providers.messages.names import caller_tool_names
from proxy.providers.messages.params import (
    answer_format,
    effort,
    end_user,
    sampling,
    service_tier,
    stops,
)
from proxy.providers.messages.server_tools import check_edits
from proxy.providers.messages.settings import AnswerSettings, answer_settings
from proxy.providers.messages.target import ChatTarget
from proxy.providers.messages.tools import tool_fields
from proxy.providers.messages.turns import chat_messages
from proxy.tokens.counter import TokenCounter

_CHAT: Final = "chat/completions"
#: The field that has Anthropic keep the conversation and go on with it.
THREAD: Final = "thread"
#: Facts in the refusal of a thread, at which Anthropic's tool runners send all messages instead.
#: Source: @anthropic-ai/sdk 1.14 and anthropic 2.11, message threads (2026-11).
UNSUPPORTED_THREAD: Final = {
    "details": {"error_code": "thread_unsupported_request", "unsupported": [THREAD]}
}
#: Fields that cannot be left out without changing the answer, and what to do instead.
_REFUSED: Final = {
    THREAD: "Anthropic alone keeps conversations: send all messages with each call.",
    "container": "Code runs at Anthropic alone: offer a tool that runs it yourself.",
    "compaction": "Ask a Claude model for it, or shorten the conversation yourself.",
    "inference_geo": "Where a model runs is set in the gateway's catalog: leave it out.",
}
#: A stream is asked for its usage, which Anthropic's streams always have.
_STREAM_FIELDS: Final = {"stream": True, "stream_options": {"include_usage": True}}
#: Fields that are read elsewhere, or that say nothing here: the gateway reports misses itself.
_UNSAID: Final = frozenset({"diagnostics"})
_KNOWN: Final = frozenset(MessagesBody.__struct_fields__) | _UNSAID


class ChatRequest(msgspec.Struct, frozen=True):
    """A Messages call as a chat call."""

    body: bytes
    notes: tuple[str, ...]
    settings: AnswerSettings


def chat_request(body: bytes, target: ChatTarget) -> ChatRequest:
    """Translate the call to chat.

    Raises:
        CallerError: If it is malformed, or cannot be said without changing its meaning; its
            ``param`` is the caller's own field.
    """
    request, names = read_messages(body)
    notes: list[str] = []
    _refuse_fields(names)
    chat = _prompt_fields(request, target, notes) | {
        "max_completion_tokens": _limit(request, target, notes),
        **(_STREAM_FIELDS if request.stream else {}),
        **sampling(request),
        **stops(request, target),
        **effort(request, target, notes),
        **service_tier(request),
        **end_user(request, target),
    }
    check_edits(request, target, notes)
    if unknown := sorted(names - _KNOWN):
        notes.append(f"dropped {', '.join(unknown)}: the model has no such parameter")
    tools = caller_tool_names(tool.name for tool in request.tools or () if tool.name)
    return ChatRequest(
        msgspec.json.encode(chat),
        tuple(dict.fromkeys(notes)),
        answer_settings(request, tools, body, target),
    )


def prompt_tokens(body: bytes, target: ChatTarget, counter: TokenCounter, model: str) -> int:
    """Tokens of a body's prompt by the model's vocabulary, as ``count_tokens`` answers it.

    A long prompt takes long to count: that belongs on a thread.

    Args:
        body: The body of a ``count_tokens`` call, which needs no ``max_tokens``.
        counter: Counts with the vocabularies; one thread at a time may use it.
        model: The upstream's name of the model.
    """
    request, names = read_messages(body)
    _refuse_fields(names)
    chat = msgspec.json.encode(_prompt_fields(request, target, []))
    return counter.prompt_tokens(chat, _CHAT, model)


def _prompt_fields(request: MessagesBody, target: ChatTarget, notes: list[str]) -> Json:
    """The fields that the model reads, in a fixed order."""
    fields: Json = {"model": request.model, "messages": chat_messages(request, target, notes)}
    fields |= tool_fields(request, target, notes) | answer_format(request, target, notes)
    if target.takes_marks and is_given(request.cache_control):
        fields["cache_control"] = request.cache_control
    return fields


def _refuse_fields(names: frozenset[str]) -> None:
    for name, fix in _REFUSED.items():
        if name in names:
            sentence = f"`{name}` is not supported for this model. {fix}"
            error = unsupported_parameter(name, sentence)
            error.details = UNSUPPORTED_THREAD if name == THREAD else {}
            raise error


def _limit(request: MessagesBody, target: ChatTarget, notes: list[str]) -> int:
    """The most output tokens."""
    most = request.max_tokens
    if most is None:
        raise invalid_parameter(
            "max_tokens", "`max_tokens` is missing: send the most tokens the answer may have."
        )
    if most < 1:
        raise invalid_parameter(
            "max_tokens", "`max_tokens` must be at least 1: this model warms no prompts."
        )
    if target.max_output is not None and most > target.max_output:
        notes.append(f"lowered max_tokens to {target.max_output}: the model's most")
        return target.max_output
    return most
