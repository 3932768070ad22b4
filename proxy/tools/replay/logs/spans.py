"""Spans and log records of OpenTelemetry's GenAI conventions as flat records.

OTLP JSON as the collector writes it, spans with a plain ``attributes`` object as SDKs print them,
and the older forms: a span event for each message, and numbered attributes (OpenLLMetry).

Source: OpenTelemetry semantic conventions for generative AI, spans and events (2026-11).
"""

import re
from collections.abc import Iterable, Iterator
from typing import Any, Final

import orjson

from proxy.tools.replay.logs.fields import Json, decode

_INPUT: Final = "gen_ai.input.messages"
_SYSTEM: Final = "gen_ai.system_instructions"
_OUTPUT: Final = "gen_ai.output.messages"
_CALLS: Final = frozenset({"chat", "generate_content", "text_completion", "responses", "messages"})
#: The attributes of ``gen_ai.prompt.0.content`` and of the tools beside it.
_NUMBERED: Final = re.compile(r"gen_ai\.(prompt|completion)\.(\d+)\.(role|content)\Z")
#: Span events of conventions before 1.37, and the roles they speak for.
_EVENTS: Final = {
    "gen_ai.system.message": "system",
    "gen_ai.user.message": "user",
    "gen_ai.assistant.message": "assistant",
    "gen_ai.tool.message": "tool",
}
_CHOICE: Final = "gen_ai.choice"
_VALUES: Final = ("stringValue", "intValue", "doubleValue", "boolValue", "bytesValue")


def spans(document: Json) -> list[Json] | None:
    """The model calls of a document of spans or log records as flat records; None for another."""
    if "resourceSpans" in document or "resourceLogs" in document:
        return [record for record in _otlp(document) if _is_call(record)]
    if isinstance(document.get("attributes"), dict | list):
        record = _record(document, "")
        if any(name.startswith("gen_ai.") for name in record):
            return [record] if _is_call(record) else []
    return None


def _otlp(document: Json) -> Iterator[Json]:
    for group in (*_items(document, "resourceSpans"), *_items(document, "resourceLogs")):
        service = _attributes(group.get("resource")).get("service.name", "")
        for scope in (*_items(group, "scopeSpans"), *_items(group, "scopeLogs")):
            for span in (*_items(scope, "spans"), *_items(scope, "logRecords")):
                yield _record(span, str(service))


def _is_call(record: Json) -> bool:
    """True for one call of a model; agents and workflows around it repeat its messages."""
    operation = record.get("gen_ai.operation.name")
    has_model = any(name.startswith("gen_ai.") for name in record)
    return has_model and (operation is None or operation in _CALLS)


def _record(span: Json, service: str) -> Json:
    """One span as a record with the fields that other logs have."""
    events = [(str(event.get("name")), _attributes(event)) for event in _items(span, "events")]
    attributes = _attributes(span)
    for _, more in events:
        attributes |= {name: value for name, value in more.items() if name.startswith("gen_ai.")}
    messages = (
        _conversation(attributes) or _event_messages(events) or _by_number(attributes, "prompt")
    )
    reply = _messages(decode(attributes.get(_OUTPUT))) or _by_number(attributes, "completion")
    reply = reply or [decode(more.get("message")) for name, more in events if name == _CHOICE]
    started = span.get("startTimeUnixNano") or span.get("timeUnixNano") or span.get("start_time")
    status = span.get("status")
    is_failed = isinstance(status, dict) and status.get("code") in (2, "STATUS_CODE_ERROR")
    tools = _tools(decode(attributes.get("gen_ai.tool.definitions")))
    generated = attributes.get("gen_ai.usage.output_tokens")
    return {
        **{name: value for name, value in attributes.items() if name.startswith("gen_ai.")},
        "messages": messages,
        "tools": tools,
        "response": reply[-1] if reply else None,
        "model": attributes.get("gen_ai.request.model") or attributes.get("gen_ai.response.model"),
        "started": started,
        "feature": attributes.get("gen_ai.agent.name") or service,
        "completion_tokens": int(str(generated)) if str(generated).isdigit() else None,
        "status": "failure" if is_failed else "",
    }


def _attributes(holder: Any) -> Json:  # noqa: ANN401 - JSON
    """The attributes of a span, an event or a resource, by name."""
    attributes = holder.get("attributes") if isinstance(holder, dict) else None
    if isinstance(attributes, dict):
        return dict(attributes)
    return {item["key"]: _value(item.get("value")) for item in attributes or () if _has_key(item)}


def _has_key(item: Any) -> bool:  # noqa: ANN401 - JSON
    return isinstance(item, dict) and isinstance(item.get("key"), str)


def _value(value: Any) -> Any:  # noqa: ANN401 - JSON
    """The value of an ``AnyValue``."""
    if not isinstance(value, dict):
        return value
    if isinstance(value.get("arrayValue"), dict):
        return [_value(item) for item in _items(value["arrayValue"], "values")]
    if isinstance(value.get("kvlistValue"), dict):
        pairs = _items(value["kvlistValue"], "values")
        return {item["key"]: _value(item.get("value")) for item in pairs if _has_key(item)}
    return next((value[name] for name in _VALUES if name in value), None)


def _items(holder: Json, name: str) -> list[Json]:
    items = holder.get(name)
    return [item for item in items if isinstance(item, dict)] if isinstance(items, list) else []


def _conversation(attributes: Json) -> list[Json]:
    messages = _messages(decode(attributes.get(_INPUT)))
    parts = decode(attributes.get(_SYSTEM))
    if messages and isinstance(parts, list):
        return [{"role": "system", "content": _parts_text(parts)}, *messages]
    return messages


def _messages(found: Any) -> list[Json]:  # noqa: ANN401 - JSON
    """Chat messages of messages whose content stands in parts."""
    if not isinstance(found, list):
        return []
    return [chat for message in found if isinstance(message, dict) for chat in _chat(message)]


def _chat(message: Json) -> Iterator[Json]:
    parts = message.get("parts")
    if not isinstance(parts, list):
        yield message
        return
    parts = [part for part in parts if isinstance(part, dict)]
    answers = [part for part in parts if part.get("type") == "tool_call_response"]
    for part in answers:
        result = part.get("response", part.get("result"))
        text = result if isinstance(result, str) else orjson.dumps(result).decode()
        yield {"role": "tool", "tool_call_id": part.get("id"), "content": text}
    calls = [_tool_call(part) for part in parts if part.get("type") == "tool_call"]
    if calls or len(answers) < len(parts):
        chat = {"role": message.get("role"), "content": _parts_text(parts)}
        yield chat | ({"tool_calls": calls} if calls else {})


def _tool_call(part: Json) -> Json:
    arguments = part.get("arguments")
    text = arguments if isinstance(arguments, str) else orjson.dumps(arguments).decode()
    function = {"name": part.get("name"), "arguments": text}
    return {"id": part.get("id"), "type": "function", "function": function}


def _parts_text(parts: Iterable[Any]) -> str:
    texts = [part.get("content") for part in parts if isinstance(part, dict) if "content" in part]
    return "\n".join(text for text in texts if isinstance(text, str))


def _event_messages(events: Iterable[tuple[str, Json]]) -> list[Json]:
    return [
        {"role": _EVENTS[name], **{key: decode(value) for key, value in more.items()}}
        for name, more in events
        if name in _EVENTS
    ]


def _by_number(attributes: Json, kind: str) -> list[Json]:
    """The messages of numbered attributes."""
    messages: dict[int, Json] = {}
    for name, value in attributes.items():
        parts = _NUMBERED.match(name)
        if parts and parts[1] == kind:
            messages.setdefault(int(parts[2]), {"role": "user"})[parts[3]] = value
    return [messages[number] for number in sorted(messages)]


def _tools(definitions: Any) -> list[Json]:  # noqa: ANN401 - JSON
    """Definitions of tools as chat has them."""
    if not isinstance(definitions, list):
        return []
    return [
        tool if "function" in tool else {"type": "function", "function": tool}
        for tool in definitions
        if isinstance(tool, dict)
    ]
