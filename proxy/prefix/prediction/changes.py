"""Compares a call with the one before it and finds where the two part.

Of each call only short fingerprints stay: of tools, of leading texts and their lines, of the
messages, and of the request fields whose change loses what was cached; the words are gone.

Source of the fields: OpenAI, prompt caching guide (2026-09); Anthropic, prompt caching, what
invalidates the cache (2026-08); vLLM 0.33.0 and Mistral, prompt caching (2026-11).
"""

from collections import Counter
from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Final

import msgspec

from proxy.caches.regime import Regime
from proxy.prefix.prediction.sent_call import MAX_DIGESTS, SentCall
from proxy.prefix.prompts.fingerprints import (
    SHORT_DIGEST_BYTES,
    name_digest,
    shared_length,
    split_fingerprints,
)
from proxy.prefix.prompts.objects import members
from proxy.prefix.prompts.prompt import Fingerprint, Prompt
from proxy.records.lru_cache import LruCache

#: Fields that choose which cache is asked rather than what it holds.
CACHE_KEY_FIELDS: Final = frozenset({"prompt_cache_key", "cache_salt"})
_FIELD_DIGEST_BYTES: Final = 8
_OPENAI_FIELDS: Final = (
    "parallel_tool_calls",
    "prompt_cache_key",
    "reasoning.effort",
    "reasoning_effort",
    "response_format",
    "service_tier",
    "text.format",
    "text.verbosity",
    "verbosity",
)
_ENGINE_FIELDS: Final = (
    "cache_salt",
    "chat_template_kwargs",
    "prompt_cache_key",
    "reasoning_effort",
)
_PREFIX_FIELDS: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        "anthropic-breakpoint": (
            "output_config.effort",
            "output_config.format",
            "reasoning_effort",
            "response_format",
            "speed",
        ),
        "openai-breakpoint": _OPENAI_FIELDS,
        "openai-interval": _OPENAI_FIELDS,
    }
)
_MESSAGE_FIELDS: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {"anthropic-breakpoint": ("parallel_tool_calls", "thinking", "tool_choice")}
)
#: Bytes of a trace besides its fingerprints.
_FIXED_BYTES: Final = 1_100
#: The same of one text's lines.
_LINES_BYTES: Final = 50


class PrefixParameters(msgspec.Struct, frozen=True):
    """Fingerprints of the fields that a prefix depends on, by name.

    Attributes:
        early: Those that shape all of it.
        late: Those that shape the messages only.
    """

    early: dict[str, bytes]
    late: dict[str, bytes]


def prefix_parameters(
    prompt: Prompt, regime: Regime, fingerprint: Fingerprint, model: str = ""
) -> PrefixParameters:
    """Fingerprint the fields that the prefix depends on; a field left out counts as null.

    ``model`` is the name that the upstream knows it by; "" for the one in the prompt.
    """
    early = _field_digests(prompt, _PREFIX_FIELDS.get(regime.name, _ENGINE_FIELDS), fingerprint)
    digest = (
        name_digest(fingerprint, model) if model else fingerprint(prompt.fields.get("model", b""))
    )
    early["model"] = digest[:_FIELD_DIGEST_BYTES]
    return PrefixParameters(
        early, _field_digests(prompt, _MESSAGE_FIELDS.get(regime.name, ()), fingerprint)
    )


def _field_digests(
    prompt: Prompt, names: tuple[str, ...], fingerprint: Fingerprint
) -> dict[str, bytes]:
    fields = prompt.fields
    digests: dict[str, bytes] = {}
    for name in names:
        raw = fields.get(name, b"null") if "." not in name else _inner_value(fields, name)
        if raw != b"null":
            digests[name] = fingerprint(raw)[:_FIELD_DIGEST_BYTES]
    return digests


def _inner_value(fields: Mapping[str, bytes], name: str) -> bytes:
    """The value of a field within another, as ``outer.inner``; null where there is none."""
    outer, _, inner = name.partition(".")
    object_json = fields.get(outer, b"null")
    return members(object_json).get(inner, b"null") if object_json[:1] == b"{" else b"null"


class ChangeKind(StrEnum):
    """The kind of change of a piece of prompt."""

    MOVED = "moved"
    CHANGED = "changed"
    ADDED = "added"
    REMOVED = "removed"


#: The kind of change, by whether what stands there now was there before, and the other way round.
_CHANGE_KINDS: Final[Mapping[tuple[bool, bool], ChangeKind]] = {
    (True, True): ChangeKind.MOVED,
    (True, False): ChangeKind.REMOVED,
    (False, True): ChangeKind.ADDED,
    (False, False): ChangeKind.CHANGED,
}


class PromptChange(msgspec.Struct, frozen=True, kw_only=True):
    """First difference of a prompt from the one before it.

    Attributes:
        place: Position of that, such as ``tools[3]``, ``system line 4`` or ``messages[7]``.
        block: Index of the block, in the prompt that is sent; None where nothing is left there.
        line: Index of the line within the block; None for all of it.
        dropped: Number of messages that the conversation lost.
    """

    place: str
    kind: ChangeKind
    block: int | None = None
    line: int | None = None
    dropped: int = 0


class CallTrace(msgspec.Struct, frozen=True, kw_only=True):
    """The trace that is kept of a call.

    Attributes:
        at: Time at which it was sent, in seconds.
        conversation: Conversation that it belonged to.
        place: Whose cache it met, and where.
        early: Digests of parameters that shaped its whole prefix besides the blocks, by name.
        late: Digests of parameters that shaped its messages only.
        tools: Short fingerprints of its tools, joined.
        heads: The same of its leading texts.
        lines: The same of the lines of each leading text.
        messages: The same of the messages that a later call may repeat.
        asked_model: The model that its caller asked for, as ``SentCall`` has it.
        size: About how many bytes it takes.
    """

    at: float
    conversation: bytes
    place: bytes
    early: Mapping[str, bytes]
    late: Mapping[str, bytes]
    tools: bytes
    heads: bytes
    lines: tuple[bytes, ...]
    messages: bytes
    asked_model: bytes = b""
    size: int = 0

    def is_same_conversation(self, call: SentCall) -> bool:
        """True if the call goes on with this one's conversation."""
        return bool(call.conversation) and self.conversation == call.conversation


class CallTraces:
    """The last call of each conversation and of each feature."""

    def __init__(self) -> None:
        self._last: LruCache[bytes, CallTrace] = LruCache(weigh=lambda trace: trace.size)
        self.indexes = (self._last,)

    def __len__(self) -> int:
        return len(self._last)

    def previous_call(self, call: SentCall) -> CallTrace | None:
        """The last call of its conversation; else of its feature; None where there was none."""
        return next(filter(None, map(self._last.peek, _trace_keys(call))), None)

    def record_call(self, call: SentCall, now: float) -> None:
        """Remember a call that was sent."""
        self._last.put_all(_trace_keys(call), trace_call(call, now))


def trace_call(call: SentCall, now: float) -> CallTrace:
    """The trace that is kept of a call."""
    tools, heads, conversation_blocks = call.short_fingerprints
    texts = call.block_ranges.heads[:MAX_DIGESTS]
    room = _lines_per_text(texts)
    text_lines = [call.lines.get(block) for block in texts]
    lines = tuple([one.digests[: room * SHORT_DIGEST_BYTES] if one else b"" for one in text_lines])
    prints = len(tools) + len(heads) + len(conversation_blocks) + sum(map(len, lines))
    return CallTrace(
        at=now,
        conversation=call.conversation,
        place=call.place,
        early=call.early,
        late=call.late,
        tools=tools,
        heads=heads,
        lines=lines,
        messages=conversation_blocks,
        asked_model=call.asked_model,
        size=_FIXED_BYTES + prints + _LINES_BYTES * len(lines),
    )


def repeated_bytes(call: SentCall, before: CallTrace) -> int:
    """Bytes of the call that the one before it held too, wherever they stood.

    Of another conversation than its own only tools and leading texts count.
    """
    which, (tools, heads, conversation_blocks) = call.block_ranges, call.short_fingerprints
    size = _repeated_block_bytes(call, which.tools, tools, before.tools)
    if before.is_same_conversation(call):
        size += _repeated_block_bytes(call, which.messages, conversation_blocks, before.messages)
    if heads == before.heads:
        return size + call.ends[which.heads.stop] - call.ends[which.heads.start]
    earlier_heads = set(split_fingerprints(before.heads))
    lines = {digest for joined in before.lines for digest in split_fingerprints(joined)}
    room = _lines_per_text(which.heads)
    for block in which.heads:
        whole = call.blocks[block].digest[:SHORT_DIGEST_BYTES] in earlier_heads
        size += call.blocks[block].size if whole else _common_line_bytes(call, block, lines, room)
    return size


def first_change(call: SentCall, before: CallTrace) -> PromptChange | None:
    """First difference of the call from the one before it; None where it only goes on."""
    which, (ours, texts, _) = call.block_ranges, call.short_fingerprints
    if (tool := _first_difference(ours, before.tools)) is not None:
        index, how = tool
        return PromptChange(place=f"tools[{index}]", kind=how, block=_block_at(which.tools, index))
    if (text := _first_difference(texts, before.heads)) is not None:
        return _leading_text_change(call, before, *text)
    return _message_change(call, before) if before.is_same_conversation(call) else None


def _leading_text_change(
    call: SentCall, before: CallTrace, index: int, how: ChangeKind
) -> PromptChange:
    heads = call.block_ranges.heads
    block = _block_at(heads, index)
    role = call.blocks[heads[min(index, len(heads) - 1)]].role if heads else "system"
    place = f"{role}[{index}]" if max(len(heads), len(before.lines)) > 1 else role
    lines = call.lines.get(block) if block is not None else None
    if how is ChangeKind.CHANGED and lines and index < len(before.lines):
        first = _first_difference(lines.digests, before.lines[index])
        if first is not None:
            line, how = first
            return PromptChange(place=f"{place} line {line + 1}", kind=how, block=block, line=line)
    return PromptChange(place=place, kind=how, block=block)


def _message_change(call: SentCall, before: CallTrace) -> PromptChange | None:
    conversation_blocks, ours = call.block_ranges.messages, call.short_fingerprints[2]
    first = _first_difference(ours, before.messages)
    if first is None or first[0] * SHORT_DIGEST_BYTES >= len(before.messages):
        return None
    index, how = first
    block = _block_at(conversation_blocks, index)
    if block is not None:
        message = call.blocks[block].message
    else:
        message = max((prompt_block.message for prompt_block in call.blocks), default=-1) + 1
    return PromptChange(
        place=f"messages[{message}]",
        kind=how,
        block=block,
        dropped=_dropped_count(ours, before.messages),
    )


def _dropped_count(ours: bytes, theirs: bytes) -> int:
    """Number of different prints that are gone; the last may stand beyond what is kept of ours."""
    here, there = frozenset(split_fingerprints(ours)), split_fingerprints(theirs)
    while there and len(ours) == MAX_DIGESTS * SHORT_DIGEST_BYTES and there[-1] not in here:
        there.pop()
    return len(here.union(there)) - len(here)


def _first_difference(ours: bytes, theirs: bytes) -> tuple[int, ChangeKind] | None:
    """The first place where two lists of prints differ, and what happened there; None for none."""
    same = shared_length(ours, theirs)
    here, there = split_fingerprints(ours[same:]), split_fingerprints(theirs[same:])
    if not here and not there:
        return None
    was_there = not here or here[0] in there
    is_here = not there or there[0] in here
    return same // SHORT_DIGEST_BYTES, _CHANGE_KINDS[was_there, is_here]


def _lines_per_text(texts: range) -> int:
    """Number of lines compared of each leading text: ``MAX_DIGESTS`` in all, or one each."""
    return MAX_DIGESTS // max(1, len(texts)) or 1


def _common_line_bytes(call: SentCall, block: int, lines: set[bytes], room: int) -> int:
    """Bytes of a leading text whose lines were there before, as part of its block."""
    ours = call.lines.get(block)
    if ours is None:
        return 0
    digests = split_fingerprints(ours.digests[: room * SHORT_DIGEST_BYTES])
    same = sum(size for size, digest in zip(ours.sizes, digests, strict=False) if digest in lines)
    return same * call.blocks[block].size // ours.size if same else 0


def _repeated_block_bytes(call: SentCall, which: range, ours: bytes, before: bytes) -> int:
    """Bytes of blocks that were there before, each as often; of ``MAX_DIGESTS`` blocks."""
    shared = shared_length(ours, before)
    same = shared // SHORT_DIGEST_BYTES
    size = call.ends[which.start + same] - call.ends[which.start]
    if shared == len(before):
        return size
    left = Counter(split_fingerprints(before[shared:]))
    rest = which[same:MAX_DIGESTS]
    for block in call.blocks[rest.start : rest.stop]:
        digest = block.digest[:SHORT_DIGEST_BYTES]
        if left.get(digest, 0) > 0:
            left[digest] -= 1
            size += block.size
    return size


def _block_at(which: range, index: int) -> int | None:
    return which[index] if index < len(which) else None


def _trace_keys(call: SentCall) -> tuple[bytes, ...]:
    """The keys of a call's trace: by its conversation, if it is known, and by its feature."""
    feature = b"f" + call.feature
    return (b"c" + call.conversation, feature) if call.conversation else (feature,)
