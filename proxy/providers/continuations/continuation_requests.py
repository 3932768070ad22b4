"""Builds the request by which another upstream continues an answer from its text so far; pure."""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

import msgspec

from proxy.catalog.entries import Continues
from proxy.errors import CallerError
from proxy.providers.continuations.chat_seam import read_open_chat
from proxy.providers.continuations.messages_seam import read_open_message
from proxy.providers.continuations.responses_seam import read_open_response
from proxy.providers.continuations.seam import Json, OpenAnswer
from proxy.providers.port import PreparedRequest
from proxy.providers.recalls.recall_filter import append_to_list
from proxy.records.call import MESSAGES
from proxy.records.request_fields import raw_field, replace_fields

_CHAT, _RESPONSES = "chat/completions", "responses"
#: Readers of what a caller has of an answer, by its endpoint.
_READERS: Final[Mapping[str, Callable[[bytes], OpenAnswer]]] = MappingProxyType(
    {_CHAT: read_open_chat, MESSAGES: read_open_message, _RESPONSES: read_open_response}
)
#: Endpoints whose answers can be gone on from.
CONTINUED_ENDPOINTS: Final = frozenset(_READERS)
_TRUE, _FALSE = b"true", b"false"
_ASSISTANT: Final = "assistant"


class _LastMessage(msgspec.Struct):
    role: str = ""
    tool_calls: msgspec.Raw | None = None


class _Thinking(msgspec.Struct):
    type: str = ""


class _Body(msgspec.Struct):
    messages: list[msgspec.Raw]
    thinking: _Thinking | None = None


_bodies: Final = msgspec.json.Decoder(_Body)
_last_message: Final = msgspec.json.Decoder(_LastMessage)
_UNREADABLE: Final = (msgspec.DecodeError, UnicodeDecodeError, RecursionError, KeyError, ValueError)


def read_open_answer(endpoint: str, delivered: bytes) -> OpenAnswer | None:
    """The answer that broke off; None where it cannot be gone on from.

    Args:
        delivered: All events of it that its caller has.
    """
    try:
        return _READERS[endpoint](delivered)
    except ValueError:
        return None


def with_beginning(body: bytes, endpoint: str, text: str) -> bytes:
    """The body with the beginning of its answer as the assistant's last message.

    White space at its end is left out.

    Raises:
        CallerError: If the body cannot be read.
    """
    words = text.rstrip()
    try:
        if endpoint != _RESPONSES:
            message: Json = {"role": _ASSISTANT, "content": words}
            return append_to_list(body, "messages", [message])
        content = [{"type": "output_text", "text": words, "annotations": []}]
        item: Json = {"type": "message", "role": _ASSISTANT, "content": content}
        return append_to_list(_with_input_list(body), "input", [item])
    except _UNREADABLE:
        raise _not_continuable() from None


def continuing_request(request: PreparedRequest, continues: Continues) -> PreparedRequest:
    """The request, whose last message is the beginning of the answer, told to go on from it.

    Raises:
        CallerError: If its upstream would begin a new message.
    """
    try:
        body = _bodies.decode(request.body)
        last = _last_message.decode(body.messages[-1])
    except (*_UNREADABLE, IndexError):
        raise _not_continuable() from None
    thinks = body.thinking is not None and body.thinking.type not in {"", "disabled"}
    if last.role != _ASSISTANT or last.tool_calls is not None or thinks or not continues:
        raise _not_continuable()
    fields: dict[str, bytes] = {}
    if continues == "continue_final_message":
        fields = {"continue_final_message": _TRUE, "add_generation_prompt": _FALSE}
    elif continues != "last_message":
        message = replace_fields(bytes(body.messages[-1]), {"prefix": _TRUE})
        fields = {"messages": msgspec.json.encode([*body.messages[:-1], msgspec.Raw(message)])}
    if not fields:
        return request
    return msgspec.structs.replace(request, body=replace_fields(request.body, fields))


def has_open_message(body: bytes, endpoint: str) -> bool:
    """True if the caller has begun the answer himself, by a last message of the assistant."""
    field = "input" if endpoint == _RESPONSES else "messages"
    try:
        raws = msgspec.json.decode(raw_field(body, field) or b"[]", type=list[msgspec.Raw])
        return bool(raws) and _last_message.decode(raws[-1]).role == _ASSISTANT
    except _UNREADABLE:
        return False


def _with_input_list(body: bytes) -> bytes:
    """A Responses body whose input is a list of items."""
    text = raw_field(body, "input")
    if text is None or text[:1] != b'"':
        return body
    return replace_fields(body, {"input": b'[{"role":"user","content":' + text + b"}]"})


def _not_continuable() -> CallerError:
    return CallerError(
        "The answer cannot be continued on this route.", code="not_continuable", param=None
    )
