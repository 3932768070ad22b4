"""The part of a call's body that an engine's prefix cache goes by, in the order of its prompt.

Chat templates put tools first, so tools come before messages here. What stands elsewhere in a
body, such as a temperature, is left out: it changes no prefix. So are the cache marks and the
attribution line of a Messages call, which no engine gets.
"""

import re
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
        found = decoder.decode(body)
    except _ERRORS:
        return None
    parts = [bytes(each) for each in msgspec.structs.astuple(found)]
    return CallPrompt(b"\n".join(parts), _opening(parts))


def _opening(parts: list[bytes]) -> str:
    """A name of all up to the first message of a user, which later calls repeat."""
    *before, messages = parts
    if not messages.startswith(b"["):
        return ""
    named = blake2b(b"\n".join(before), digest_size=_NAME_BYTES, person=b"opening")
    try:
        for message in _decode_messages(messages)[:_MAX_OPENING]:
            named.update(message)
            if _decode_message(message).role == "user":
                return named.hexdigest()
    except _ERRORS:
        return ""
    return ""
