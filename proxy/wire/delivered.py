"""The generated text in what an upstream sent: what is counted when it does not say itself."""

from collections.abc import Iterator
from typing import Any, Final

import orjson

from proxy.wire.sse import events

#: Where a piece of text belongs: pieces of the same place are joined, in the order they came.
Place = tuple[str | int, ...]

#: Keys whose strings are generated. Source: OpenAI and Anthropic API references (2026-11).
_TEXT: Final = frozenset(
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
_AROUND: Final = frozenset(
    {
        "audio",
        "choices",
        "content",
        "content_block",
        "custom",
        "delta",
        "function",
        "function_call",
        "message",
        "output",
        "summary",
        "thinking",
        "tool_calls",
    }
)
#: Deeper than any answer nests its text.
_DEEPEST: Final = 16


def stream_pieces(run: bytes) -> Iterator[tuple[Place, str]]:
    """The pieces of text in a run of whole server-sent events; malformed ones are skipped."""
    for event in events(run):
        value = _parsed(event.data)
        if isinstance(value, dict):
            yield from _event(value)


def answer_pieces(body: bytes) -> Iterator[tuple[Place, str]]:
    """The pieces of text in a JSON answer; none if it is malformed."""
    yield from _within(_parsed(body), ())


def _parsed(raw: bytes) -> object:
    try:
        return orjson.loads(raw)
    except orjson.JSONDecodeError:
        return None


def _event(value: dict[str, Any]) -> Iterator[tuple[Place, str]]:
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
        yield from _within(value.get("item"), (kind, _index(value, "output_index", 0)))
    elif "." not in kind:
        yield from _within(value, (_index(value, "index", 0),))


def _within(value: object, place: Place) -> Iterator[tuple[Place, str]]:
    if len(place) > _DEEPEST:
        return
    if isinstance(value, list):
        for position, item in enumerate(value):
            yield from _within(item, (*place, _index(item, "index", position)))
    elif isinstance(value, dict):
        for key, inner in value.items():
            if key != "reasoning" or not value.get("reasoning_content"):
                yield from _under(key, inner, place)


def _under(key: str, inner: object, place: Place) -> Iterator[tuple[Place, str]]:
    """The text under one key of an object."""
    if isinstance(inner, str):
        if inner and key in _TEXT:
            yield (*place, key), inner
    elif key in _AROUND:
        yield from _within(inner, (*place, key))
    elif key == "input" and isinstance(inner, dict) and inner:
        yield (*place, key), orjson.dumps(inner).decode()


def _index(value: object, key: str, otherwise: int) -> int:
    """The number under a key; another where there is none."""
    found = value.get(key) if isinstance(value, dict) else None
    return found if isinstance(found, int) else otherwise
