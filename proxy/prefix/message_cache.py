"""Caches parsed tools, instructions and messages: each call sends most of them again."""

import re
from collections.abc import Mapping, Sequence
from itertools import repeat
from typing import Any, Final

import msgspec

from proxy.prefix.prediction.leading_texts import leading_lines
from proxy.prefix.prediction.sent_call import TextLines
from proxy.prefix.prompts.conversation import message_digest
from proxy.prefix.prompts.fingerprints import digest_without_marks, without_marks
from proxy.prefix.prompts.marks import may_mark
from proxy.prefix.prompts.objects import Unplannable, is_exact, may_hold_tags, members
from proxy.prefix.prompts.prompt import (
    ASSISTANT,
    BlockJson,
    Fingerprint,
    MessageReading,
    Prompt,
    PromptBlock,
    content_parts,
    conversation_blocks,
    leading_text_blocks,
    part_text,
    tool_blocks,
)
from proxy.records.body_reader import SplitBody
from proxy.records.lru_cache import LruCache

#: Bytes of a block and of a text's lines besides their fingerprints, about.
_BLOCK_BYTES: Final = 250
#: Bytes of a message's reading, as measured.
_READING_BYTES: Final = 290
_TEXT_LINES_BYTES: Final = 300
#: Bytes of each message of a body's beginning: its reading and its block.
_BEGINNING_BYTES: Final = 440
_ROLES: Final = {f'"{role}"'.encode(): role for role in ("user", ASSISTANT, "system", "tool")}
#: A message that is a role and a text stands so around these.
_PLAIN: Final = (b'{"role":', b',"content":')
_SPACED: Final = (b'{"role": ', b', "content": ')
#: An escape that would be written another way. An expression finds it four times as fast as `find`.
_find_other_escape: Final = re.compile(rb"\\[u/]").search
_PrefixKey = tuple[Fingerprint, int, int, tuple[int, int] | None]
_ToolsKey = tuple[Fingerprint, int]
_MessageKey = tuple[Fingerprint, int]


class SharedPrefix(msgspec.Struct, frozen=True):
    """The part of a prompt that stands before its conversation.

    Attributes:
        lines: The lines of each text, by index of its block.
        may_mark: True if there can be a mark in a tool.
    """

    blocks: Sequence[PromptBlock]
    bare: Sequence[PromptBlock]
    lines: Mapping[int, TextLines]
    may_mark: bool

    @property
    def size(self) -> int:
        """About how many bytes it takes."""
        lines = sum(
            _TEXT_LINES_BYTES + len(text_lines.digests) * 2 for text_lines in self.lines.values()
        )
        return _BLOCK_BYTES * len(self.blocks) + lines


class Beginning(msgspec.Struct):
    """The beginning of a body, as far as the next one of its conversation may repeat it.

    Attributes:
        blocks: Blocks of those behind its instructions; of fewer, where they are not known yet.
        is_plain: True if no message of the body holds a mark, a tag, or JSON written another way.
    """

    readings: tuple[MessageReading, ...]
    blocks: tuple[PromptBlock, ...] = ()
    is_plain: bool = False

    def conversation_blocks(
        self, prompt: Prompt, readings: Sequence[MessageReading], first: int
    ) -> list[PromptBlock]:
        """The blocks of a body that begins so, from the message ``first`` on."""
        known_blocks = self.blocks
        blocks = [*known_blocks, *conversation_blocks(prompt, readings, first + len(known_blocks))]
        self.blocks = tuple(blocks[: max(0, len(self.readings) - first)])
        return blocks


class SharedPrefixIndex:
    """Recently read tools and instructions; none of their words.

    They are known by Python's own hash, whose secret is the process's.
    """

    def __init__(self) -> None:
        self._known: LruCache[_PrefixKey, SharedPrefix] = LruCache(weigh=lambda prefix: prefix.size)
        self._tools: LruCache[_ToolsKey, SharedPrefix] = LruCache(weigh=lambda prefix: prefix.size)
        self.indexes: Sequence[LruCache[Any, SharedPrefix]] = (self._known, self._tools)

    def __len__(self) -> int:
        return len(self._known)

    def read_prefix(self, prompt: Prompt, fingerprint: Fingerprint, first: int) -> SharedPrefix:
        """The part of a prompt before its message ``first``.

        Raises:
            Unplannable: If a message cannot be read, or their parts are too many.
        """
        key = (fingerprint, hash(prompt.tools), hash(prompt.messages[:first]), prompt.semi)
        prefix = self._known.get(key)
        if prefix is None:
            tools = self._tools.get_or_make(key[:2], lambda: _read_tools(prompt, fingerprint))
            prefix = _read_shared_prefix(prompt, tools, fingerprint, first)
            self._known.put(key, prefix)
        return prefix


def _read_tools(prompt: Prompt, fingerprint: Fingerprint) -> SharedPrefix:
    """The tools alone, which stay where instructions change."""
    blocks = tool_blocks(prompt, fingerprint)
    digests = [digest_without_marks(tool, fingerprint) for tool in prompt.tools]
    bare = tuple(without_marks(blocks, digests))
    return SharedPrefix(blocks, bare, {}, any(map(may_mark, prompt.tools)))


def _read_shared_prefix(
    prompt: Prompt, tools: SharedPrefix, fingerprint: Fingerprint, first: int
) -> SharedPrefix:
    texts = tuple(leading_text_blocks(prompt, fingerprint, first))
    pieces = BlockJson(prompt)
    digests = [digest_without_marks(pieces.block_json(block), fingerprint) for block in texts]
    blocks = (*tools.blocks, *texts)
    bare = (*tools.bare, *without_marks(texts, digests))
    return SharedPrefix(blocks, bare, leading_lines(prompt, blocks), tools.may_mark)


class MessageCache:
    """Readings of recent messages, none of their words.

    A message is known by its team and Python's own hash of it, whose secret is the process's.
    """

    def __init__(self) -> None:
        self._known: LruCache[_MessageKey, MessageReading] = LruCache(entry_bytes=_READING_BYTES)
        self._beginnings: LruCache[_MessageKey, Beginning] = LruCache(
            weigh=lambda beginning: (1 + len(beginning.readings)) * _BEGINNING_BYTES
        )
        self.fronts = SharedPrefixIndex()
        self.indexes: Sequence[LruCache[Any, Any]] = (
            self._known,
            self._beginnings,
            *self.fronts.indexes,
        )

    def __len__(self) -> int:
        return len(self._known)

    def unread_bytes(self, fingerprint: Fingerprint, split: SplitBody) -> int:
        """Bytes of a body's messages that the team with this fingerprint did not send before."""
        begins = (fingerprint, hash(split.messages[: split.known])) in self._beginnings
        messages = split.messages[split.known :] if begins else split.messages
        return sum([len(one) for one in messages if (fingerprint, hash(one)) not in self._known])

    def readings_of_body(
        self, fingerprint: Fingerprint, messages: Sequence[bytes], split: SplitBody | None
    ) -> tuple[tuple[MessageReading, ...], Beginning]:
        """The reading of each message of a body, and its beginning for the next one.

        Raises:
            Unplannable: If one cannot be read, or not be written again as it is.
        """
        if split is None:
            return self.readings_of(fingerprint, messages), Beginning(())
        lead = len(messages) - len(split.messages)
        before = (fingerprint, hash(messages[: lead + split.known]))
        earlier = self._beginnings.peek(before) or Beginning((), is_plain=True)
        rest = self.readings_of(fingerprint, messages[len(earlier.readings) :])
        readings = earlier.readings + rest
        is_plain = earlier.is_plain and all(one.is_plain for one in rest)
        beginning = Beginning(readings[: lead + split.repeatable], earlier.blocks, is_plain)
        if split.repeatable:
            self._beginnings.drop(before)
            self._beginnings.put(
                (fingerprint, hash(messages[: lead + split.repeatable])), beginning
            )
        return readings, beginning

    def readings_of(
        self, fingerprint: Fingerprint, messages: Sequence[bytes]
    ) -> tuple[MessageReading, ...]:
        """The reading of each message of the team with this fingerprint.

        Raises:
            Unplannable: If one cannot be read, or not be written again as it is.
        """
        keys = [*zip(repeat(fingerprint), map(hash, messages))]  # as many as there are messages
        readings: list[MessageReading] = []
        for key, message in zip(keys, messages, strict=True):
            reading = self._known.peek(key)
            if reading is None:
                reading = read_message(fingerprint, message)
                self._known.put(key, reading)
            readings.append(reading)
        self._known.use_all(keys)
        return tuple(readings)


def read_message(fingerprint: Fingerprint, message: bytes) -> MessageReading:
    """Read a message of the team with this fingerprint.

    Raises:
        Unplannable: If it cannot be read, or not be written again as it is.
    """
    fields = members(message)
    named = fields.get("role", b'""')
    role = _ROLES.get(named) or part_text(named)
    if role is None:
        raise Unplannable("not a message: its role is no text")
    content = fields.get("content", b"null")
    plain = _plain_form(message, named, content) if named in _ROLES else None
    if plain is not None:
        digest, tagged = fingerprint(message), may_hold_tags(message)
        bare = None if plain == message else (len(plain), fingerprint(plain))
        _, own = bare or (0, digest)
        return MessageReading(role, digest, may_mark=False, tagged=tagged, bare=bare, says=own)
    if not is_exact(message, fields) or (content[:1] == b"[" and not _has_exact_parts(content)):
        raise Unplannable("a key of a message stands twice or is escaped")
    bare, digest = digest_without_marks(message, fingerprint), fingerprint(message)
    says = message_digest(message, fields, fingerprint)
    if says is None:
        says = digest if bare is None else bare[1]
    return MessageReading(role, digest, may_mark(message), may_hold_tags(message), bare, says)


def _plain_form(message: bytes, named: bytes, content: bytes) -> bytes | None:
    """A message of a role and a text alone, as it would be written again; None for any other.

    It may be spaced as Python's ``json.dumps`` does it.
    """
    if content[:1] != b'"' or not message.isascii() or _find_other_escape(content) is not None:
        return None
    for start, between in (_PLAIN, _SPACED):
        if message == b"%b%b%b%b}" % (start, named, between, content):
            return b"%b%b%b%b}" % (_PLAIN[0], named, _PLAIN[1], content)
    return None


def _has_exact_parts(content: bytes) -> bool:
    """True if no key of a part stands twice or is escaped."""
    objects = [part for part in content_parts(msgspec.Raw(content)) if part[:1] == b"{"]
    return all(is_exact(part, members(part)) for part in objects)
