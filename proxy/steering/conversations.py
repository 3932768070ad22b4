"""Whether a call goes on with a conversation, and which; pure."""

import re
from hashlib import blake2b
from typing import Final

import msgspec

from proxy.call import Call

#: How a message of the assistant begins, in chat and in Responses calls, and what every such
#: beginning has in it: looking for that first takes a hundredth of the time.
_ANSWERED: Final = re.compile(rb'"role"\s*:\s*"assistant"|"type"\s*:\s*"function_call_output"')
_MARKS: Final = (b'"assistant"', b'"function_call_output"')
_ROOM: Final = 4096


class _Message(msgspec.Struct):
    role: str = ""
    content: msgspec.Raw = msgspec.Raw(b"")


class _Talk(msgspec.Struct):
    """Where a body's conversation stands, whichever endpoint it is for."""

    messages: list[_Message] = []
    input: str | list[_Message] | None = None


_TALK: Final = msgspec.json.Decoder(_Talk)


def is_bound(call: Call) -> bool:
    """Whether only the upstream that keeps what came before can answer it."""
    return call.ask is not None and call.ask.needs_kept_state


def is_new(call: Call) -> bool:
    """Whether nothing of the call's conversation that it says itself was answered before.

    Words of a prompt that look like an answer count as one: then the call stays where it is.
    """
    body = call.body
    return not any(mark in body for mark in _MARKS) or _ANSWERED.search(body) is None


def named(call: Call) -> bytes:
    """16 bytes that a conversation's calls share: its name, else who asked and what came first.

    Conversations without a name that begin with the same words share them, too.
    """
    texts = (call.key.team, call.feature, call.end_user, call.conversation)
    parts = [text.encode(errors="replace") for text in texts]
    if not call.conversation:
        parts.append(_first(call.body))
    return blake2b(b"\0".join(parts), digest_size=16).digest()


def draw(call: Call) -> float:
    """A number from 0 to below 1 that is the call's own, on every replica the same."""
    return int.from_bytes(blake2b(call.id.encode(), digest_size=6).digest(), "big") / 2.0**48


def _first(body: bytes) -> bytes:
    """The first message that is the user's, cut to what tells it from others."""
    try:
        talk = _TALK.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return body[:_ROOM]
    if isinstance(talk.input, str):
        return talk.input[:_ROOM].encode(errors="replace")
    said = talk.messages or talk.input or []
    users = (bytes(each.content) for each in said if each.role == "user")
    return next(users, b"")[:_ROOM]
