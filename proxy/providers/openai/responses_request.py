"""A chat call as a Responses call, for models that take it so alone.

What only steers an answer and the Responses API lacks is left out with a note. Nothing is kept at
OpenAI unless the caller asked for it: reasoning comes back encrypted, and the caller holds it.

Source: OpenAI API reference, create a chat completion, create a response; OpenAI, migrate to the
Responses API, reasoning models (2026-11).
"""

from typing import Any, Final, Literal

import msgspec
from msgspec import Raw

from proxy.catalog.entries import Route
from proxy.providers.chat.chat_answer import chat_reply
from proxy.providers.chat.chat_body import (
    ChatBody,
    Fields,
    ResponseFormat,
    TextFormat,
    ToolChoice,
    ToolDefinition,
    decode_typed,
    invalid_parameter,
    unsupported_parameter,
)
from proxy.providers.fitting.chat_forms import goes_by_responses
from proxy.providers.lenient import UNREADABLE
from proxy.providers.openai.responses_answer import ResponsesReply, WholeResponse
from proxy.providers.openai.responses_input import input_items
from proxy.providers.openai.responses_stream import ResponsesChunks
from proxy.providers.port import PreparedRequest, Reader
from proxy.records.call import Call

Json = dict[str, Any]

_KINDS: Final = frozenset({"function", "custom"})
_PLAIN_FORMS: Final = frozenset({"text", "json_object"})
_NO_PARAMETERS: Final = frozenset({b"", b"null", b"{}"})
_OPEN_SCHEMA: Final = Raw(b'{"type":"object","properties":{}}')


def responses_tool(tool: ToolDefinition, path: str) -> Json:
    """A tool without the object around its function; not strict unless it was, as in chat."""
    _check_kind(tool.type, f"{path}.type")
    inner = tool.function if tool.type == "function" else tool.custom
    if inner is None:
        raise invalid_parameter(path, f"`{path}` has no `{tool.type}`: add it.")
    flat: Json = {"type": tool.type, "name": inner.name}
    if inner.description is not None:
        flat["description"] = inner.description
    if tool.type == "custom":
        return flat if inner.format is None else flat | {"format": _text_format(inner.format)}
    has_schema = bytes(inner.parameters) not in _NO_PARAMETERS
    schema = inner.parameters if has_schema else _OPEN_SCHEMA
    return flat | {"parameters": schema, "strict": bool(inner.strict)}


def responses_choice(choice: str | ToolChoice) -> str | Json:
    """The choice without the object around its name."""
    if isinstance(choice, str):
        return choice
    if choice.type != "allowed_tools":
        return _named_tool(choice, "tool_choice")
    if choice.allowed_tools is None:
        raise invalid_parameter("tool_choice", "`tool_choice` has no `allowed_tools`: add it.")
    allowed = choice.allowed_tools
    tools = [
        _named_tool(tool, f"tool_choice.allowed_tools.tools[{n}]")
        for n, tool in enumerate(allowed.tools)
    ]
    return {"type": choice.type, "mode": allowed.mode, "tools": tools}


def responses_format(form: ResponseFormat) -> Json:
    """The answer's form without the object around its schema."""
    if form.type in _PLAIN_FORMS:
        return {"type": form.type}
    if form.type != "json_schema" or form.json_schema is None:
        raise invalid_parameter(
            "response_format", "`response_format` must be text, json_object, or a json_schema."
        )
    schema = form.json_schema
    members = {name: getattr(schema, name) for name in ("name", "description", "schema", "strict")}
    given = {name: value for name, value in members.items() if value not in (None, Raw())}
    return {"type": form.type, **given}


def _text_format(form: TextFormat) -> Json:
    if form.grammar is None:
        return {"type": form.type}
    grammar = form.grammar
    return {"type": form.type, "syntax": grammar.syntax, "definition": grammar.definition}


def _named_tool(choice: ToolChoice | ToolDefinition, path: str) -> Json:
    _check_kind(choice.type, f"{path}.type")
    inner = choice.function if choice.type == "function" else choice.custom
    if inner is None:
        raise invalid_parameter(path, f"`{path}` has no `{choice.type}`: add it.")
    return {"type": choice.type, "name": inner.name}


def _check_kind(kind: str, path: str) -> None:
    if kind not in _KINDS:
        raise unsupported_parameter(
            path, f"`{path}` {kind!r} is not taken: use function or custom."
        )


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
