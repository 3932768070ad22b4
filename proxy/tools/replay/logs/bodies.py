"""The body of a recorded request as one that can be replayed: of chat, or of Anthropic's API."""

from typing import Any, Final, NamedTuple

import orjson

from proxy.errors import CallerError, OperatorError
from proxy.providers.responses.request import chat_body
from proxy.tools.replay.logs.fields import Json, decode, objects, tool_call

#: Fields of a request; others that stand beside the messages are the log's own.
_REQUEST_FIELDS: Final = frozenset(
    {
        "model", "messages", "input", "instructions", "system", "tools", "tool_choice", "functions",
        "function_call", "response_format", "max_tokens", "max_completion_tokens", "thinking",
        "max_output_tokens", "reasoning", "reasoning_effort", "text", "cache_control",
        "prompt_cache_key", "prompt_cache_retention", "previous_response_id", "stream",
        "temperature", "seed", "top_p", "stop",
    }
)  # fmt: skip
#: Fields by which a call asks for an answer that repeats.
REPEATING_FIELDS: Final = ("temperature", "seed")
#: Types of content that only Anthropic's API has.
_MESSAGES_TYPES: Final = frozenset({"tool_use", "tool_result", "thinking", "document"})
#: Types of items, by their end, and of content that only the Responses API has.
_ITEM_TYPES: Final = ("_call", "_call_output", "reasoning")
_ITEM_PARTS: Final = frozenset({"input_text", "output_text"})
#: Fields of which a request with ``input`` has one.
_REQUIRED: Final = frozenset({"model", "tools", "instructions"})
#: Fields of logs beside which ``input`` is no field of a request.
_LOG_FIELDS: Final = frozenset(
    {"traceId", "trace_id", "startTime", "start_time", "output", "spans"}
)
_OTHER_APIS: Final = (
    ("embeddings", "it is a call for embeddings, which are not cached"),
    ("contents", "it is a call of Gemini's API: replay reads chat, Responses and Messages calls"),
    ("prompt", "it is a call of the old completions API"),
)
_WORDS: Final = 200


class RequestBody(NamedTuple):
    """A request as it is replayed."""

    body: bytes
    is_native: bool = False


def is_request(value: Any) -> bool:  # noqa: ANN401 - JSON
    """True if the value is the body of a model call, or a list of messages or of items."""
    if isinstance(value, list):
        return bool(value) and all(
            isinstance(item, dict) and ("role" in item or is_item(item)) for item in value
        )
    if not isinstance(value, dict):
        return False
    messages = value.get("messages")
    if _is_list(messages):
        return True
    if isinstance(messages, str) and str(value.get("call_type")).endswith("responses"):
        return bool(messages) and not messages.startswith("{")  # LiteLLM
    is_body = not _REQUIRED.isdisjoint(value) and _LOG_FIELDS.isdisjoint(value)
    return bool(value.get("input")) and is_body


def request_fields(value: Any, beside: Json) -> Json:  # noqa: ANN401 - JSON
    """The fields of a request, its tools and settings taken from beside it where it has none.

    Args:
        value: A body, or a list of messages.
    """
    body = {"messages": value} if isinstance(value, list) else dict(value)
    body = {name: field for name, field in body.items() if name in _REQUEST_FIELDS}
    messages = body["messages"] = decode(body.get("messages"))
    tools = decode(beside.get("tools"))
    if isinstance(messages, list):
        described = [m["content"] for m in objects(messages) if _is_tool(m)]  # LangChain's
        tools = tools or described
        body["messages"] = [m for m in messages if not (isinstance(m, dict) and _is_tool(m))]
        if beside.get("instructions") or any(map(is_item, messages)):
            body["input"] = body.pop("messages")
            body.setdefault("instructions", beside.get("instructions"))
    if "tools" not in body and isinstance(tools, list) and tools:
        body["tools"] = tools
    body = {name: beside[name] for name in REPEATING_FIELDS if name in beside} | body
    return {name: field for name, field in body.items() if field is not None}


def request_body(body: Json, url: str, *, is_messages: bool = False) -> RequestBody:
    """The request to replay.

    Raises:
        OperatorError: If it is no call that can be replayed.
    """
    address = url.partition("?")[0]
    if address.endswith(("embeddings", "embedding")) or "embedding" in str(body.get("model")):
        raise OperatorError(_OTHER_APIS[0][1])
    if "messages" not in body or address.endswith("responses"):
        return _responses_body(body)
    messages = body["messages"]
    if not isinstance(messages, list) or not messages:
        raise OperatorError("its body has no messages")
    if not all(isinstance(message, dict) for message in messages):
        raise OperatorError("its body has a message that is no object")
    if address.endswith("messages") or is_messages or _is_messages_body(body):
        return RequestBody(orjson.dumps(body), is_native=True)
    for message in messages:
        write_out_short_calls(message)
    return RequestBody(orjson.dumps(body))


def other_api_reason(document: Json) -> str:
    """Reason that a document without messages is not replayed; "" where it names no other API."""
    return next((reason for field, reason in _OTHER_APIS if document.get(field)), "")


def write_out_short_calls(message: Any) -> None:  # noqa: ANN401 - JSON
    """Write out tool calls in short, ``{"function": name, "args": {…}}``, as APIs take them.

    AgentDojo's logs are so written; LangChain's have ``{"name": name, "args": {…}}``.
    """
    calls = message.get("tool_calls") if isinstance(message, dict) else None
    if not isinstance(calls, list):
        return
    for number, call in enumerate(calls):
        name = call.get("function", call.get("name")) if isinstance(call, dict) else None
        if isinstance(name, str) and "args" in call:
            calls[number] = tool_call(call.get("id"), name, call["args"])


def _responses_body(body: Json) -> RequestBody:
    body = {"input": body.get("messages"), **body}
    body.pop("messages", None)
    try:
        return RequestBody(chat_body(orjson.dumps({"store": False, **body})).body)
    except CallerError as error:
        raise OperatorError(str(error)[:_WORDS]) from None


def _is_messages_body(body: Json) -> bool:
    """True if a body is of Anthropic's API by its fields."""
    parts = (
        part for message in objects(body["messages"]) for part in objects(message.get("content"))
    )
    return (
        "system" in body
        or any("input_schema" in tool for tool in objects(body.get("tools")))
        or any(part.get("type") in _MESSAGES_TYPES for part in parts)
    )


def is_item(item: Any) -> bool:  # noqa: ANN401 - JSON
    """True for an item that only the Responses API has."""
    if not isinstance(item, dict):
        return False
    is_typed = str(item.get("type")).endswith(_ITEM_TYPES) and "role" not in item
    return is_typed or any(p.get("type") in _ITEM_PARTS for p in objects(item.get("content")))


def _is_tool(message: Json) -> bool:
    return message.get("role") == "tool" and isinstance(message.get("content"), dict)


def _is_list(value: Any) -> bool:  # noqa: ANN401 - JSON
    value = decode(value)
    return isinstance(value, list) and bool(value)
