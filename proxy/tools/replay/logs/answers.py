"""A recorded answer of any API as the assistant's message and its length in tokens."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec
import orjson

from proxy.tools.replay.logs.bodies import is_item, write_out_short_calls
from proxy.tools.replay.logs.fields import (
    Json,
    decode,
    first_count,
    first_text,
    lookup,
    objects,
    tool_call,
)

_COUNTS: Final = (
    "usage/completion_tokens", "usage/output_tokens", "usageMetadata/candidatesTokenCount",
)  # fmt: skip
_PROMPT_COUNTS: Final = (
    "usage/prompt_tokens", "usage/input_tokens", "usageMetadata/promptTokenCount",
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
        ending: Reason that it ended for, as its API names it; "" where the log has none.
        problem: Reason that it cannot be read; "" for none.
    """

    message: Json | None = None
    generated: int | None = None
    prompt_tokens: int | None = None
    model: str = ""
    ending: str = ""
    problem: str = ""
    is_messages: bool = False

    @property
    def reply(self) -> bytes:
        """The message as JSON; "null" for none."""
        return orjson.dumps(self.message)


def read_answer(value: Any) -> RecordedAnswer:  # noqa: ANN401 - JSON
    """The answer that a log holds as this value: a body, a message, a stream, or plain text."""
    value = decode(value)
    if value in (None, "", [], {}):
        return RecordedAnswer()
    if isinstance(value, str):
        is_stream = value.lstrip().startswith((_DATA, "event:"))
        return _streamed_answer(value) if is_stream else RecordedAnswer(message=_text(value))
    items = objects(value)
    if any("type" in item and "role" not in item for item in items):
        return RecordedAnswer(message=output_message([{"content": items}, *items]))
    if items:
        return read_answer(items[-1])
    return _object_answer(value) if isinstance(value, dict) else _UNKNOWN


_UNKNOWN: Final = RecordedAnswer(problem=UNKNOWN_FORM)


def _object_answer(value: Json) -> RecordedAnswer:
    message = _message(value)
    if message is None:
        inner = next((value[name] for name in _WRAPPERS if value.get(name)), None)
        return read_answer(inner) if inner else _UNKNOWN
    write_out_short_calls(message)
    return RecordedAnswer(
        message=message,
        generated=first_count(value, _COUNTS),
        prompt_tokens=first_count(value, _PROMPT_COUNTS),
        model=first_text(value, ("model",)),
        ending=_finish_reason(value),
        is_messages=value.get("type") == "message" and "role" in value and not is_item(value),
    )


def _finish_reason(value: Json) -> str:
    """The reason that an answer, or a part of a stream, names for its end; "" for none."""
    choice = next(iter(objects(value.get("choices"))), value)
    paths = ("finish_reason", "stop_reason", "delta/stop_reason", "status")
    return first_text(choice, paths).lower()


def _message(value: Json) -> Json | None:
    for field, reader in _READERS.items():
        if isinstance(value.get(field), list):
            return reader(objects(value[field]))
    if "role" in value or isinstance(value.get("content"), str) or value.get("tool_calls"):
        return {"role": "assistant", **value}
    return None


def _choice_message(choices: Sequence[Json]) -> Json | None:
    choice = choices[0] if choices else {}
    message, text = choice.get("message"), choice.get("text")
    if isinstance(message, dict):
        return message
    return _text(text) if isinstance(text, str) else None


def _candidate_message(candidates: Sequence[Json]) -> Json | None:
    parts = lookup(candidates[0], "content/parts") if candidates else None
    return content_message(objects(parts)) if isinstance(parts, list) else None


def content_message(blocks: Sequence[Json]) -> Json:
    """The message of Anthropic's content blocks, or of any parts that hold text."""
    text = "".join(block["text"] for block in blocks if isinstance(block.get("text"), str))
    calls = [
        tool_call(block.get("id"), block.get("name"), block.get("input"))
        for block in blocks
        if block.get("type") == "tool_use"
    ]
    return _text(text, calls)


def output_message(items: Sequence[Json]) -> Json:
    """The message of the items that a response puts out."""
    parts = [item for item in items if item.get("type", "message") == "message"]
    calls = [
        tool_call(item.get("call_id"), item.get("name"), item.get("arguments", item.get("input")))
        for item in items
        if str(item.get("type")).endswith("_call")
    ]
    texts = (content_message(objects(item.get("content")))["content"] for item in parts)
    return _text("".join(texts), calls)


def _text(text: str, calls: Sequence[Json] = ()) -> Json:
    return {"role": "assistant", "content": text} | ({"tool_calls": calls} if calls else {})


#: Readers of the message in the list that a field holds.
_READERS: Final[Mapping[str, Callable[[Sequence[Json]], Json | None]]] = {
    "choices": _choice_message,
    "output": output_message,
    "candidates": _candidate_message,
    "content": content_message,
}


def _streamed_answer(text: str) -> RecordedAnswer:
    pieces: list[str] = []
    arguments: list[str] = []
    generated, model, ending = None, "", ""
    for event in _events(text.splitlines()):
        if event.get("type") == "response.completed":
            return read_answer(event.get("response"))
        generated = first_count(event, _COUNTS) or generated
        model = model or first_text(event, ("model", "message/model"))
        ending = _finish_reason(event) or ending
        delta = lookup(next(iter(objects(event.get("choices"))), event), "delta") or {}
        pieces += [text for text in map(delta.get, ("content", "text")) if isinstance(text, str)]
        calls = objects(delta.get("tool_calls"))
        parts = [lookup(call, "function/arguments") for call in calls] + [delta.get("partial_json")]
        arguments += [part for part in parts if isinstance(part, str)]
    if not pieces and not any(arguments) and generated is None:
        return RecordedAnswer(problem="its stream holds no text and no usage")
    calls = [tool_call("", "", "".join(arguments))] if any(arguments) else []
    return RecordedAnswer(
        message=_text("".join(pieces), calls), generated=generated, model=model, ending=ending
    )


def _events(lines: Iterable[str]) -> Iterator[Json]:
    for line in lines:
        event = decode(line.removeprefix(_DATA)) if line.startswith(_DATA) else None
        if isinstance(event, dict):
            yield event
