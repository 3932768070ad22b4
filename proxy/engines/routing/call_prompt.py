"""Reads the part of a call's body that decides an engine's prefix cache, in prompt order.

Chat templates put tools first, so tools come before messages here. What stands elsewhere in a
body, such as a temperature, is left out: it changes no prefix. So are the cache marks and the
attribution line of a Messages call, which no engine gets.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, Final

import msgspec

from proxy.prefix.layouts.agent_shapes import without_attribution
from proxy.records.call import MESSAGES

_ABSENT: Final = msgspec.Raw(b"")
_NAME_BYTES: Final = 16
#: Messages among which the first of a user is looked for.
_MAX_OPENING: Final = 8
#: Bytes of the messages in which it is looked for first: reading all of a long prompt takes as
#: long as hashing it.
_OPENING_BYTES: Final = 64 * 1024
_BETWEEN_MESSAGES: Final = re.compile(r"[\s,]*")
_read_object: Final = json.JSONDecoder().raw_decode
#: A cache mark with the comma before it; in a text its quotes would be escaped.
_CACHE_MARK: Final = re.compile(
    rb',\s*"cache_control"\s*:\s*(?:\{[^{}"]*(?:"[^"\\]*"[^{}"]*)*\}|null)'
)


@dataclass(frozen=True, slots=True)
class CallPrompt:
    """The prompt of a call.

    Attributes:
        content: Its bytes, in a stable order.
        conversation: Names its conversation by how it opens; "" where it is not made of messages.
    """

    content: bytes
    conversation: str = ""


class _ChatPrompt(msgspec.Struct, frozen=True):
    tools: msgspec.Raw = _ABSENT
    functions: msgspec.Raw = _ABSENT
    messages: msgspec.Raw = _ABSENT


class _ResponsesPrompt(msgspec.Struct, frozen=True):
    tools: msgspec.Raw = _ABSENT
    instructions: msgspec.Raw = _ABSENT
    input: msgspec.Raw = _ABSENT


class _MessagesPrompt(msgspec.Struct, frozen=True):
    tools: msgspec.Raw = _ABSENT
    system: msgspec.Raw = _ABSENT
    messages: msgspec.Raw = _ABSENT


class _TextPrompt(msgspec.Struct, frozen=True):
    prompt: msgspec.Raw = _ABSENT


class _Message(msgspec.Struct, frozen=True):
    role: Any = None


_Prompt = _ChatPrompt | _ResponsesPrompt | _MessagesPrompt | _TextPrompt
_DECODERS: Final[dict[str, msgspec.json.Decoder[_Prompt]]] = {
    "chat/completions": msgspec.json.Decoder(_ChatPrompt),
    "responses": msgspec.json.Decoder(_ResponsesPrompt),
    MESSAGES: msgspec.json.Decoder(_MessagesPrompt),
    "completions": msgspec.json.Decoder(_TextPrompt),
}
_decode_messages: Final = msgspec.json.Decoder(list[msgspec.Raw]).decode
_decode_message: Final = msgspec.json.Decoder(_Message).decode
_ERRORS: Final = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


def call_prompt(body: bytes, endpoint: str) -> CallPrompt | None:
    """The prompt of a body; None where the endpoint has none, or it cannot be read."""
    decoder = _DECODERS.get(endpoint)
    if decoder is None:
        return None
    if endpoint == MESSAGES:
        body = without_attribution(body)
        body = _CACHE_MARK.sub(b"", body) if b'"cache_control"' in body else body
    try:
        prompt = decoder.decode(body)
    except _ERRORS:
        return None
    parts = [bytes(part) for part in msgspec.structs.astuple(prompt)]
    return CallPrompt(b"\n".join(parts), _opening(parts))


def _opening(parts: list[bytes]) -> str:
    """A name of all up to the first message of a user, which later calls repeat."""
    *before, messages = parts
    if not messages.startswith(b"["):
        return ""
    named = blake2b(b"\n".join(before), digest_size=_NAME_BYTES, person=b"opening")
    try:
        for message in _first_messages(messages):
            named.update(message)
            if _decode_message(message).role == "user":
                return named.hexdigest()
    except _ERRORS:
        return ""
    return ""


def _first_messages(messages: bytes) -> Iterator[bytes | msgspec.Raw]:
    """The first messages of a JSON array, each as its bytes."""
    text, position = messages[:_OPENING_BYTES].decode(errors="ignore"), 1
    for number in range(_MAX_OPENING):
        position = _end_of(_BETWEEN_MESSAGES, text, position)
        if text.startswith("]", position):
            return
        try:
            _, end = _read_object(text, position)
        except (ValueError, RecursionError):  # it is longer than what was looked at
            yield from _decode_messages(messages)[number:_MAX_OPENING]
            return
        yield text[position:end].encode()
        position = end


def _end_of(pattern: re.Pattern[str], text: str, position: int) -> int:
    """The place up to which a pattern that may be empty matches there."""
    match = pattern.match(text, position)
    return match.end() if match is not None else position
