"""A chat body, taken apart where planning may touch it; everything else stays the caller's bytes.

::

    body ── parsed ──▶ Prompt ── moves, marks ──▶ Prompt ── rendered ──▶ body

Wire order is tools, leading system messages, the conversation, and last what varies per call.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import StrEnum
from typing import Final

import msgspec

#: A keyed hash of a text: equal texts of one team are seen to be equal, nothing else is.
Fingerprint = Callable[[bytes], bytes]

#: Who speaks with the application's authority.
AUTHORITY: Final = frozenset({"system", "developer"})
#: Messages, tools and parts of leading messages that one prompt may have.
MOST: Final = 4_096
_MESSAGES: Final = "messages"
_TOOLS: Final = "tools"


class Slot(StrEnum):
    """How long a piece of prompt stays the same."""

    STABLE = "stable"  #: For every caller of a feature.
    SEMI_STABLE = "semi-stable"  #: Within a conversation.
    VARIABLE = "variable"  #: For one call.


class Unplannable(ValueError):
    """A body that planning leaves alone; says why."""


class Prompt(msgspec.Struct, frozen=True, kw_only=True):
    """A chat body in its pieces; each piece is JSON as the caller wrote it, or as it was planned.

    Attributes:
        fields: Every top-level field in the caller's order; those of messages and tools are empty.
        messages: Each message.
        tools: Each tool definition.
        semi: Where the semi-stable slot begins in the leading system messages, as (message, part);
            None where it is empty.
        tail: How many messages at the end vary per call; no later call repeats them.
    """

    fields: Mapping[str, bytes]
    messages: tuple[bytes, ...]
    tools: tuple[bytes, ...] = ()
    semi: tuple[int, int] | None = None
    tail: int = 0

    def rendered(self) -> bytes:
        """The body."""
        arrays = {_MESSAGES: self.messages, _TOOLS: self.tools}
        pieces = [b"{"]
        for name, raw in self.fields.items():
            pieces += (msgspec.json.encode(name), b":", raw)
            if name in arrays and not raw:
                pieces.append(b"[")
                pieces += [each for one in arrays[name] for each in (one, b",")]
                pieces[-1] = b"]" if arrays[name] else b"[]"
            pieces.append(b",")
        pieces[-1] = b"}" if self.fields else b"{}"
        return b"".join(pieces)


class Message(msgspec.Struct):
    """What planning reads of a message.

    Attributes:
        content: As JSON: a text, a list of parts, or null.
    """

    role: str = ""
    content: msgspec.Raw = msgspec.Raw(b"null")


class Reading(msgspec.Struct, frozen=True, gc=False):
    """What planning remembers of a message.

    Attributes:
        role: Who speaks.
        digest: Its fingerprint.
        may_mark: Whether there can be a mark in it.
        tagged: Whether it may hold tags.
    """

    role: str
    digest: bytes
    may_mark: bool = True
    tagged: bool = True


class Block(msgspec.Struct, frozen=True):
    """A place at whose end a breakpoint can stand: a tool, a system part, or a whole message.

    Attributes:
        message: Index of its message; -1 for a tool.
        part: Index of the tool, or of the part in a leading system message; -1 for all of the
            message.
        size: Bytes of its JSON.
        digest: Its fingerprint.
    """

    role: str
    slot: Slot
    message: int
    part: int
    size: int
    digest: bytes


_fields = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_list = msgspec.json.Decoder(list[msgspec.Raw]).decode
_message = msgspec.json.Decoder(Message).decode
_text = msgspec.json.Decoder(str).decode
_gap = re.compile(rb"[ \t\n\r]*").match


def parsed(body: bytes) -> Prompt:
    """The body in its pieces.

    Raises:
        Unplannable: If it is no chat body, has too many pieces, or cannot be written again as
            it is.
    """
    try:
        found = _fields(body)
        messages = _list(found[_MESSAGES])
        tools = _list(found[_TOOLS]) if bytes(found.get(_TOOLS, b"null")) != b"null" else None
    except (KeyError, msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise Unplannable(f"not a chat body: {error}") from None
    if len(messages) + len(tools or ()) > MOST:
        raise Unplannable(f"more than {MOST:,} messages and tools")
    if not is_exact(body, found):
        raise Unplannable("a key of the body stands twice or is escaped")
    taken = {_MESSAGES} if tools is None else {_MESSAGES, _TOOLS}
    return Prompt(
        fields={name: b"" if name in taken else bytes(raw) for name, raw in found.items()},
        messages=tuple(map(bytes, messages)),
        tools=tuple(map(bytes, tools or ())),
    )


def is_exact(raw: bytes, members: Mapping[str, msgspec.Raw | bytes]) -> bool:
    """Whether an object holds these members and nothing more; no key stands twice or is escaped."""
    at = raw.find(b"{") + 1
    ends = b"," if members else raw[_after(raw, at) :][:1]
    for name, value in members.items():
        for piece in (msgspec.json.encode(name), b":", bytes(value)):
            at = _after(raw, at)
            if ends != b"," or not raw.startswith(piece, at):
                return False
            at += len(piece)
        at = _after(raw, at) + 1
        ends = raw[at - 1 : at]
    return ends == b"}"


def _after(raw: bytes, at: int) -> int:
    """Where the white space ends that begins there."""
    found = _gap(raw, at)
    return found.end() if found else at


def read(message: bytes) -> Message:
    """What planning reads of a message.

    Raises:
        Unplannable: If it is no object with a role.
    """
    try:
        return _message(message)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise Unplannable(f"not a message: {error}") from None


def leading(prompt: Prompt) -> int:
    """How many messages stand before the conversation: those of system and developer."""
    for index, raw in enumerate(prompt.messages):
        if read(raw).role not in AUTHORITY:
            return index
    return len(prompt.messages)


def parts(content: msgspec.Raw) -> tuple[bytes, ...]:
    """The JSON of each part of a content; a text is one part, as a JSON string; none for null.

    Raises:
        Unplannable: If it is neither text nor a list, or the list is too long.
    """
    raw = bytes(content).strip()
    if raw[:1] == b'"':
        return (raw,)
    if raw == b"null":
        return ()
    try:
        found = _list(raw)
    except msgspec.DecodeError as error:
        raise Unplannable(f"not a content: {error}") from None
    if len(found) > MOST:
        raise Unplannable(f"more than {MOST:,} parts in a message")
    return tuple(map(bytes, found))


def text(part: bytes) -> str | None:
    """The words of a text part or of a JSON string; None where it is something else."""
    try:
        if part[:1] == b'"':
            return _text(part)
        found = _part(part)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return None
    return found.text if found.type == "text" else None


class _Part(msgspec.Struct):
    type: str = ""
    text: str | None = None


_part = msgspec.json.Decoder(_Part).decode


class Pieces:
    """The JSON of a prompt's blocks, asked for in wire order: each message is read once."""

    def __init__(self, prompt: Prompt) -> None:
        self._prompt = prompt
        self._message = -1
        self._parts: tuple[bytes, ...] = ()

    def of(self, block: Block) -> bytes:
        """The JSON of a block.

        Raises:
            Unplannable: If its message cannot be read.
        """
        if block.message < 0:
            return self._prompt.tools[block.part]
        message = self._prompt.messages[block.message]
        if block.part < 0:
            return message
        if block.message != self._message:
            self._message, self._parts = block.message, parts(read(message).content)
        return self._parts[block.part]


def blocks(
    prompt: Prompt, fingerprint: Fingerprint, readings: Sequence[Reading] = ()
) -> tuple[Block, ...]:
    """Every place a breakpoint can stand, in wire order.

    Args:
        prompt: The prompt.
        fingerprint: The team's.
        readings: What is known of each message; empty where nothing is.

    Raises:
        Unplannable: If a message cannot be read, or the parts of leading ones are too many.
    """
    known = readings or [Reading(read(raw).role, fingerprint(raw)) for raw in prompt.messages]
    return (*_head(prompt, fingerprint, known), *_talk(prompt, known))


def _head(prompt: Prompt, fingerprint: Fingerprint, readings: Sequence[Reading]) -> Iterator[Block]:
    for index, tool in enumerate(prompt.tools):
        yield Block("tools", Slot.STABLE, -1, index, len(tool), fingerprint(tool))
    first = _first(readings)
    semi = prompt.semi or (first, 0)
    count = 0
    for index in range(first):
        message = read(prompt.messages[index])
        pieces = parts(message.content)
        count += len(pieces)
        if count > MOST:
            raise Unplannable(f"more than {MOST:,} parts in leading messages")
        for at, part in enumerate(pieces):
            slot = Slot.SEMI_STABLE if (index, at) >= semi else Slot.STABLE
            yield Block(message.role, slot, index, at, len(part), fingerprint(part))


def _talk(prompt: Prompt, readings: Sequence[Reading]) -> list[Block]:
    first = _first(readings)
    return [
        Block(known.role, Slot.VARIABLE, index, -1, len(raw), known.digest)
        for index, (raw, known) in enumerate(
            zip(prompt.messages[first:], readings[first:], strict=True), first
        )
    ]


def _first(readings: Sequence[Reading]) -> int:
    """How many messages stand before the conversation."""
    found = enumerate(readings)
    return next((at for at, one in found if one.role not in AUTHORITY), len(readings))
