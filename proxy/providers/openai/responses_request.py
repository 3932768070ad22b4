"""A chat call as a Responses call, for models that take it so alone.

What only steers an answer and the Responses API lacks is left out with a note. Nothing is kept at
OpenAI unless the caller asked for it: reasoning comes back encrypted, and the caller holds it.

Source: OpenAI API reference, create a response; OpenAI, migrate to the Responses API, reasoning
models (2026-11).
"""

from typing import Any, Final, Literal

import msgspec

from proxy.catalog.entries import Route
from proxy.providers.chat.chat_answer import chat_reply
from proxy.providers.chat.chat_body import ChatBody, Fields, decode_typed
from proxy.providers.fitting.chat_forms import goes_by_responses
from proxy.providers.lenient import UNREADABLE
from proxy.providers.openai.responses_answer import ResponsesReply, WholeResponse
from proxy.providers.openai.responses_input import input_items
from proxy.providers.openai.responses_stream import ResponsesChunks
from proxy.providers.openai.responses_tools import (
    responses_choice,
    responses_format,
    responses_tool,
)
from proxy.providers.port import PreparedRequest, Reader
from proxy.records.call import Call

Json = dict[str, Any]
#: Fate of encrypted reasoning: not the caller's to keep; sealed in answers and sent back; or
#: sealed, but not sent back, for the upstream could not read it.
ReasoningUse = Literal["", "sealed", "unread"]

_CHAT: Final = "chat/completions"
_PATH: Final = "/responses"
_NOTE: Final = "sent by the Responses API: in chat completions the model takes no such call"
_UNREAD: Final = "left out the reasoning of earlier answers: the upstream could not decrypt it"
#: Fields that both APIs have by one name.
_SHARED: Final = (
    "model", "stream", "temperature", "top_p", "parallel_tool_calls", "service_tier", "metadata",
    "user", "safety_identifier", "prompt_cache_key", "prompt_cache_retention",
    "prompt_cache_options",
)  # fmt: skip
#: Fields that are said in other words, or that say nothing beside them.
_SAID: Final = frozenset(
    {
        "messages", "tools", "tool_choice", "max_tokens", "max_completion_tokens", "store",
        "reasoning_effort", "verbosity", "response_format", "stream_options", "functions",
        "function_call", "n", "stop", "logprobs", "top_logprobs", "modalities", "audio",
        "web_search_options",
    }
)  # fmt: skip
#: Source: OpenAI API reference, ``max_output_tokens`` (2026-11).
_MIN_OUTPUT_TOKENS: Final = 16
_ENCRYPTED: Final = ["reasoning.encrypted_content"]
_fields: Final = msgspec.json.Decoder(Fields).decode


class _Body(ChatBody, kw_only=True):
    store: bool | None = None
    verbosity: str | None = None


_body: Final = msgspec.json.Decoder(_Body)


def send_by_responses(
    prepared: PreparedRequest, call: Call, route: Route, *, reasoning: ReasoningUse
) -> PreparedRequest:
    """The request by the Responses API, where the model takes a translated chat call only so.

    Args:
        prepared: The chat request, in the fields that the route's model takes.
    """
    path, mark, query = prepared.path.partition("?")
    if route.upstream.kind != "openai" or path != f"/{_CHAT}":
        return prepared
    try:
        fields = _fields(prepared.body)
    except UNREADABLE:
        return prepared
    if not goes_by_responses(fields, route):
        return prepared
    notes = [_NOTE]
    maker = f"{route.upstream.name}/{route.model or call.model}"
    if reasoning == "unread":
        notes.append(_UNREAD)
    body = _responses_body(prepared.body, fields, "" if reasoning == "unread" else maker, notes)
    return msgspec.structs.replace(
        prepared,
        path=f"{_PATH}{mark}{query}",
        body=body,
        reader=_reader(call, maker if reasoning else ""),
        notes=(*prepared.notes, *notes),
    )


def _reader(call: Call, maker: str) -> Reader:
    facts = msgspec.structs.asdict(chat_reply(call))
    reply = ResponsesReply(**facts, maker=maker)
    return ResponsesChunks(reply) if call.is_streaming else WholeResponse(reply)


def _responses_body(body: bytes, fields: Fields, maker: str, notes: list[str]) -> bytes:
    """The Responses body, fields in a fixed order."""
    request, names = decode_typed(_body, body)
    if dropped := sorted(names - _SAID - frozenset(_SHARED)):
        notes.append(f"dropped {', '.join(dropped)}: the Responses API has no such parameter")
    written: Json = {name: fields[name] for name in _SHARED if name in names}
    written["input"] = input_items(request.messages, maker)
    if request.tools:
        written["tools"] = [
            responses_tool(tool, f"tools[{n}]") for n, tool in enumerate(request.tools)
        ]
    if request.tool_choice is not None:
        written["tool_choice"] = responses_choice(request.tool_choice)
    written |= _limit(request, notes)
    if request.reasoning_effort is not None:
        written["reasoning"] = {"effort": request.reasoning_effort}
    if text := _text(request):
        written["text"] = text
    return msgspec.json.encode(written | {"store": bool(request.store), "include": _ENCRYPTED})


def _limit(request: _Body, notes: list[str]) -> Json:
    limits = (request.max_completion_tokens, request.max_tokens)
    most = next((limit for limit in limits if limit is not None), None)
    if most is None:
        return {}
    if most < _MIN_OUTPUT_TOKENS:
        notes.append(f"raised the output limit to {_MIN_OUTPUT_TOKENS}: the Responses API's least")
    return {"max_output_tokens": max(most, _MIN_OUTPUT_TOKENS)}


def _text(request: _Body) -> Json:
    """Form and length of the answer."""
    text: Json = {}
    if request.response_format is not None:
        text["format"] = responses_format(request.response_format)
    return text if request.verbosity is None else text | {"verbosity": request.verbosity}
