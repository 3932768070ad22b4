"""A chat body, taken apart where planning may touch it; everything else stays the caller's bytes.

::

    body ── parsed ──▶ Prompt ── moves, marks ──▶ Prompt ── rendered ──▶ body

Wire order is tools, leading system messages, the conversation, and last what varies per call.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from functools import lru_cache
from itertools import takewhile
from typing import Final

import msgspec

from proxy.prefix.prompts import items
from proxy.prefix.prompts.objects import Unplannable, elements, is_exact, members

#: A keyed hash of a text: equal texts of one team are seen to be equal, nothing else is.
Fingerprint = Callable[[bytes], bytes]

#: Who speaks with the application's authority.
AUTHORITY: Final = frozenset({"system", "developer"})
ASSISTANT: Final = "assistant"
#: What a token of a prompt takes, where nobody counted.
BYTES_PER_TOKEN: Final = 4
#: Messages, tools and parts of leading messages that one prompt may have.
MOST: Final = 4_096
#: Bytes above which a list of tools is not remembered.
_LARGE: Final = 2**16
_MESSAGES: Final = "messages"
_TOOLS: Final = "tools"


class Slot(StrEnum):
    """How long a piece of prompt stays the same."""

    STABLE = "stable"  #: For every caller of a feature.
    SEMI_STABLE = "semi-stable"  #: Within a conversation.
    VARIABLE = "variable"  #: For one call.


#: From the slot that stays the longest to the one that stays the shortest.
RANK: Final = {slot: rank for rank, slot in enumerate(Slot)}


class Prompt(msgspec.Struct, frozen=True, kw_only=True):
    """A chat body in its pieces; each piece is JSON as the caller wrote it, or as it was planned.

    One of the Responses API is held in chat's shape; see ``proxy.prefix.prompts.items``.

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
        if items.is_items(self.fields):
            return items.body(self.fields, self.messages, self.tools)
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
        bare: The size and the fingerprint of what it holds besides marks; None for its own.
        says: The fingerprint of what it says, however that is written; b"" for nothing.
    """

    role: str
    digest: bytes
    may_mark: bool = True
    tagged: bool = True
    bare: tuple[int, bytes] | None = None
    says: bytes = b""


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


_message = msgspec.json.Decoder(Message).decode
_text = msgspec.json.Decoder(str).decode


def parsed(body: bytes, *, goes_on: bool = False) -> Prompt:
    """The body in its pieces.

    Args:
        body: A chat body, or one of the Responses API.
        goes_on: Whether one that goes on from what its provider keeps is read, too.

    Raises:
        Unplannable: If it is no chat body, has too many pieces, or cannot be written again as
            it is.
    """
    try:
        found = members(body)
        taken = _taken(found)
    except (KeyError, Unplannable) as error:
        raise Unplannable(f"not a chat body: {error}") from None
    fields, messages, tools = taken or (items.emptied(found), *items.read(found, goes_on=goes_on))
    if len(messages) + len(tools) > MOST:
        raise Unplannable(f"more than {MOST:,} messages and tools")
    if not is_exact(body, found):
        raise Unplannable("a key of the body stands twice or is escaped")
    return Prompt(fields=fields, messages=messages, tools=tools)


def _taken(
    found: Mapping[str, bytes],
) -> tuple[Mapping[str, bytes], tuple[bytes, ...], tuple[bytes, ...]] | None:
    """The fields of a chat body without its messages and tools, and those; None for another."""
    if items.is_items(found):
        return None
    tools = found.get(_TOOLS, b"null")
    taken = {_MESSAGES: b""} if tools == b"null" else {_MESSAGES: b"", _TOOLS: b""}
    offered = _offered(tools) if _TOOLS in taken else ()
    return {**found, **taken}, elements(found[_MESSAGES]), offered


def _offered(tools: bytes) -> tuple[bytes, ...]:
    return (_known if len(tools) <= _LARGE else elements)(tools)


#: Lists of tools seen lately, in their pieces: at most 32 MiB.
_known = lru_cache(maxsize=256)(elements)


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
    """Number of messages stand before the conversation: those of system and developer."""
    return led(read(raw).role for raw in prompt.messages)


def led(roles: Iterable[str]) -> int:
    """Number of of these speak before the conversation begins, whose roles come in wire order."""
    return sum(1 for _ in takewhile(AUTHORITY.__contains__, roles))


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
    found = elements(raw)
    if len(found) > MOST:
        raise Unplannable(f"more than {MOST:,} parts in a message")
    return found


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


def front(prompt: Prompt, fingerprint: Fingerprint, first: int) -> Iterator[Block]:
    """The blocks of the tools and of the messages before ``first``, part by part.

    Raises:
        Unplannable: If a message cannot be read, or their parts are too many.
    """
    for index, tool in enumerate(prompt.tools):
        yield Block("tools", Slot.STABLE, -1, index, len(tool), fingerprint(tool))
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


def talk(prompt: Prompt, readings: Sequence[Reading], first: int) -> list[Block]:
    """The blocks of the messages from ``first`` on, each a whole one."""
    slot = Slot.VARIABLE
    every = enumerate(zip(prompt.messages[first:], readings[first:], strict=True), first)
    return [Block(one.role, slot, at, -1, len(raw), one.digest) for at, (raw, one) in every]
