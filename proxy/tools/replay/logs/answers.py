"""A recorded answer of any API as the assistant's message and its length in tokens."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec
import orjson

from proxy.tools.replay.logs.bodies import write_out_short_calls
from proxy.tools.replay.logs.fields import Json, decode, first_count, first_text, lookup

_COUNTS: Final = (
    "usage/completion_tokens", "usage/output_tokens", "usageMetadata/candidatesTokenCount",
)  # fmt: skip
#: Fields under which an answer stands in another value.
_WRAPPERS: Final = ("message", "response", "body", "completion")
_DATA: Final = "data:"
UNKNOWN_FORM: Final = "it has a form that no API answers in"


class RecordedAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """An answer as far as a log has it.

    Attributes:
        message: The assistant's message; None where the log has no text of it.
        generated: Its tokens, as its usage says; None where nothing does.
        model: The model that it names; "" for none.
        problem: Reason that it cannot be read; "" for none.
        is_messages: True if it is one of Anthropic's API.
    """

    message: Json | None = None
    generated: int | None = None
    model: str = ""
    problem: str = ""
    is_messages: bool = False

    @property
    def reply(self) -> bytes:
        """The message as JSON; "null" for none."""
        return orjson.dumps(self.message)


_MISSING: Final = RecordedAnswer()


def read_answer(value: Any) -> RecordedAnswer:  # noqa: ANN401 - JSON
    """The answer that a log holds as this value: a body, a message, a stream, or plain text."""
    value = decode(value)
    if value in (None, "", [], {}):
        return _MISSING
    if isinstance(value, str):
        is_stream = value.lstrip().startswith((_DATA, "event:"))
        return _streamed_answer(value) if is_stream else RecordedAnswer(message=_text(value))
    if isinstance(value, list):
        return _last_answer(value)
    return _object_answer(value) if isinstance(value, dict) else _unknown_form()


def _unknown_form() -> RecordedAnswer:
    return RecordedAnswer(problem=UNKNOWN_FORM)


def _object_answer(value: Json) -> RecordedAnswer:
    message = _message(value)
    if message is None:
        inner = next((value[name] for name in _WRAPPERS if value.get(name)), None)
        return read_answer(inner) if inner else _unknown_form()
    write_out_short_calls(message)
    return RecordedAnswer(
        message=message,
        generated=first_count(value, _COUNTS),
        model=first_text(value, ("model",)),
        is_messages=value.get("type") == "message" and "role" in value,
    )


def _message(value: Json) -> Json | None:
    """The assistant's message of a body that is one of chat, Messages, Responses or Gemini."""
    for field, reader in _READERS.items():
        if isinstance(value.get(field), list):
            return reader(value[field])
    if "role" in value or isinstance(value.get("content"), str) or value.get("tool_calls"):
        return {"role": "assistant", **value}
    return None


def _choice_message(choices: Sequence[Any]) -> Json | None:
    choice = choices[0] if choices and isinstance(choices[0], dict) else {}
    message = choice.get("message")
    if isinstance(message, dict):
        return message
    return _text(choice["text"]) if isinstance(choice.get("text"), str) else None


def _candidate_message(candidates: Sequence[Any]) -> Json | None:
    parts = lookup({"first": candidates[0]}, "first/content/parts") if candidates else None
    return content_message(parts) if isinstance(parts, list) else None


def content_message(content: Sequence[Any]) -> Json:
    """The message of Anthropic's content blocks, or of any parts that hold text."""
    blocks = [block for block in content if isinstance(block, dict)]
    text = "".join(block["text"] for block in blocks if isinstance(block.get("text"), str))
    calls = [
        _call(block.get("id"), block.get("name"), block.get("input"))
        for block in blocks
        if block.get("type") == "tool_use"
    ]
    return _text(text) | ({"tool_calls": calls} if calls else {})


def output_message(items: Sequence[Any]) -> Json:
    """The message of the items that a response puts out."""
    items = [item for item in items if isinstance(item, dict)]
    texts = [
        content_message(item["content"])["content"]
        for item in items
        if isinstance(item.get("content"), list) and item.get("type", "message") == "message"
    ]
    calls = [
        _call(item.get("call_id"), item.get("name"), item.get("arguments", item.get("input")))
        for item in items
        if str(item.get("type")).endswith("_call")
    ]
    return _text("".join(texts)) | ({"tool_calls": calls} if calls else {})


def _call(identity: Any, name: Any, arguments: Any) -> Json:  # noqa: ANN401 - JSON
    text = arguments if isinstance(arguments, str) else orjson.dumps(arguments).decode()
    function = {"name": str(name or ""), "arguments": text}
    return {"id": str(identity or ""), "type": "function", "function": function}


def _text(text: str) -> Json:
    return {"role": "assistant", "content": text}


def _last_answer(items: Sequence[Any]) -> RecordedAnswer:
    """The last of several messages, or the one that content blocks make."""
    objects = [item for item in items if isinstance(item, dict)]
    if not objects:
        return _unknown_form()
    if any("type" in item and "role" not in item for item in objects):
        return RecordedAnswer(message=output_message([{"content": objects}, *objects]))
    return read_answer(objects[-1])


#: Readers of the message in the list that a field holds.
_READERS: Final[Mapping[str, Callable[[Sequence[Any]], Json | None]]] = {
    "choices": _choice_message,
    "output": output_message,
    "candidates": _candidate_message,
    "content": content_message,
}


def _streamed_answer(text: str) -> RecordedAnswer:
    """The answer of a recorded event stream."""
    pieces: list[str] = []
    arguments: list[str] = []
    generated, model = None, ""
    for event in _events(text.splitlines()):
        whole = event.get("response")
        if isinstance(whole, dict) and event.get("type") == "response.completed":
            return read_answer(whole)
        start = event.get("message")
        generated = first_count(event, _COUNTS) or generated
        model = model or first_text(event, ("model",)) or first_text({"m": start}, ("m/model",))
        delta = _delta(event)
        pieces += [delta[name] for name in ("content", "text") if isinstance(delta.get(name), str)]
        calls = delta.get("tool_calls") or [{"function": {"arguments": delta.get("partial_json")}}]
        arguments += [_arguments(call) for call in calls if isinstance(call, dict)]
    if not pieces and not any(arguments) and generated is None:
        return RecordedAnswer(problem="its stream holds no text and no usage")
    message = _text("".join(pieces))
    if any(arguments):
        message["tool_calls"] = [_call("", "", "".join(arguments))]
    return RecordedAnswer(message=message, generated=generated, model=model)


def _events(lines: Iterable[str]) -> Iterator[Json]:
    for line in lines:
        event = decode(line.removeprefix(_DATA)) if line.startswith(_DATA) else None
        if isinstance(event, dict):
            yield event


def _delta(event: Json) -> Json:
    choices = event.get("choices")
    holder = choices[0] if isinstance(choices, list) and choices else event
    delta = holder.get("delta") if isinstance(holder, dict) else None
    return delta if isinstance(delta, dict) else {}


def _arguments(call: Json) -> str:
    function = call.get("function")
    text = function.get("arguments") if isinstance(function, dict) else None
    return text if isinstance(text, str) else ""
