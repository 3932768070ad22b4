"""Which conversation a call belongs to, and how far it has come; read from the prompt alone."""

from collections.abc import Iterator, Sequence
from typing import Final

import msgspec

from proxy.prefix.prompts.marks import bare
from proxy.prefix.prompts.objects import Unplannable, members
from proxy.prefix.prompts.prompt import Fingerprint, Prompt, parts, text

#: Fields that hold still within a conversation and may tell two alike apart.
_HINTS: Final = ("prompt_cache_key", "session_id", "user", "safety_identifier")
_NAMES: Final = ("conversation_id", "session_id", "thread_id")


def conversation(
    prompt: Prompt, who: Sequence[str], fingerprint: Fingerprint, opening: bytes
) -> bytes:
    """The conversation's identity: equal for calls that begin alike, from the same caller.

    It is read from the first message that is neither system nor developer, whose words stay the
    same to the end; marks on it, and whether a text is one part or plain, make no difference.

    Args:
        prompt: As the caller wrote it.
        who: Whose it is: team, feature, key, and the conversation's name where a header gave one.
        fingerprint: The team's keyed hash.
        opening: What ``opened`` says of its first message that is no instruction; b"" where there
            is none.
    """
    pieces = [name.encode() for name in who]
    pieces += _hints(prompt)
    return fingerprint(_joined([*pieces, opening]))


def opened(message: bytes, fingerprint: Fingerprint) -> bytes:
    """A fingerprint of what a message says, however it is written.

    Raises:
        Unplannable: If it cannot be read.
    """
    return fingerprint(_joined(list(_said(message))))


def _joined(pieces: Sequence[bytes]) -> bytes:
    """Pieces as one, so that where one ends makes a difference."""
    return b"".join(len(piece).to_bytes(8, "big") + piece for piece in pieces)


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
