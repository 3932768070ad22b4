"""A chat body as one of the Responses API, for tests that have conversations in chat's form."""

from collections.abc import Iterator
from typing import Any

import orjson

_TYPES = {"text": "input_text", "image_url": "input_image"}
Json = dict[str, Any]


def as_responses_body(raw: bytes, *, stored: bool) -> bytes:
    """The same conversation; its first system message is the instructions."""
    chat = orjson.loads(raw)
    first, *rest = chat.pop("messages")
    body = {**chat, "store": stored, "instructions": _words(first["content"])}
    body["input"] = [item for message in rest for item in _items(message)]
    if "tools" in chat:
        body["tools"] = [{"type": "function", **tool["function"]} for tool in chat["tools"]]
    return orjson.dumps(body)


def _words(content: object) -> str:
    parts = content if isinstance(content, list) else [{"text": content}]
    return "\n".join(str(part["text"]) for part in parts)


def _items(message: Json) -> Iterator[Json]:
    role, content = message["role"], message.get("content")
    if role == "tool":
        call = message["tool_call_id"]
        yield {"type": "function_call_output", "call_id": call, "output": content}
    elif content is not None:
        yield {"role": role, "content": _parts(content)}
    for call in message.get("tool_calls") or ():
        yield {"type": "function_call", "call_id": call["id"], **call["function"]}


def _parts(content: object) -> object:
    if not isinstance(content, list):
        return content
    return [_part(part) for part in content]


def _part(part: Json) -> Json:
    content = {**part, "type": _TYPES[part["type"]]}
    if "image_url" in content:
        content |= content.pop("image_url")
        content["image_url"] = content.pop("url")
    return content
