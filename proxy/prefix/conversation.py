"""Which conversation a call belongs to, and how far it has come; read from the prompt alone."""

from collections.abc import Iterator, Sequence
from typing import Final

import msgspec

from proxy.prefix.marks import bare, members
from proxy.prefix.prompt import Fingerprint, Prompt, Unplannable, leading, parts, read, text

#: Fields that hold still within a conversation and may tell two alike apart.
_HINTS: Final = ("prompt_cache_key", "session_id", "user", "safety_identifier")
_NAMES: Final = ("conversation_id", "session_id", "thread_id")
_ASSISTANT: Final = "assistant"


def conversation(
    prompt: Prompt, who: Sequence[str], fingerprint: Fingerprint, opening: bytes | None = None
) -> bytes:
    """The conversation's identity: equal for calls that begin alike, from the same caller.

    It is read from the first message that is neither system nor developer, whose words stay the
    same to the end; marks on it, and whether a text is one part or plain, make no difference.

    Args:
        prompt: As the caller wrote it.
        who: Whose it is: team, feature, key, and the conversation's name where a header gave one.
        fingerprint: The team's keyed hash.
        opening: What ``opened`` says of its first message that is no instruction; None to find
            out, b"" where there is none.

    Raises:
        Unplannable: If a message cannot be read.
    """
    pieces = [name.encode() for name in who]
    pieces += _hints(prompt)
    if opening is None:
        first = leading(prompt)
        talks = first < len(prompt.messages)
        opening = opened(prompt.messages[first], fingerprint) if talks else b""
    return fingerprint(_joined([*pieces, opening]))


def opened(message: bytes, fingerprint: Fingerprint) -> bytes:
    """A fingerprint of what a message says, however it is written.

    Raises:
        Unplannable: If it cannot be read.
    """
    return fingerprint(_joined(list(_said(message))))


def turn(prompt: Prompt) -> int:
    """How many assistant messages it holds; 0 in a conversation's first call.

    Raises:
        Unplannable: If a message cannot be read.
    """
    return _roles(prompt).count(_ASSISTANT)


def grown(prompt: Prompt) -> int:
    """Index of the first message that the previous call did not have; 0 where there was none.

    The previous call ended where the last run of assistant messages begins: what follows is the
    answer and what came after it. An assistant message at the very end is the start of an answer
    not yet given.

    Raises:
        Unplannable: If a message cannot be read.
    """
    roles = _roles(prompt)
    at = len(roles)
    while at and roles[at - 1] == _ASSISTANT:
        at -= 1
    while at and roles[at - 1] != _ASSISTANT:
        at -= 1
    while at and roles[at - 1] == _ASSISTANT:
        at -= 1
    return at


def _joined(pieces: Sequence[bytes]) -> bytes:
    """Pieces as one, so that where one ends makes a difference."""
    return b"".join(len(piece).to_bytes(8, "big") + piece for piece in pieces)


def _roles(prompt: Prompt) -> list[str]:
    """Who speaks in each message, what varies per call aside."""
    return [read(raw).role for raw in prompt.messages[: len(prompt.messages) - prompt.tail]]


def _hints(prompt: Prompt) -> Iterator[bytes]:
    """What the caller itself says of the conversation, always as many pieces."""
    for name in _HINTS:
        yield prompt.fields.get(name, b"")
    try:
        named = members(prompt.fields.get("metadata", b"{}"))
    except Unplannable:
        named = {}
    for name in _NAMES:
        yield named.get(name, b"")


def _said(message: bytes) -> Iterator[bytes]:
    """The pieces of a message that stay the same however it is written."""
    found = members(bare(message))
    content = parts(msgspec.Raw(found.pop("content", b"null")))
    for piece in content:
        words = text(piece)
        yield words.encode() if words is not None else bare(piece)
    yield from (name.encode() + b":" + held for name, held in sorted(found.items()))
