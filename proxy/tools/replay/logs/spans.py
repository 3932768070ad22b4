"""Spans and log records of OpenTelemetry's GenAI conventions as flat records.

OTLP JSON as the collector writes it, spans with a plain ``attributes`` object as SDKs print them,
and the older forms: a span event for each message, and numbered attributes (OpenLLMetry).

Source: OpenTelemetry semantic conventions for generative AI, spans and events (2026-11).
"""

import re
from collections.abc import Iterable, Iterator
from typing import Any, Final

import orjson

from proxy.tools.replay.logs.fields import Json, decode, lookup, objects, tool_call, values

_PREFIX: Final = "gen_ai."
_INPUT: Final = "gen_ai.input.messages"
_SYSTEM: Final = "gen_ai.system_instructions"
_OUTPUT: Final = "gen_ai.output.messages"
_CALLS: Final = frozenset({"chat", "generate_content", "text_completion", "responses", "messages"})
#: The attributes of ``gen_ai.prompt.0.content``, of its calls of tools, and of the tools.
_NUMBERED: Final = re.compile(r"gen_ai\.(prompt|completion)\.(\d+)\.(role|content|tool_call_id)\Z")
_NUMBERED_CALL: Final = re.compile(
    r"gen_ai\.(prompt|completion)\.(\d+)\.tool_calls\.(\d+)\.(id|name|arguments)\Z"
)
_NUMBERED_TOOL: Final = re.compile(
    r"(llm)\.request\.functions\.(\d+)\.(name|description|parameters)\Z"
)
#: Span events of conventions before 1.37, and the roles they speak for.
_EVENTS: Final = {
    "gen_ai.system.message": "system",
    "gen_ai.user.message": "user",
    "gen_ai.assistant.message": "assistant",
    "gen_ai.tool.message": "tool",
}
_CHOICE: Final = "gen_ai.choice"
_TIMES: Final = ("startTimeUnixNano", "timeUnixNano", "start_time")
_VALUES: Final = ("stringValue", "intValue", "doubleValue", "boolValue", "bytesValue")


def spans(document: Json) -> list[Json] | None:
    """The model calls of a document of spans or log records as flat records; None for another."""
    if "resourceSpans" in document or "resourceLogs" in document:
        return [record for record in _otlp(document) if _is_call(record)]
    record = _record(document) if isinstance(document.get("attributes"), dict | list) else {}
    if not _is_model_span(record):
        return None
    return [record] if _is_call(record) else []


def _otlp(document: Json) -> Iterator[Json]:
    for group in _either(document, "resourceSpans", "resourceLogs"):
        service = _attributes(group.get("resource")).get("service.name")
        for scope in _either(group, "scopeSpans", "scopeLogs"):
            for span in _either(scope, "spans", "logRecords"):
                yield {"service.name": service, **_record(span)}


def _either(holder: Json, *names: str) -> list[Json]:
    return [item for name in names for item in objects(holder.get(name))]


def _is_model_span(record: Json) -> bool:
    return any(name.startswith(_PREFIX) for name in record)


def _is_call(record: Json) -> bool:
    """True for one call of a model; agents and workflows around it repeat its messages."""
    return _is_model_span(record) and record.get("gen_ai.operation.name") in (None, *_CALLS)


def _record(span: Json) -> Json:
    events = [(event.get("name"), _attributes(event)) for event in objects(span.get("events"))]
    attributes = _attributes(span)
    for _, more in events:
        attributes |= {name: value for name, value in more.items() if name.startswith(_PREFIX)}
    choices = [decode(more.get("message")) for name, more in events if name == _CHOICE]
    numbered = _by_number(attributes, "completion")
    replies = _chat_messages(attributes.get(_OUTPUT)) or numbered or choices
    is_failed = lookup(span, "status/code") in (2, "STATUS_CODE_ERROR")
    tools = objects(decode(attributes.get("gen_ai.tool.definitions"))) or [
        {name: decode(value) for name, value in tool.items()}
        for tool in _rows(attributes, _NUMBERED_TOOL, "llm").values()
    ]
    return {
        **{name: value for name, value in attributes.items() if name.startswith(_PREFIX)},
        "messages": _messages(attributes, events),
        "tools": [t if "function" in t else {"type": "function", "function": t} for t in tools],
        "response": replies[-1] if replies else None,
        "started": next(values(span, _TIMES), None),
        "status": "failure" if is_failed else "",
    }


def _attributes(holder: Any) -> Json:  # noqa: ANN401 - JSON
    attributes = holder.get("attributes") if isinstance(holder, dict) else None
    return dict(attributes) if isinstance(attributes, dict) else _pairs(attributes)


def _pairs(items: Any) -> Json:  # noqa: ANN401 - JSON
    return {
        item["key"]: _value(item.get("value"))
        for item in objects(items)
        if isinstance(item.get("key"), str)
    }


def _value(value: Any) -> Any:  # noqa: ANN401 - JSON
    if not isinstance(value, dict):
        return value
    if "arrayValue" in value:
        return [_value(item) for item in objects(lookup(value, "arrayValue/values"))]
    if "kvlistValue" in value:
        return _pairs(lookup(value, "kvlistValue/values"))
    if (number := str(value.get("intValue"))).isdigit():
        return int(number)
    return next((value[name] for name in _VALUES if name in value), None)


def _messages(attributes: Json, events: Iterable[tuple[Any, Json]]) -> list[Json]:
    instructions = objects(decode(attributes.get(_SYSTEM)))
    messages = _chat_messages(attributes.get(_INPUT))
    if messages and instructions:
        return [{"role": "system", "content": _parts_text(instructions)}, *messages]
    event_messages = [
        {"role": _EVENTS[name], **{key: decode(value) for key, value in more.items()}}
        for name, more in events
        if name in _EVENTS
    ]
    return messages or event_messages or _by_number(attributes, "prompt")


def _chat_messages(value: Any) -> list[Json]:  # noqa: ANN401 - JSON
    return [chat for message in objects(decode(value)) for chat in _chat(message)]


def _chat(message: Json) -> Iterator[Json]:
    if not isinstance(message.get("parts"), list):
        yield message
        return
    parts = objects(message["parts"])
    answers = [part for part in parts if part.get("type") == "tool_call_response"]
    for part in answers:
        result = part.get("response", part.get("result"))
        text = result if isinstance(result, str) else orjson.dumps(result).decode()
        yield {"role": "tool", "tool_call_id": part.get("id"), "content": text}
    calls = [
        tool_call(part.get("id"), part.get("name"), part.get("arguments"))
        for part in parts
        if part.get("type") == "tool_call"
    ]
    if calls or len(answers) < len(parts):
        chat = {"role": message.get("role"), "content": _parts_text(parts)}
        yield chat | ({"tool_calls": calls} if calls else {})


def _parts_text(parts: Iterable[Json]) -> str:
    return "\n".join(part["content"] for part in parts if isinstance(part.get("content"), str))


def _by_number(attributes: Json, kind: str) -> list[Json]:
    messages = _rows(attributes, _NUMBERED, kind)
    for (number, _), call in _rows(attributes, _NUMBERED_CALL, kind).items():
        written = tool_call(call.get("id"), call.get("name"), call.get("arguments", "{}"))
        message = messages.setdefault((number,), {"role": "assistant"})
        message.setdefault("tool_calls", []).append(written)
    return [{"role": "user", **messages[number]} for number in sorted(messages)]


def _rows(attributes: Json, names: re.Pattern[str], kind: str) -> dict[tuple[int, ...], Json]:
    rows: dict[tuple[int, ...], Json] = {}
    matches = ((names.match(name), value) for name, value in attributes.items())
    for parts, value in matches:
        if parts and parts[1] == kind:
            _, *numbers, field = parts.groups()
            rows.setdefault(tuple(map(int, numbers)), {})[field] = value
    return rows
