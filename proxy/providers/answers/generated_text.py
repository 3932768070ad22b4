"""Finds the generated text of an answer, to count it where the upstream reports no usage.

And where it begins, for streams open with events that say nothing yet.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

import orjson

from proxy.providers.json_size import MAX_OBJECTS, may_exceed
from proxy.providers.lenient import to_strict_json
from proxy.providers.sse import parse_events

#: Place of a piece of text: pieces of the same place are joined, in the order they came.
Place = tuple[str | int, ...]

#: Keys whose strings are generated. Source: OpenAI and Anthropic API references (2026-11).
_TEXT_KEYS: Final = frozenset(
    {
        "arguments",
        "content",
        "input",
        "name",
        "partial_json",
        "reasoning",
        "reasoning_content",
        "refusal",
        "text",
        "thinking",
        "transcript",
    }
)
#: Keys whose objects and lists hold such strings.
_CONTAINER_KEYS: Final = frozenset(
    {
        "audio",
        "candidates",
        "choices",
        "content",
        "content_block",
        "custom",
        "delta",
        "function",
        "functionCall",
        "function_call",
        "message",
        "output",
        "parts",
        "summary",
        "thinking",
        "tool_calls",
    }
)
#: Keys whose objects are arguments of a call, in chat by some engines.
#: Source: Anthropic, Gemini API (2026-11).
_OBJECT_KEYS: Final = frozenset({"args", "arguments", "input"})
#: Events before the content, and the end of a block, which has none of its own.
#: Source: OpenAI and Anthropic API references, openai 3.52 (2026-11).
_OPENINGS: Final = frozenset(
    {
        "content_block_stop",
        "message_start",
        "ping",
        "response.compaction.compacting",
        "response.content_part.added",
        "response.created",
        "response.in_progress",
        "response.output_item.added",
        "response.queued",
        "response.reasoning_summary_part.added",
    }
)
#: Item that a provider writes to go on from, in place of the conversation: no part of the answer.
_COMPACTION: Final = "compaction"
#: Anthropic's blocks whose content comes in deltas, and nothing of it in their start.
_EMPTY_BLOCKS: Final = ("text", "thinking", _COMPACTION)
#: Keys under which an event names the kind of a part of the answer, and the kinds that say nothing
#: yet.
_PARTS: Final[Mapping[str, tuple[str, tuple[str, ...]]]] = {
    "content_block_start": ("content_block", _EMPTY_BLOCKS),
    "content_block_delta": ("delta", ("compaction_delta",)),
    "response.output_item.done": ("item", (_COMPACTION,)),
}
#: A key of text and the beginning of its string; inside of strings, quotation marks are escaped.
_TEXT_START: Final = re.compile(
    rb'"(?:%s)"\s{0,8}:\s{0,8}"' % "|".join(sorted(_TEXT_KEYS)).encode(), re.DOTALL
)
#: The rest of a string, also of one without an end.
_STRING: Final = re.compile(rb'(?:[^"\\]|\\.)*+', re.DOTALL)
#: Bytes that are searched at once, and how far the beginning of a text may reach beyond them.
_WINDOW_BYTES: Final = 64 * 1024
_LONGEST_TEXT_START_BYTES: Final = 64
#: Deeper than any answer nests its text.
_MAX_DEPTH: Final = 16


def stream_pieces(run: bytes) -> Iterator[tuple[Place, str]]:
    """The pieces of text in a run of whole server-sent events; malformed ones are skipped."""
    for event in parse_events(run):
        if may_exceed(event.data, MAX_OBJECTS):
            yield from _scan_text(event.data)
        elif isinstance(value := _parse(event.data), dict):
            yield from _event_text(value)


def stream_choices(run: bytes) -> set[int]:
    """The numbers of the choices in a run of whole events; malformed ones are skipped."""
    numbers: set[int] = set()
    for event in parse_events(run):
        value = None if may_exceed(event.data, MAX_OBJECTS) else _parse(event.data)
        if not isinstance(value, dict):
            continue
        for choices in (value.get("choices"), value.get("candidates")):
            if isinstance(choices, list):
                numbers |= {_index(choice, "index", 0) for choice in choices}
    return numbers


def has_content(kind: str, data: bytes) -> bool:
    """True if an event of a stream has content or says why there is none; openings have neither.

    Nor has what a provider compacts before it answers: the caller waits for the answer.

    Args:
        kind: Its type; "" for one without.
        data: Data of the event; what is not known is content, and so is what takes long to parse.
    """
    if kind in _OPENINGS:
        return False
    value = None if may_exceed(data, MAX_OBJECTS) else _parse(data)
    if not isinstance(value, dict):
        return True
    if kind in _PARTS:
        part, silent = _PARTS[kind]
        return _object_under_key(value, part).get("type") not in silent
    if kind == "message_delta":
        return bool(_object_under_key(value, "delta").get("stop_reason"))
    choices = value.get("choices")
    return not isinstance(choices, list) or any(map(_has_content, choices))


def answer_pieces(body: bytes) -> Iterator[tuple[Place, str]]:
    """The pieces of text in a JSON answer, and of one that was broken off as far unmodified."""
    value = None if may_exceed(body, MAX_OBJECTS) else _parse(body)
    yield from _scan_text(body) if value is None else _texts_within(value, ())


def _scan_text(text: bytes) -> Iterator[tuple[Place, str]]:
    """The text in JSON that is broken off or takes too long to parse, as it is written there.

    It builds no objects but the text; between two windows other threads run.
    """
    position = 0
    while position < len(text):
        end = position + _WINDOW_BYTES
        start = _TEXT_START.search(text, position, end + _LONGEST_TEXT_START_BYTES)
        if start is None:
            position = end
        elif (text_match := _STRING.match(text, start.end())) is not None:
            yield (start.start(),), text_match[0].decode(errors="replace")
            position = text_match.end() + 1


def _parse(raw: bytes) -> object:
    try:
        return orjson.loads(raw)
    except orjson.JSONDecodeError:
        strict = to_strict_json(raw)
        return None if strict is None else orjson.loads(strict)


def _event_text(value: dict[str, Any]) -> Iterator[tuple[Place, str]]:
    """The text of one event.

    The Responses API and its kin say every text twice: in deltas, then whole. Only deltas count,
    and the name of a tool, which has none. Audio is not text.
    """
    kind = value.get("type")
    kind = kind if isinstance(kind, str) else ""
    if kind.endswith(".delta"):
        delta = value.get("delta")
        if isinstance(delta, str) and not kind.endswith("audio.delta"):
            place = (value.get(key) for key in ("output_index", "content_index", "summary_index"))
            yield (kind, *(n for n in place if isinstance(n, int))), delta
    elif kind == "response.output_item.added":
        yield from _texts_within(value.get("item"), (kind, _index(value, "output_index", 0)))
    elif "." not in kind:
        yield from _texts_within(value, (_index(value, "index", 0),))


def _has_content(choice: object) -> bool:
    """True if a choice of a chunk has more than the role of who speaks."""
    if not isinstance(choice, dict):
        return True
    if choice.get("finish_reason") or choice.get("text") or choice.get("message"):
        return True
    return any(value for key, value in _object_under_key(choice, "delta").items() if key != "role")


def _object_under_key(value: dict[str, Any], key: str) -> dict[str, Any]:
    """The object under a key; an empty one where there is none."""
    inner = value.get(key)
    return inner if isinstance(inner, dict) else {}


def _texts_within(value: object, place: Place) -> Iterator[tuple[Place, str]]:
    if len(place) > _MAX_DEPTH:
        return
    if isinstance(value, list):
        for position, item in enumerate(value):
            yield from _texts_within(item, (*place, _index(item, "index", position)))
    elif isinstance(value, dict):
        for key, inner in value.items():
            if key != "reasoning" or not value.get("reasoning_content"):
                yield from _texts_under_key(key, inner, place)


def _texts_under_key(key: str, inner: object, place: Place) -> Iterator[tuple[Place, str]]:
    """The text under one key of an object."""
    if isinstance(inner, str):
        if inner and key in _TEXT_KEYS:
            yield (*place, key), inner
    elif key in _CONTAINER_KEYS:
        yield from _texts_within(inner, (*place, key))
    elif key in _OBJECT_KEYS and isinstance(inner, dict) and inner:
        yield (*place, key), orjson.dumps(inner).decode()


def _index(value: object, key: str, otherwise: int) -> int:
    """The number under a key; another where there is none."""
    number = value.get(key) if isinstance(value, dict) else None
    return number if isinstance(number, int) else otherwise
