"""A chat body, taken apart where planning may touch it; everything else stays the caller's bytes.

::

    body ── parsed ──▶ Prompt ── moves, marks ──▶ Prompt ── rendered ──▶ body

Wire order is tools, leading system messages, the conversation, and last what varies per call.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from functools import lru_cache
from itertools import repeat
from operator import attrgetter
from typing import Final

import msgspec

from proxy.prefix.prompts import items, native
from proxy.prefix.prompts.objects import (
    Unplannable,
    elements,
    is_exact,
    known_elements,
    members,
    write_object,
)
from proxy.records.body_reader import READ_ALREADY, SplitBody

#: A keyed hash of a text: equal texts of one team are seen to be equal, nothing else is.
Fingerprint = Callable[[bytes], bytes]

#: Roles that speak with the application's authority.
AUTHORITY: Final = frozenset({"system", "developer"})
ASSISTANT: Final = "assistant"
#: Bytes of a prompt's token, where nobody counted.
BYTES_PER_TOKEN: Final = 4
#: Messages, tools and parts of leading messages that one prompt may have.
MAX_PIECES: Final = 4_096
#: Bytes of what stands around messages above which it is not remembered, and most that are.
_MAX_CACHED_BYTES, _MAX_CACHED = 2**16, 256
_MESSAGES: Final = "messages"
_NOT_EXACT: Final = "a key of the body stands twice or is escaped"
_TOOLS: Final = "tools"


class PromptSlot(StrEnum):
    """The stability of a piece of prompt."""

    STABLE = "stable"  #: For every caller of a feature.
    SEMI_STABLE = "semi-stable"  #: Within a conversation.
    VARIABLE = "variable"  #: For one call.


#: From the slot that stays the longest to the one that stays the shortest.
RANK: Final = {slot: rank for rank, slot in enumerate(PromptSlot)}


class Prompt(msgspec.Struct, frozen=True, kw_only=True):
    """A chat body in its pieces; each piece is JSON as the caller wrote it, or as it was planned.

    One of the Responses API is held in chat's shape; see ``proxy.prefix.prompts.items``. So is one
    of the Messages API; see ``proxy.prefix.prompts.native``.

    Attributes:
        fields: Every top-level field in the caller's order; those of messages and tools are empty.
        semi: Start of the semi-stable slot in the leading system messages, as (message, part); None
            where it is empty.
        tail: Number of messages at the end that vary per call; no later call repeats them.
        is_native: True if it is a body of the Messages API.
    """

    fields: Mapping[str, bytes]
    messages: tuple[bytes, ...]
    tools: tuple[bytes, ...] = ()
    semi: tuple[int, int] | None = None
    tail: int = 0
    is_native: bool = False

    def render(self) -> bytes:
        """The body."""
        if self.is_native:
            return write_object(native.native_fields(self.fields, self.messages, self.tools))
        if items.is_items(self.fields):
            return items.items_body(self.fields, self.messages, self.tools)
        arrays = {_MESSAGES: self.messages, _TOOLS: self.tools}
        pieces = [b"{"]
        for name, raw in self.fields.items():
            pieces += (msgspec.json.encode(name), b":", raw)
            if name in arrays and not raw:
                separated = [b","] * (2 * len(arrays[name]))  # a long text is copied once
                separated[1::2] = arrays[name]
                pieces += (b"[", *separated[1:], b"]")
            pieces.append(b",")
        pieces[-1] = b"}" if self.fields else b"{}"
        return b"".join(pieces)


class PromptMessage(msgspec.Struct):
    """The fields of a message that planning reads.

    Attributes:
        content: As JSON: a text, a list of parts, or null.
    """

    role: str = ""
    content: msgspec.Raw = msgspec.Raw(b"null")


class MessageReading(msgspec.Struct, frozen=True, gc=False):
    """The facts of a message that planning remembers.

    Attributes:
        may_mark: True if there can be a mark in it.
        tagged: True if it may hold tags.
        bare: The size and the fingerprint of what it holds besides marks; None for its own.
        says: The fingerprint of what it says, however that is written; b"" for nothing.
    """

    role: str
    digest: bytes
    may_mark: bool = True
    tagged: bool = True
    bare: tuple[int, bytes] | None = None
    says: bytes = b""

    @property
    def is_plain(self) -> bool:
        """True if it holds neither a mark nor a tag, and is written as it would be again."""
        return self.bare is None and not (self.may_mark or self.tagged)


class PromptBlock(msgspec.Struct, frozen=True, gc=False):
    """A place at whose end a breakpoint can stand: a tool, a system part, or a whole message.

    Attributes:
        message: Index of its message; -1 for a tool.
        part: Index of the tool, or of the part in a leading system message; -1 for all of the
            message.
        size: Bytes of its JSON.
    """

    role: str
    slot: PromptSlot
    message: int
    part: int
    size: int
    digest: bytes

    @property
    def kind(self) -> str:
        """Its type on the wire, as far as the role says it."""
        return "tool_result" if self.role == "tool" else "text"


_role_of, _digest_of = attrgetter("role"), attrgetter("digest")
_message = msgspec.json.Decoder(PromptMessage).decode
_text = msgspec.json.Decoder(str).decode


def parse_prompt(
    body: bytes,
    *,
    goes_on: bool = False,
    is_native: bool = False,
    split: SplitBody | None = None,
) -> Prompt:
    """The body in its pieces.

    With ``goes_on``, one that goes on from what its provider keeps is read, too. ``split`` is the
    body, where its messages were found before.

    Raises:
        Unplannable: If it is no such body, has too many pieces, or cannot be written again as
            it is.
    """
    own_split = split if split is not None and split.body is body else None
    try:
        body_fields = members(body) if own_split is None else _members_around(own_split.around)
        is_chat = is_native or not items.is_items(body_fields)
        chat = _separate_prompt(body_fields, own_split, is_native=is_native) if is_chat else None
    except (KeyError, Unplannable) as error:
        raise Unplannable(f"not a chat body: {error}") from None
    fields, messages, tools = chat or (
        items.empty_fields(body_fields),
        *items.read_items(body_fields, goes_on=goes_on),
    )
    if len(messages) + len(tools) > MAX_PIECES:
        raise Unplannable(f"more than {MAX_PIECES:,} messages and tools")
    if own_split is None and not is_exact(body, body_fields):
        raise Unplannable(_NOT_EXACT)
    return Prompt(fields=fields, messages=messages, tools=tools, is_native=is_native)


def _separate_prompt(
    body_fields: Mapping[str, bytes], split: SplitBody | None, *, is_native: bool
) -> tuple[Mapping[str, bytes], tuple[bytes, ...], tuple[bytes, ...]]:
    """The fields of a body without its messages, instructions and tools, and those."""
    messages = elements(body_fields[_MESSAGES]) if split is None else split.messages
    if is_native:
        return native.empty_native_fields(body_fields), *native.read_native(body_fields, messages)
    if body_fields.get(_TOOLS, b"null") == b"null":
        return {**body_fields, _MESSAGES: b""}, messages, ()
    return (
        {**body_fields, _MESSAGES: b"", _TOOLS: b""},
        messages,
        known_elements(body_fields[_TOOLS]),
    )


@lru_cache(maxsize=_MAX_CACHED)
def _known_members(around: bytes) -> Mapping[str, bytes]:
    """The members of a body without its messages: those of most calls are another's, too.

    Raises:
        Unplannable: If it holds anything else.
    """
    fields = members(around)
    if fields.get(_MESSAGES) != READ_ALREADY or not is_exact(around, fields):
        raise Unplannable(_NOT_EXACT)
    return fields


def _members_around(around: bytes) -> Mapping[str, bytes]:
    is_short = len(around) <= _MAX_CACHED_BYTES
    return (_known_members if is_short else _known_members.__wrapped__)(around)


def parse_message(message: bytes) -> PromptMessage:
    """The fields of a message that planning reads.

    Raises:
        Unplannable: If it is no object with a role.
    """
    try:
        return _message(message)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise Unplannable(f"not a message: {error}") from None


def count_leading(prompt: Prompt) -> int:
    """Number of messages before the conversation: those of system and developer."""
    return count_leading_roles(parse_message(raw).role for raw in prompt.messages)


def count_leading_roles(roles: Iterable[str]) -> int:
    """Number of these roles, in wire order, that speak before the conversation begins."""
    count = 0
    for role in roles:
        if role not in AUTHORITY:
            break
        count += 1
    return count


def content_parts(content: msgspec.Raw) -> tuple[bytes, ...]:
    """The JSON of each part of a content; a text is one part, as a JSON string; none for null.

    Raises:
        Unplannable: If it is neither text nor a list, or the list is too long.
    """
    raw = bytes(content).strip()
    if raw[:1] == b'"':
        return (raw,)
    if raw == b"null":
        return ()
    parts = elements(raw)
    if len(parts) > MAX_PIECES:
        raise Unplannable(f"more than {MAX_PIECES:,} parts in a message")
    return parts


def part_text(part: bytes) -> str | None:
    """The words of a text part or of a JSON string; None where it is something else."""
    try:
        if part[:1] == b'"':
            return _text(part)
        parsed = _part(part)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return None
    return parsed.text if parsed.type == "text" else None


def has_words(words: bytes) -> bool:
    """True if the JSON of a text, without quotes, is sound and not blank."""
    return bool((part_text(b'"%b"' % words) or "").strip())


class _Part(msgspec.Struct):
    type: str = ""
    text: str | None = None


_part = msgspec.json.Decoder(_Part).decode


class BlockJson:
    """The JSON of a prompt's blocks, asked for in wire order: each message is read once."""

    def __init__(self, prompt: Prompt) -> None:
        self._prompt = prompt
        self._message = -1
        self._parts: tuple[bytes, ...] = ()

    def block_json(self, block: PromptBlock) -> bytes:
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
            self._message, self._parts = (
                block.message,
                content_parts(parse_message(message).content),
            )
        return self._parts[block.part]


def tool_blocks(prompt: Prompt, fingerprint: Fingerprint) -> tuple[PromptBlock, ...]:
    """The blocks of the tools."""
    return tuple(
        [
            PromptBlock("tools", PromptSlot.STABLE, -1, index, len(tool), fingerprint(tool))
            for index, tool in enumerate(prompt.tools)
        ]
    )


def leading_text_blocks(
    prompt: Prompt, fingerprint: Fingerprint, first: int
) -> Iterator[PromptBlock]:
    """The blocks of the messages before ``first``, part by part.

    Raises:
        Unplannable: If a message cannot be read, or their parts are too many.
    """
    semi = prompt.semi or (first, 0)
    count = 0
    for index in range(first):
        message = parse_message(prompt.messages[index])
        pieces = content_parts(message.content)
        count += len(pieces)
        if count > MAX_PIECES:
            raise Unplannable(f"more than {MAX_PIECES:,} parts in leading messages")
        for part_index, part in enumerate(pieces):
            slot = PromptSlot.SEMI_STABLE if (index, part_index) >= semi else PromptSlot.STABLE
            role = "tools" if part.startswith(items.OFFERED_PART) else message.role
            yield PromptBlock(role, slot, index, part_index, len(part), fingerprint(part))


def conversation_blocks(
    prompt: Prompt, readings: Sequence[MessageReading], first: int
) -> list[PromptBlock]:
    """The blocks of the messages from ``first`` on, each a whole one."""
    messages, own = prompt.messages[first:], readings[first:]
    roles, digests = map(_role_of, own), map(_digest_of, own)
    slots, parts = repeat(PromptSlot.VARIABLE), repeat(-1)
    places = range(first, len(prompt.messages))
    return [*map(PromptBlock, roles, slots, places, parts, map(len, messages), digests)]
