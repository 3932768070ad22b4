"""Anthropic's and Bedrock's prompt cache: entries end at marks; a lookup goes a few blocks back."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from proxy.caches import prefixes
from proxy.caches.bills import bill_prompt
from proxy.caches.entries import CacheEntries, EntryLife
from proxy.caches.port import CachedPrompt, Position, Served, TokenBlock, Ttl, marked_blocks
from proxy.caches.prefixes import Point

_UNMARKABLE = ("thinking", "redacted_thinking")
_RUNS = frozenset({"tool_use", "tool_result"})


@dataclass(frozen=True, slots=True, kw_only=True)
class AnthropicRules:
    """The numbers of this regime.

    Source: Anthropic, prompt caching (2026-08).

    Attributes:
        least: Shorter prefixes are silently not stored; 512 to 4,096 by model.
        lifetimes: Seconds an entry lives since the start of the call that wrote or read it last.
        lookback: Positions looked at from a mark backwards, the mark's own included.
        runs: True if consecutive tool_use blocks, or tool_result blocks, are one position.
    """

    least: int = 1_024
    lifetimes: Mapping[Ttl, float] = field(default_factory=lambda: {"5m": 300.0, "1h": 3_600.0})
    marks: int = 4
    lookback: int = 20
    runs: bool = True
    most: int = 20_000


ANTHROPIC = AnthropicRules()
#: Source: AWS Bedrock user guide, prompt caching (2026-11): looks back about 20 blocks.
BEDROCK = AnthropicRules(runs=False)


def provider_rules(provider: str) -> AnthropicRules:
    """The rules of a provider's cache; Anthropic's own for any but Bedrock."""
    return BEDROCK if provider == "bedrock" else ANTHROPIC


def lookback_blocks(
    blocks: Sequence[Position], mark: int, *, lookback: int, runs: bool = True
) -> range:
    """The blocks at whose ends an entry is looked for from one mark, last first.

    Source: Anthropic, prompt caching, 20-block lookback (2026-08): a mark at block 35 looks at
    blocks 35 to 16.

    Args:
        lookback: Number of positions that are looked at, the mark's own included.
        runs: True if consecutive tool_use blocks, or tool_result blocks, are one position.
    """
    last = max(0, mark + 1 - max(1, lookback))
    if not runs or _RUNS.isdisjoint([block.kind for block in blocks[last : mark + 1]]):
        return range(mark, last - 1, -1)
    first = mark
    positions = 1
    behind = blocks[mark].kind
    while first > 0:
        kind = blocks[first - 1].kind
        in_run = kind == behind and kind in _RUNS
        if not in_run and positions >= lookback:
            break
        positions += not in_run
        first -= 1
        behind = kind
    return range(mark, first - 1, -1)


def refreshed_blocks(hit: int, marks: Iterable[int]) -> list[int]:
    """The blocks whose entries live on with a read: the one read, and those at marks before it.

    Source: Anthropic, prompt caching, refreshed free by a read (2026-08).
    """
    return [*(mark for mark in marks if mark < hit), hit]


class AnthropicBreakpoints:
    """Anthropic's regime for all workspaces; bounded by ``Rules.most`` entries.

    An entry is stored by ``serve`` and can be read by others from ``begin_answer`` on, but its
    lifetime runs from ``serve``: a call that fails leaves nothing to be read.
    """

    def __init__(self, rules: AnthropicRules = ANTHROPIC) -> None:
        self._rules = rules
        self._entries = CacheEntries(rules.most)

    def __len__(self) -> int:
        return len(self._entries)

    def serve(self, prompt: CachedPrompt, now: float) -> Served:
        """Read up to the longest entry found from a mark, and write at each mark beyond it.

        Raises:
            ValueError: Anthropic would refuse the marks.
        """
        self._check(prompt)
        points = prefixes.block_ends(prompt)
        hit = self._read(prompt, points, now)
        writes = []
        for point, ttl in self._writes(prompt, points):
            if point.tokens > hit:
                lifetime = self._rules.lifetimes[ttl]
                self._entries.write(point.digest, EntryLife(now, lifetime))
                writes.append((point.tokens, ttl))
        return bill_prompt(prompt.tokens, hit, writes, self._rules.lifetimes)

    def begin_answer(self, prompt: CachedPrompt, now: float) -> None:
        """Let others read what the prompt wrote."""
        for point, _ in self._writes(prompt, prefixes.block_ends(prompt)):
            self._entries.begin(point.digest)

    def finish_answer(self, prompt: CachedPrompt, generated: tuple[int, ...], now: float) -> None:
        """Store nothing: an answer is cached when it comes back in a prompt."""

    def _check(self, prompt: CachedPrompt) -> None:
        lifetimes = self._rules.lifetimes
        marks = prompt.marks
        if len(marks) > self._rules.marks:
            raise ValueError(f"{len(marks)} blocks are marked; at most {self._rules.marks} can be")
        shortest = max(lifetimes.values())
        for index, ttl in marks.items():
            if not _is_markable(prompt.blocks[index]):
                raise ValueError("a thinking block or an empty text cannot be marked")
            if ttl not in lifetimes:
                raise ValueError(f"a mark's ttl is {' or '.join(lifetimes)}, not {ttl}")
            if lifetimes[ttl] > shortest:
                raise ValueError("a mark with a longer ttl must stand before those with a shorter")
            shortest = lifetimes[ttl]

    def _read(self, prompt: CachedPrompt, points: list[Point], now: float) -> int:
        """The tokens of the longest entry found; entries at marks before it live on too."""
        marks = marked_blocks(prompt)
        lookback, runs = self._rules.lookback, self._rules.runs
        places = (
            index
            for mark in reversed(marks)
            for index in lookback_blocks(prompt.blocks, mark, lookback=lookback, runs=runs)
        )
        hit = next(
            (index for index in places if self._entries.is_readable(points[index].digest, now)),
            None,
        )
        if hit is None:
            return 0
        for index in refreshed_blocks(hit, marks):
            self._entries.renew(points[index].digest, now)
        return points[hit].tokens

    def _writes(self, prompt: CachedPrompt, points: list[Point]) -> Iterator[tuple[Point, Ttl]]:
        """Each mark that stands far enough from the start."""
        for index, ttl in prompt.marks.items():
            if points[index].tokens >= self._rules.least:
                yield points[index], ttl


def _is_markable(block: TokenBlock) -> bool:
    empty = block.kind == "text" and not block.tokens
    return block.kind not in _UNMARKABLE and not empty
