"""Splits long texts into content blocks where a mark can stand: at known agents' and seen places.

::

    attribution line │ stable text │ text from the first path or date on
    stable text ═ end of the stable slot ═ attribution line │ text from the first path or date on

Agents write a path or a date of the session into the midst of their instructions, and Claude Code
puts a line before them that differs from conversation to conversation. No words change and none
but that line changes its place. Any other text is parted where it stopped being equal to an earlier
one, in its JSON as its caller wrote it: its pieces joined are the same bytes.

Source: captured calls of Claude Code 2.1.197 (2026-11); its own prompts and those of the other
agents in their public sources (2026-11).
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Final, NamedTuple

import msgspec

from proxy.prefix.prediction.leading_texts import LongText
from proxy.prefix.prompts.fingerprints import digest_without_marks
from proxy.prefix.prompts.objects import (
    Unplannable,
    elements,
    members,
    replace_parts,
    replace_text,
    text_part,
    write_list,
    write_object,
)
from proxy.prefix.prompts.prompt import (
    ASSISTANT,
    AUTHORITY,
    Fingerprint,
    MessageReading,
    Prompt,
    PromptBlock,
    content_parts,
    count_leading,
    count_leading_roles,
    has_words,
    parse_message,
    part_text,
)
from proxy.records.agents import AGENT_HEADS
from proxy.records.request_fields import replace_fields

#: Version of these shapes; a conversation keeps the one it began with.
SHAPES_VERSION: Final = 1
#: Beginning of the line by which Claude Code tells Anthropic where a call comes from.
ATTRIBUTION: Final = "x-anthropic-billing-header:"
#: Characters of stable text below which no cache keeps it, so that nothing is parted.
_MIN_STABLE_CHARS: Final = 1_024
#: A folder of the session, or a date: absolute paths of two steps or more, but not those of which
#: every machine has the same.
_VARIES: Final = re.compile(
    r"(?<![\w:/.<>*$~-])/(?!(?:abs|absolute|bin|dev|etc|path|proc|sys|usr)/)(?:[\w.@+-]+/)+[\w.@+-]*"
    r"|\b[A-Z]:\\\w|\b20\d\d-\d\d-\d\d\b"
)
#: Bytes of a text's JSON from which on it is parted.
_MIN_TEXT_BYTES: Final = 4_096
#: Bytes of a text by which it is found in its message.
_SEARCHED_BYTES: Final = 256
_USER: Final = "user"


class _Place(NamedTuple):
    """The first text that varies: the part of which message, and the index of its line."""

    message: int
    part: int
    line: int


def is_attribution(part: bytes) -> bool:
    """True if a text part is Claude Code's attribution line."""
    return (part_text(part) or "").lstrip().startswith(ATTRIBUTION)


def without_attribution(body: bytes) -> bytes:
    """A Messages body without its attribution line, for any upstream but Anthropic's own.

    Others have no use for it, and engines lose the whole prefix by it.

    Source: Claude Code, gateway protocol; vLLM #36829, SGLang #21064, llama.cpp #20623 (2026-11).
    """
    if body.find(ATTRIBUTION.encode()) < 0:
        return body
    try:
        every = elements(members(body).get("system", b"null"))
    except Unplannable:
        return body
    remaining = [part for part in every if not is_attribution(part)]
    if not remaining or len(remaining) == len(every):
        return body
    return replace_fields(body, {"system": write_list(remaining)})


def known_shape(prompt: Prompt) -> int:
    """The version of these shapes where a prompt's instructions begin as a known agent's; else 0.

    Raises:
        Unplannable: If a message cannot be read.
    """
    return SHAPES_VERSION if _is_known(_leading_parts(prompt)) else 0


def part_instructions(prompt: Prompt) -> Prompt:
    """The prompt of a known agent with the end of what its sessions share; any other as it is.

    Raises:
        Unplannable: If a message cannot be read.
    """
    first = count_leading(prompt)
    every = _leading_parts(prompt)
    if prompt.semi is not None or not _is_known(every):
        return prompt
    lines = [part for parts in every for part in parts if is_attribution(part)]
    every = [[part for part in parts if not is_attribution(part)] for parts in every]
    varying_place = next(_varying_places(every), None)
    if (varying_place is None and not lines) or any(not parts for parts in every):
        return prompt
    place = varying_place or _Place(first - 1, len(every[-1]), 0)
    attribution = ATTRIBUTION.encode()
    changed = {index for index, raw in enumerate(prompt.messages[:first]) if attribution in raw}
    semi = _part_text(every[place.message], place, lines)
    messages = [
        replace_parts(raw, parts) if number in changed | {place.message} else raw
        for number, (raw, parts) in enumerate(zip(prompt.messages, every, strict=False))
    ]
    return msgspec.structs.replace(
        prompt, messages=(*messages, *prompt.messages[first:]), semi=(place.message, semi)
    )


def _leading_parts(prompt: Prompt) -> list[list[bytes]]:
    led = prompt.messages[: count_leading(prompt)]
    return [list(content_parts(parse_message(raw).content)) for raw in led]


def _part_text(parts: list[bytes], place: _Place, lines: Iterable[bytes]) -> int:
    """Part the text at its place, with the lines between; return where the second half begins."""
    index = place.part
    text = part_text(parts[index]) or "" if index < len(parts) else ""
    before, rest = text[: place.line], text[place.line :]
    if before.strip():
        parts[index : index + 1] = [text_part(before), replace_text(parts[index], rest)]
        index += 1
    parts[index:index] = lines
    return index


def _is_known(every: Iterable[list[bytes]]) -> bool:
    words = ((part_text(part) or "").lstrip() for parts in every for part in parts)
    return any(text.startswith((ATTRIBUTION, *AGENT_HEADS)) for text in words)


def _varying_places(every: Iterable[list[bytes]]) -> Iterator[_Place]:
    """The lines with a path or a date, behind enough stable text to be worth a mark."""
    stable = 0
    for number, parts in enumerate(every):
        for index, part in enumerate(parts):
            text = part_text(part) or ""
            for match in _VARIES.finditer(text):
                line = text.rfind("\n", 0, match.start()) + 1
                if stable + line >= _MIN_STABLE_CHARS:
                    yield _Place(number, index, line)
            stable += len(text)


class TextSplits(NamedTuple):
    """The places at which a text is parted.

    Attributes:
        message: Index of its message.
        part: Index within that message's content.
        ends: Bytes of its JSON before each place, without the opening quote; () where it stays
            whole, and the stable slot ends behind it.
    """

    message: int
    part: int
    ends: tuple[int, ...]


class SplitMessage(NamedTuple):
    """A user's message in several blocks.

    Attributes:
        first: The message as its caller would write its first block alone.
        rest: JSON of the other blocks.
    """

    raw: bytes
    first: bytes
    rest: Sequence[bytes]

    def blocks(
        self, block: PromptBlock, start: MessageReading, fingerprint: Fingerprint
    ) -> list[PromptBlock]:
        """Its blocks without marks; the first is the one that a message without the others was."""
        sizes = [start.bare or (len(self.first), start.digest)]
        for piece in self.rest:
            bare = digest_without_marks(piece, fingerprint)
            sizes.append(bare or (len(piece), fingerprint(piece)))
        rows = enumerate(sizes)
        return [
            PromptBlock(block.role, block.slot, block.message, index, *size) for index, size in rows
        ]


def text_groups(readings: Sequence[MessageReading]) -> Iterator[tuple[int, ...]]:
    """The indexes of instructions, and of a user's messages that nobody answered yet."""
    roles = [reading.role for reading in readings]
    first = count_leading_roles(roles)
    yield tuple(range(first))
    if ASSISTANT not in roles:
        yield tuple([index for index in range(first, len(roles)) if roles[index] == _USER])


def longest_text(prompt: Prompt, group: Sequence[int]) -> LongText | None:
    """The longest text of some messages; None where none is long.

    Raises:
        Unplannable: If a message cannot be read.
    """
    texts = [text for index in group for text in _message_texts(prompt, index)]
    if not texts:
        return None
    longest = max(texts, key=lambda text: len(text.words))
    return longest._replace(is_last=longest.is_last and longest.message == group[-1])


def split_instructions(prompt: Prompt, splits: Sequence[TextSplits]) -> Prompt:
    """The prompt with its instructions parted; what stands behind the last place is semi-stable.

    Raises:
        Unplannable: If a message cannot be read.
    """
    for split in splits:
        if prompt.semi is None and not split.ends:
            prompt = msgspec.structs.replace(prompt, semi=(split.message, split.part + 1))
        parts = _split_content(prompt, split, AUTHORITY) if prompt.semi is None else []
        if parts:
            parted = replace_parts(prompt.messages[split.message], parts)
            semi = (split.message, split.part + len(split.ends))
            prompt = with_message(prompt, split.message, parted)
            prompt = msgspec.structs.replace(prompt, semi=semi)
    return prompt


def split_message(prompt: Prompt, split: TextSplits) -> SplitMessage | None:
    """A user's message in several blocks; None where it has another form by now.

    Raises:
        Unplannable: If it cannot be read.
    """
    parts = _split_content(prompt, split, frozenset({_USER}))
    if len(parts) != len(split.ends) + 1:
        return None
    message = prompt.messages[split.message]
    text = _text_json(content_parts(parse_message(message).content)[0])
    start = message.find(text[:_SEARCHED_BYTES])  # to look for all of a long text takes long
    first = message[:start] + parts[0] + message[start + len(text) :]
    return SplitMessage(replace_parts(message, parts), first, parts[1:])


def with_message(prompt: Prompt, index: int, message: bytes) -> Prompt:
    """The prompt with another message in one's place."""
    messages = (*prompt.messages[:index], message, *prompt.messages[index + 1 :])
    return msgspec.structs.replace(prompt, messages=messages)


def _message_texts(prompt: Prompt, index: int) -> Iterator[LongText]:
    """The long texts of a message; a user's of several parts is one block, and stays so."""
    message = prompt.messages[index]
    if len(message) < _MIN_TEXT_BYTES:
        return
    reading = parse_message(message)
    parts = content_parts(reading.content)
    is_user = reading.role == _USER
    for part, raw in enumerate(parts if len(parts) == 1 or not is_user else ()):
        words = _text_json(raw)[1:-1]
        if len(words) >= _MIN_TEXT_BYTES:
            is_last = part == len(parts) - 1
            yield LongText(index, part, words, hash(words), grows=is_user, is_last=is_last)


def _split_content(prompt: Prompt, split: TextSplits, roles: frozenset[str]) -> list[bytes]:
    """The content parts of a message with one of them parted; [] where that cannot be."""
    if split.message >= len(prompt.messages):
        return []
    reading = parse_message(prompt.messages[split.message])
    parts = list(content_parts(reading.content))
    if reading.role not in roles or split.part >= len(parts):
        return []
    raw = parts[split.part]
    pieces = _text_pieces(_text_json(raw), split.ends)
    if not pieces:
        return []
    if raw[:1] == b"{":
        pieces[-1] = write_object({**members(raw), "text": pieces[-1]})
    parts[split.part : split.part + 1] = pieces
    return parts


def _text_pieces(text: bytes, ends: Sequence[int]) -> list[bytes]:
    """The pieces of a text's JSON; [] where a piece would have no words, or is no text."""
    edges = (1, *(end + 1 for end in ends), len(text) - 1)
    pieces = [text[start:end] for start, end in pairwise(edges)]
    return [b'"%b"' % piece for piece in pieces] if all(map(has_words, pieces)) else []


def _text_json(part: bytes) -> bytes:
    """The JSON of a text part's words; b"" for any other part."""
    if part[:1] == b'"':
        return part
    try:
        fields = members(part)
    except Unplannable:
        return b""
    text = fields.get("text", b"")
    return text if fields.get("type") == b'"text"' and text[:1] == b'"' else b""
