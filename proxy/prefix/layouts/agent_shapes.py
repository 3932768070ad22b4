"""Instructions of known coding agents: what their sessions share first, what differs behind it.

::

    attribution line │ stable text │ text from the first path or date on
    stable text ═ end of the stable slot ═ attribution line │ text from the first path or date on

Agents write a path or a date of the session into the midst of their instructions, and Claude Code
puts a line before them that differs from conversation to conversation. No words change and none
but that line changes its place; the text is only parted in two where a mark can stand. What does
not look as it is known stays unmodified, and layouts that are learned hold for it.

Source: captured calls of Claude Code 2.1.197 (2026-11); its own prompts and those of the other
agents in their public sources (2026-11).
"""

import re
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

import msgspec

from proxy.prefix.prompts.objects import (
    Unplannable,
    elements,
    members,
    replace_parts,
    replace_text,
    text_part,
    write_list,
)
from proxy.prefix.prompts.prompt import (
    Prompt,
    content_parts,
    count_leading,
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
    kept = [part for part in every if not is_attribution(part)]
    if not kept or len(kept) == len(every):
        return body
    return replace_fields(body, {"system": write_list(kept)})


def known_shape(prompt: Prompt) -> int:
    """The version of these shapes where a prompt's instructions begin as a known agent's; else 0.

    Raises:
        Unplannable: If a message cannot be read.
    """
    is_known = _is_known(part for parts in _leading_parts(prompt) for part in parts)
    return SHAPES_VERSION if is_known else 0


def part_instructions(prompt: Prompt) -> Prompt:
    """The prompt of a known agent with the end of what its sessions share; any other as it is.

    Raises:
        Unplannable: If a message cannot be read.
    """
    first = count_leading(prompt)
    every = _leading_parts(prompt)
    if prompt.semi is not None or not _is_known(part for parts in every for part in parts):
        return prompt
    lines = [part for parts in every for part in parts if is_attribution(part)]
    every = [[part for part in parts if not is_attribution(part)] for parts in every]
    found = next(_varying_places(every), None)
    if (found is None and not lines) or any(not parts for parts in every):
        return prompt
    place = found or _Place(first - 1, len(every[-1]), 0)
    told = ATTRIBUTION.encode()
    changed = {at for at, raw in enumerate(prompt.messages[:first]) if told in raw}
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
    at = place.part
    text = part_text(parts[at]) or "" if at < len(parts) else ""
    before, rest = text[: place.line], text[place.line :]
    if before.strip():
        parts[at : at + 1] = [text_part(before), replace_text(parts[at], rest)]
        at += 1
    parts[at:at] = lines
    return at


def _is_known(parts: Iterable[bytes]) -> bool:
    words = ((part_text(part) or "").lstrip() for part in parts)
    return any(said.startswith((ATTRIBUTION, *AGENT_HEADS)) for said in words)


def _varying_places(every: Iterable[list[bytes]]) -> Iterator[_Place]:
    """The lines with a path or a date, behind enough stable text to be worth a mark."""
    stable = 0
    for number, parts in enumerate(every):
        for at, part in enumerate(parts):
            text = part_text(part) or ""
            for match in _VARIES.finditer(text):
                line = text.rfind("\n", 0, match.start()) + 1
                if stable + line >= _MIN_STABLE_CHARS:
                    yield _Place(number, at, line)
            stable += len(text)
