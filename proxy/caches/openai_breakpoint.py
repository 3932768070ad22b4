"""OpenAI's prompt cache from GPT-5.6 on: what is stored, and read, ends at breakpoints only."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from proxy.caches import prefixes
from proxy.caches.bills import bill_prompt
from proxy.caches.entries import BY_MARK, BY_RULE, CacheEntries, EntryLife
from proxy.caches.port import (
    CachedPrompt,
    MarkedPositions,
    Position,
    Served,
    Ttl,
    marked_blocks,
)
from proxy.caches.prefixes import Point

_HEAD = ("tools", "system", "developer")
_UNMARKABLE = ("tools", "assistant")
_MARK_SUFFIX = b"mark"


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenAIBreakpointRules:
    """The numbers of this regime.

    Source: OpenAI, prompt caching guide (2026-09), and the SDK's docstrings (3.52.0, 2026-11).

    Attributes:
        least: Shorter prefixes are not stored; visible tokens.
        lifetimes: Seconds an entry lives at least since its last write or use.
        ttl: The lifetime of a breakpoint that names none.
        beside_implicit: Marks written beside the implicit breakpoint, latest first.
        marks_written: Marks written in explicit mode, latest first.
        first_read: Marks looked up from the front. Disputed: the guide says 2, the SDK none.
        latest_read: Marks looked up from the end. Disputed: the guide and Azure say 50, the SDK 80.
        ends_read: Earlier ends of eligible messages looked up in implicit mode.
    """

    least: int = 1_024
    lifetimes: Mapping[Ttl, float] = field(
        default_factory=lambda: {"30m": 1_800.0, "12h": 43_200.0}
    )
    ttl: Ttl = "30m"
    beside_implicit: int = 3
    marks_written: int = 4
    first_read: int = 0
    latest_read: int = 80
    ends_read: int = 20
    most: int = 20_000


OPENAI = OpenAIBreakpointRules()
#: Source: Azure OpenAI, prompt caching (2026-08): latest 50 breakpoints, 30m only.
AZURE = OpenAIBreakpointRules(latest_read=50, lifetimes={"30m": 1_800.0})


def provider_rules(provider: str) -> OpenAIBreakpointRules:
    """The rules of a provider's cache; OpenAI's own for any but Azure."""
    return AZURE if provider == "azure" else OPENAI


class WrittenBreakpoint(NamedTuple):
    """A breakpoint at the end of a block that a call writes.

    Attributes:
        ttl: Its lifetime; "" for the provider's own.
        by: Who writes it, ``BY_MARK`` or ``BY_RULE``.
    """

    block: int
    ttl: str
    by: int


def implicit_breakpoints(blocks: Sequence[Position]) -> list[int]:
    """The last blocks of the messages that may end an implicit breakpoint, in order.

    They are each user message, the last of consecutive tool responses, and the last developer
    message before anything else; a later developer message is none.

    Source: OpenAI, prompt caching guide, implicit mode (2026-09).
    """
    start = _end_of_head(blocks)
    ends = [start] if start >= 0 else []
    for index, block in enumerate(blocks):
        role = block.role
        if role == "user":
            last = index + 1 == len(blocks) or blocks[index + 1].message != block.message
            ends += [index] if last else []
        elif role == "tool":
            ends += [index] if index + 1 == len(blocks) or blocks[index + 1].role != "tool" else []
    return ends


def _end_of_head(blocks: Sequence[Position]) -> int:
    """The last block of the initial developer messages; -1 for none."""
    end = -1
    for index, block in enumerate(blocks):
        if block.role not in _HEAD:
            break
        end = index if block.role != "tools" else end
    return end


def takes_mark(role: str) -> bool:
    """True if a mark can stand on what has this role.

    Source: OpenAI, prompt caching guide (2026-09): not on tool definitions or assistant output.
    """
    return role not in _UNMARKABLE


def lookup_blocks(
    prompt: MarkedPositions, ends: Sequence[int], rules: OpenAIBreakpointRules
) -> set[int]:
    """The blocks at whose ends an entry is looked for.

    Source: OpenAI, prompt caching guide (2026-09), and the SDK's docstrings (3.52.0, 2026-11).
    """
    marks = marked_blocks(prompt)
    indexes = {*marks[: rules.first_read], *_latest_positions(marks, rules.latest_read)}
    if not prompt.explicit:
        indexes.update(_latest_positions(ends, rules.ends_read + 1))
        indexes.update(index for index in ends[:1] if prompt.blocks[index].role in _HEAD)
    return indexes


def written_breakpoints(
    prompt: MarkedPositions, ends: Sequence[int], rules: OpenAIBreakpointRules
) -> Iterator[WrittenBreakpoint]:
    """The breakpoints a call writes where they are long enough and stored nowhere behind.

    Source: OpenAI, prompt caching guide, implicit and explicit mode (2026-09).
    """
    count = rules.marks_written if prompt.explicit else rules.beside_implicit
    for index in _latest_positions(marked_blocks(prompt), count):
        yield WrittenBreakpoint(index, prompt.marks[index], BY_MARK)
    if not prompt.explicit:
        for index in _latest_positions(ends, 1):
            if index not in prompt.marks:
                yield WrittenBreakpoint(index, prompt.ttl or "", BY_RULE)


def readable_writers(*, explicit: bool) -> tuple[int, ...]:
    """The writers whose entries a call reads; in explicit mode, what no mark wrote is not read."""
    return (BY_MARK,) if explicit else (BY_MARK, BY_RULE)


def _latest_positions(positions: Sequence[int], count: int) -> Sequence[int]:
    return positions[max(0, len(positions) - count) :]


class OpenAIBreakpoints:
    """OpenAI's breakpoint regime for all organisations; bounded by ``Rules.most`` entries.

    An entry knows whether a mark or the implicit rule wrote it. Explicit mode reads the former
    only: a workload that moves from implicit to explicit mode misses once.
    """

    def __init__(self, rules: OpenAIBreakpointRules = OPENAI) -> None:
        self._rules = rules
        self._entries = CacheEntries(rules.most)

    def __len__(self) -> int:
        return len(self._entries)

    def serve(self, prompt: CachedPrompt, now: float) -> Served:
        """Read up to the longest stored breakpoint, and write the chosen ones beyond it.

        Raises:
            ValueError: A mark stands where OpenAI takes none, or names an unknown lifetime.
        """
        self._check(prompt)
        points = prefixes.block_ends(prompt)
        hit = self._read(prompt, points, now)
        writes = [write for write in self._writes(prompt, points) if write[0].tokens > hit]
        for _, ttl, digest in writes:
            lifetime = self._rules.lifetimes[ttl]
            self._entries.write(digest, EntryLife(now, lifetime))
        billed = [(point.tokens, ttl) for point, ttl, _ in writes]
        return bill_prompt(prompt.tokens, hit, billed, self._rules.lifetimes)

    def begin_answer(self, prompt: CachedPrompt, now: float) -> None:
        """Let others read what the prompt wrote."""
        for _, _, digest in self._writes(prompt, prefixes.block_ends(prompt)):
            self._entries.begin(digest)

    def finish_answer(self, prompt: CachedPrompt, generated: tuple[int, ...], now: float) -> None:
        """Store nothing: an answer is cached when it comes back in a prompt."""

    def _check(self, prompt: CachedPrompt) -> None:
        for block in prompt.blocks:
            if block.mark is not None and not takes_mark(block.role):
                raise ValueError(f"a breakpoint cannot stand in {block.role}; mark another block")
        for ttl in (prompt.ttl, *(block.mark for block in prompt.blocks)):
            if ttl is not None and ttl not in self._rules.lifetimes:
                lifetimes = " or ".join(self._rules.lifetimes)
                raise ValueError(f"a breakpoint's ttl is {lifetimes}, not {ttl}")

    def _read(self, prompt: CachedPrompt, points: list[Point], now: float) -> int:
        """The tokens of the longest live candidate; it and the shorter ones live on."""
        hit = 0
        for index in lookup_blocks(prompt, implicit_breakpoints(prompt.blocks), self._rules):
            point = points[index]
            for by in readable_writers(explicit=prompt.explicit):
                digest = _entry_key(point, by)
                if self._entries.is_readable(digest, now):
                    hit = max(hit, point.tokens)
                    self._entries.renew(digest, now)
        return hit

    def _writes(
        self, prompt: CachedPrompt, points: list[Point]
    ) -> Iterator[tuple[Point, Ttl, bytes]]:
        """Each chosen breakpoint that is long enough, its lifetime and its entry."""
        rules = self._rules
        ends = implicit_breakpoints(prompt.blocks)
        for index, _, by in written_breakpoints(prompt, ends, rules):
            if points[index].tokens >= rules.least:
                ttl = prompt.blocks[index].mark if by == BY_MARK else prompt.ttl
                yield points[index], ttl or rules.ttl, _entry_key(points[index], by)


def _entry_key(point: Point, by: int) -> bytes:
    return point.digest + _MARK_SUFFIX if by == BY_MARK else point.digest
