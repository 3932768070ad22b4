"""Cache marks in a chat body: the caller's are read and kept, planned ones are written.

A mark ends the block it stands on. Anthropic's goes on tools, parts, tool messages and tool calls;
OpenAI's on parts alone, and never on what the assistant said.

Source: Anthropic, prompt caching (2026-08); OpenAI, prompt caching (2026-09) and openai 3.52.
"""

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Final

import msgspec

from proxy.caches import openai_breakpoint
from proxy.caches.regime import Regime
from proxy.prefix.prompts.objects import (
    Unplannable,
    as_content_part,
    elements,
    is_exact,
    members,
    write_list,
    write_object,
)
from proxy.prefix.prompts.prompt import (
    ASSISTANT,
    MessageReading,
    Prompt,
    PromptBlock,
    content_parts,
    parse_message,
    part_text,
)

#: The members that are marks.
MARKS: Final = ("cache_control", "prompt_cache_breakpoint")
_NULL: Final = b"null"
_CONTENT: Final = "content"
_CALLS: Final = "tool_calls"
#: Bytes of instructions above which they are not remembered with their mark, and most that are.
_MAX_CACHED_BYTES, _MAX_CACHED = 2**16, 128


class _Form(msgspec.Struct, frozen=True, eq=False):
    """The wire form of a mark.

    Attributes:
        opening: Its value without the closing brace.
        usual: The lifetime that needs no saying.
        parts: The types of content parts that take it.
        everywhere: True if tools, tool messages and tool calls take it too.
        foreign_lifetimes: Lifetimes that only other providers sell, as they are said here; the
            usual one stands for all that are not here.
    """

    name: str
    opening: bytes
    usual: str
    parts: frozenset[str]
    everywhere: bool
    foreign_lifetimes: Mapping[str, str] = {}

    def mark(self, ttl: str) -> bytes:
        """The mark with a lifetime."""
        ttl_member = b"" if ttl in ("", self.usual) else b',"ttl":' + msgspec.json.encode(ttl)
        return self.opening + ttl_member + b"}"


#: Blocks of the Messages API that take a mark besides texts.
#: Source: Anthropic, prompt caching, what can be cached (2026-08); anthropic 2.11.
_NATIVE_PARTS: Final = frozenset(
    {"document", "image", "search_result", "server_tool_use", "tool_result", "tool_use"}
)
_FORMS: Final = {
    "anthropic-breakpoint": _Form(
        "cache_control",
        b'{"type":"ephemeral"',
        "5m",
        frozenset({"text", "refusal", "image_url", "file"} | _NATIVE_PARTS),
        everywhere=True,
        foreign_lifetimes={"12h": "1h"},
    ),
    "openai-breakpoint": _Form(
        "prompt_cache_breakpoint",
        b'{"mode":"explicit"',
        "30m",
        frozenset({"text", "image_url", "input_audio", "file"}),
        everywhere=False,
    ),
}


class _Type(msgspec.Struct):
    type: str = ""


class _Life(msgspec.Struct):
    ttl: str | None = None


_type = msgspec.json.Decoder(_Type).decode
_life = msgspec.json.Decoder(_Life).decode


def may_mark(raw: bytes) -> bool:
    """True if there can be a mark in this JSON; cheap, and true for words that look like one."""
    # Not by `in`: CPython 3.11 makes and drops an exception each time, for 2,000 instructions.
    return raw.find(b"cache_control") >= 0 or raw.find(b"prompt_cache_breakpoint") >= 0


def add_marks(prompt: Prompt, places: Iterable[tuple[PromptBlock, str]], regime: Regime) -> Prompt:
    """The prompt with a mark after each of these blocks; where none can stand, none is written.

    A lifetime of "" is the usual one.

    Raises:
        Unplannable: If a message cannot be read.
    """
    form = _FORMS.get(regime.name)
    if form is None or not regime.takes_marks:
        return prompt
    tools, messages = list(prompt.tools), list(prompt.messages)
    for block, ttl in places:
        mark = form.mark(ttl)
        if block.message >= 0:
            message = messages[block.message]
            messages[block.message] = _with_mark_after(message, block.part, form, mark)
            continue
        tool = tools[block.part]
        if form.everywhere and tool[:1] == b"{" and not _lives_of_tool(tool):
            tools[block.part] = _with_member(tool, form.name, mark)
    return msgspec.structs.replace(prompt, tools=tuple(tools), messages=tuple(messages))


def caller_marks(
    prompt: Prompt, blocks: Sequence[PromptBlock], readings: Sequence[MessageReading] = ()
) -> dict[int, str]:
    """The lifetimes of the caller's own marks by the index of their block; "" for the usual one.

    A mark inside a message counts for the whole of it; one for the whole body is not among them.

    Raises:
        Unplannable: If a message cannot be read.
    """
    lifetimes: dict[int, str] = {}
    lives: dict[int, list[str | None]] = {}
    may = [one.may_mark for one in readings] or [True] * len(prompt.messages)
    for index, block in enumerate(blocks):
        if block.message >= 0 and not may[block.message]:
            continue
        if block.message < 0:
            block_lives: Sequence[str | None] = _lives_of_tool(prompt.tools[block.part])
        else:
            if block.message not in lives:
                lives[block.message] = _mark_lifetimes(prompt.messages[block.message])
            block_lives = lives[block.message]
            block_lives = (
                block_lives[block.part : block.part + 1] if block.part >= 0 else block_lives
            )
        marks = [life for life in block_lives if life is not None]
        if marks:
            lifetimes[index] = marks[-1]
    return lifetimes


def route_marks(
    marks: Mapping[int, str], prompt: Prompt, blocks: Sequence[PromptBlock], regime: Regime
) -> dict[int, str]:
    """The caller's marks as the route's wire says them: with lifetimes that are sold there.

    Marks of the other provider are said at no higher price; what has no place there is left out.
    One for the whole body stands on the last block; OpenAI's wire has none.
    """
    form = _FORMS.get(regime.name)
    if form is None or not regime.takes_marks:
        return {}
    automatic = _life_of(prompt.fields, MARKS[:1]) if form.everywhere else None
    if automatic is not None and blocks:
        marks = {**marks, len(blocks) - 1: marks.get(len(blocks) - 1, automatic)}
    return {
        index: ttl if ttl in regime.lifetimes else form.foreign_lifetimes.get(ttl, form.usual)
        for index, ttl in marks.items()
        if form.everywhere or openai_breakpoint.takes_mark(blocks[index].role)
    }


def count_caller_marks(prompt: Prompt, regime: Regime) -> int:
    """Number of marks the caller uses of those a call may carry; 0 where marks mean nothing.

    On Anthropic's wire a tool message is one block, and so are its marks. On OpenAI's a mark of
    the whole body, on a tool or on what the assistant said is none.

    Raises:
        Unplannable: If a message cannot be read.
    """
    form = _FORMS.get(regime.name)
    if form is None or not regime.takes_marks:
        return 0
    if not form.everywhere:
        marked_messages = (message for message in prompt.messages if may_mark(message))
        return sum(
            _count_marks(message)
            for message in marked_messages
            if parse_message(message).role != ASSISTANT
        )
    count = int(_life_of(prompt.fields, MARKS[:1]) is not None)
    count += sum(len(_lives_of_tool(tool)) for tool in prompt.tools)
    for message in filter(may_mark, prompt.messages):
        message_marks = _count_marks(message)
        count += min(message_marks, 1) if parse_message(message).role == "tool" else message_marks
    return count


def without_own_marks(raw: bytes) -> bytes:
    """An object without marks of its own; as it is where it has none.

    Raises:
        Unplannable: If it is no object.
    """
    if not may_mark(raw):
        return raw
    fields = members(raw)
    unmarked = {name: member for name, member in fields.items() if name not in MARKS}
    return raw if len(unmarked) == len(fields) else write_object(unmarked)


def _with_mark_after(message: bytes, part: int, form: _Form, mark: bytes) -> bytes:
    """The message with a mark after the part, or after all of it (-1)."""
    if part < 0 or len(message) > _MAX_CACHED_BYTES:
        return _write_mark(message, part, form, mark)
    marked = _write_known_mark(message, part, form, mark)
    return message if marked == message else marked


def _write_mark(message: bytes, part: int, form: _Form, mark: bytes) -> bytes:
    fields = members(message)
    role, ends = part_text(fields.get("role", b'""')), _mark_lifetimes(message)
    if ends and ends[min(part, len(ends) - 1)] is not None:
        return message
    if role == ASSISTANT and not form.everywhere:
        return message
    calls = _tool_calls(fields)
    if part < 0 and form.everywhere and calls:
        marked_calls = [*calls[:-1], _with_member(calls[-1], form.name, mark)]
        return write_object({**fields, _CALLS: write_list(marked_calls)})
    if part < 0 and form.everywhere and role == "tool":
        has_mark = any(end is not None for end in ends)
        return message if has_mark else _with_member(message, form.name, mark)
    return _after_part(message, fields, part, form, mark)


#: The same for instructions, which many calls send: 16 MiB at most.
_write_known_mark = lru_cache(_MAX_CACHED)(_write_mark)


def _after_part(
    message: bytes, fields: Mapping[str, bytes], part: int, form: _Form, mark: bytes
) -> bytes:
    """The message with a mark on the part, or on the last that says something (-1)."""
    pieces = list(content_parts(msgspec.Raw(fields.get(_CONTENT, _NULL))))
    saying = [index for index, piece in enumerate(pieces) if not _is_blank(piece)]
    index = saying[-1] if part < 0 and saying else part
    if index not in saying or _part_type(pieces[index]) not in form.parts:
        return message
    pieces[index] = _marked_part(pieces[index], form, mark)
    return write_object({**fields, _CONTENT: write_list(pieces)})


def _marked_part(piece: bytes, form: _Form, mark: bytes) -> bytes:
    """A content part with a mark that it has not; a JSON string becomes a part."""
    if piece[:1] == b'"':
        return as_content_part(piece)[:-1] + b',"%b":%b}' % (form.name.encode(), mark)
    return _with_member(piece, form.name, mark)


def _with_member(raw: bytes, name: str, value: bytes) -> bytes:
    """The object with one more member; all else as it was written.

    Raises:
        Unplannable: If a key stands twice where it cannot just be added.
    """
    fields = members(raw)
    if not fields or name in fields:
        if not is_exact(raw, fields):
            raise Unplannable("a key stands twice or is escaped")
        return write_object({**fields, name: value})
    return raw.rstrip()[:-1] + b"," + msgspec.json.encode(name) + b":" + value + b"}"


def _part_type(piece: bytes) -> str:
    if piece[:1] == b'"':
        return "text"
    try:
        return _type(piece).type
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return ""


def _is_blank(piece: bytes) -> bool:
    """True if it is a text without words; Anthropic refuses those and takes no mark there."""
    if piece[:1] == b'"' and piece[1:2].isalnum():
        return False
    words = part_text(piece)
    return words is not None and not words.strip()


def _tool_calls(fields: Mapping[str, bytes]) -> tuple[bytes, ...]:
    """The tool calls of a message; none where they are not a list of objects."""
    if _CALLS not in fields:
        return ()
    try:
        calls = elements(fields[_CALLS])
    except Unplannable:
        return ()
    return calls if all(call[:1] == b"{" for call in calls) else ()


def _mark_lifetimes(message: bytes) -> list[str | None]:
    """The lifetime of the mark on each part and tool call; None where there is none.

    A message's own mark stands on the last of them. Empty where the message has no mark at all.
    """
    if not may_mark(message):
        return []
    fields = members(message)
    lives = [
        _life_on(piece) if (inner := _inner_lives(piece)) == [] else _life_on(piece) or inner[-1]
        for piece in (*content_parts(parse_message(message).content), *_tool_calls(fields))
    ]
    lives = lives or [None]
    if lives[-1] is None:
        lives[-1] = _life_of(fields)
    return lives


def _count_marks(message: bytes) -> int:
    """Number of marks in a message; each within a tool's result counts besides its own."""
    count = sum(life is not None for life in _mark_lifetimes(message))
    for piece in content_parts(parse_message(message).content):
        inner = _inner_lives(piece)
        count += len(inner) - (bool(inner) and _life_on(piece) is None)
    return count


def _inner_lives(piece: bytes) -> list[str]:
    """The lifetimes of the marks on the parts of a tool's result, in the Messages API."""
    if piece[:1] != b"{" or not may_mark(piece) or b'"tool_result"' not in piece:
        return []
    content = members(piece).get(_CONTENT, _NULL)
    lives = map(_life_on, elements(content)) if content[:1] == b"[" else ()
    return [life for life in lives if life is not None]


def _lives_of_tool(tool: bytes) -> tuple[str, ...]:
    """The lifetime of a tool's mark, which may stand on it or on the definition inside."""
    if not may_mark(tool):
        return ()
    inner = members(tool).get("function", _NULL) if tool[:1] == b"{" else _NULL
    return tuple(life for life in (_life_on(tool), _life_on(inner)) if life is not None)[:1]


def _life_on(piece: bytes) -> str | None:
    return _life_of(members(piece)) if piece[:1] == b"{" else None


def _life_of(fields: Mapping[str, bytes], names: Iterable[str] = MARKS) -> str | None:
    """The lifetime of the first mark among these members; "" for the usual one."""
    for name in names:
        mark = fields.get(name, _NULL)
        if mark == _NULL:
            continue
        try:
            return _life(mark).ttl or ""
        except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
            return ""
    return None
