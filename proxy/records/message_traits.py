"""Reads traits of a conversation's messages: what is in them beside text, and how they begin; pure.

A conversation resends its messages, so the traits of those that are known go on to its next call.
"""

from collections.abc import Iterable, Sequence
from typing import Final

import msgspec

#: Bytes of the first message that tell it from others.
_MAX_START_BYTES: Final = 4096
#: Parts of a message that are no text, in all APIs: what takes one takes all.
#: Source: OpenAI API reference, create chat completion, create a response; Anthropic API, create a
#: message (2026-11).
NON_TEXT_TYPES: Final = frozenset(
    {
        b'"document"',
        b'"file"',
        b'"image"',
        b'"image_url"',
        b'"input_audio"',
        b'"input_file"',
        b'"input_image"',
    }
)
_ABSENT: Final = msgspec.Raw(b"")
_USER: Final = msgspec.Raw(b'"user"')
_ASSISTANT: Final = msgspec.Raw(b'"assistant"')
_FUNCTION_RESULT: Final = msgspec.Raw(b'"function_call_output"')
_LIST: Final = ord("[")


class Message(msgspec.Struct):
    """A message of a chat call, or an item of a Responses call."""

    role: msgspec.Raw = _ABSENT
    type: msgspec.Raw = _ABSENT
    content: msgspec.Raw = _ABSENT
    output: msgspec.Raw = _ABSENT


class _Part(msgspec.Struct):
    """A part of a message, or a tool.

    Attributes:
        content: Parts of a tool's result, in Anthropic's API.
    """

    type: msgspec.Raw = _ABSENT
    content: msgspec.Raw = _ABSENT


class MessageTraits(msgspec.Struct, frozen=True):
    """Traits of messages in their order.

    Attributes:
        count: Number of them.
        first_user: Index of the user's first message; -1 where there is none.
        is_answered: True if one of them is an answer.
        has_parts: True if one of them is or has a part that is no text.
    """

    count: int = 0
    first_user: int = -1
    is_answered: bool = False
    has_parts: bool = False


NO_MESSAGES: Final = MessageTraits()
UNREADABLE: Final = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
_decode_message: Final = msgspec.json.Decoder(Message).decode
decode_parts: Final = msgspec.json.Decoder(list[_Part]).decode


def read_messages(
    messages: Sequence[bytes], before: MessageTraits | None = NO_MESSAGES
) -> MessageTraits | None:
    """The traits of messages behind others; None where one of them is no JSON object."""
    if before is None or not messages:
        return before
    try:
        return traits_of(map(_decode_message, messages), before)
    except UNREADABLE:
        return None


def traits_of(messages: Iterable[Message], before: MessageTraits = NO_MESSAGES) -> MessageTraits:
    """The traits of decoded messages behind others."""
    count, first_user = before.count, before.first_user
    is_answered, has_parts = before.is_answered, before.has_parts
    for message in messages:
        if first_user < 0 and message.role == _USER:
            first_user = count
        count += 1
        is_answered = is_answered or _is_answer(message)
        has_parts = has_parts or _has_non_text_part(message)
    return MessageTraits(count, first_user, is_answered, has_parts)


def content_start(message: Message) -> bytes:
    """The beginning of a message's content, as JSON; b"" where it has none."""
    return bytes(memoryview(message.content)[:_MAX_START_BYTES])


def content_start_of(raw: bytes) -> bytes:
    """The same of a message as it was sent."""
    return content_start(_decode_message(raw))


def _is_answer(message: Message) -> bool:
    return message.role == _ASSISTANT or message.type == _FUNCTION_RESULT


def _has_non_text_part(message: Message) -> bool:
    """True if it is or has a part that is no text."""
    is_non_text = message.type is not _ABSENT and bytes(message.type) in NON_TEXT_TYPES
    return is_non_text or _has_non_text(message.content) or _has_non_text(message.output)


def _has_non_text(parts: msgspec.Raw) -> bool:
    """True if a list of parts has one that is no text, or cannot be read."""
    if parts is _ABSENT or memoryview(parts)[0] != _LIST:
        return False
    try:
        decoded = decode_parts(parts)
    except UNREADABLE:
        return True
    return any(
        bytes(part.type) in NON_TEXT_TYPES or _has_non_text(part.content) for part in decoded
    )
