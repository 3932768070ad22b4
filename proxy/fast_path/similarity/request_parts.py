"""Splits a request into question and context, and gives equal answers an equal digest.

The question is the text of the last message, if a user wrote it; the context is all else. Two
requests of one context differ by their questions only.
"""

from typing import Any, Final, NamedTuple

import msgspec
from blake3 import blake3

#: Field of the body that holds the turns, by endpoint.
_TURNS: Final = {"chat/completions": "messages", "messages": "messages", "responses": "input"}
_TEXT_BLOCKS: Final = frozenset({"text", "input_text", "output_text"})
_DIGEST_BYTES: Final = 16


class AskedInContext(NamedTuple):
    """A request's question, and the body in which it does not stand."""

    question: str
    around: dict[str, Any]


def split_request(endpoint: str, body: dict[str, Any]) -> AskedInContext | None:
    """A request's question and context; None where it has no plain question, or wants a stream.

    Args:
        endpoint: Such as "chat/completions".
        body: The JSON of the request, which is not changed.
    """
    name = _TURNS.get(endpoint)
    turns = body.get(name or "")
    if name is None or body.get("stream") or body.get("n") not in (None, 1):
        return None
    if isinstance(turns, str):
        return AskedInContext(turns, {**body, name: None})
    if not isinstance(turns, list) or not turns or not isinstance(turns[-1], dict):
        return None
    last = turns[-1]
    text = _plain_text(last.get("content"))
    if last.get("role") != "user" or text is None:
        return None
    around = {key: value for key, value in last.items() if key != "content"}
    return AskedInContext(text, {**body, name: [*turns[:-1], around]})


def answer_text(endpoint: str, body: bytes) -> str | None:
    """The text of an answer that holds one text and nothing else; None for any other."""
    try:
        answer = msgspec.json.decode(body)
        if endpoint == "chat/completions":
            (choice,) = answer["choices"]
            message = choice["message"]
            return None if message.get("tool_calls") else _plain_text(message["content"])
        parts = answer["content"] if endpoint == "messages" else answer["output"]
        (part,) = [part for part in parts if part["type"] != "reasoning"]
        return _plain_text(part["content"] if endpoint == "responses" else [part])
    except (msgspec.DecodeError, LookupError, TypeError, ValueError, AttributeError):
        return None


def answer_digest(text: str) -> str:
    """A digest that answers share which differ in blanks, capitals or order of fields."""
    try:
        value = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        value = " ".join(text.casefold().split()).rstrip(".!")
    return _digest(value)


def _plain_text(content: object) -> str | None:
    """The text of a message that holds one text and nothing else."""
    if isinstance(content, str):
        return content
    if not isinstance(content, list) or len(content) != 1 or not isinstance(content[0], dict):
        return None
    block: dict[str, object] = content[0]
    kind, text = block.get("type"), block.get("text")
    is_plain = (
        isinstance(kind, str)
        and kind in _TEXT_BLOCKS
        and not any(value for name, value in block.items() if name not in {"type", "text"})
    )
    return text if is_plain and isinstance(text, str) else None


def _digest(value: object) -> str:
    """The hash of a value's JSON with sorted fields."""
    return blake3(msgspec.json.encode(value, order="sorted")).hexdigest(_DIGEST_BYTES)
