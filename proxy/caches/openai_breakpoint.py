"""OpenAI's prompt cache from GPT-5.6 on: what is stored, and read, ends at breakpoints only."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from proxy.caches import prefixes
from proxy.caches.bills import bill_prompt
from proxy.caches.entries import CacheEntries, CacheEntry
from proxy.caches.port import CachedPrompt, Served, Ttl
from proxy.caches.prefixes import Point

_HEAD = ("tools", "system", "developer")
_UNMARKABLE = ("tools", "assistant")
_BY_MARK = b"mark"


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
        most: Entries kept.
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
#: As the guide has it. Source: OpenAI, prompt caching guide (2026-09).
GUIDE = OpenAIBreakpointRules(first_read=2, latest_read=50)
#: Source: Azure OpenAI, prompt caching (2026-08): latest 50 breakpoints, 30m only.
AZURE = OpenAIBreakpointRules(latest_read=50, lifetimes={"30m": 1_800.0})


def provider_rules(provider: str) -> OpenAIBreakpointRules:
    """The rules of a provider's cache; OpenAI's own for any but Azure."""
    return AZURE if provider == "azure" else OPENAI


def implicit_breakpoints(prompt: CachedPrompt) -> list[int]:
    """The last blocks of the messages that may end an implicit breakpoint, in order.

    They are each user message, the last of consecutive tool responses, and the last developer
    message before anything else; a later developer message is none.

    Source: OpenAI, prompt caching guide, implicit mode (2026-09).
    """
    start = _end_of_head(prompt)
    ends = [start] if start >= 0 else []
    blocks = prompt.blocks
    for at, block in enumerate(blocks):
        after = blocks[at + 1] if at + 1 < len(blocks) else None
        if block.role == "user":
            ends += [at] if after is None or after.message != block.message else []
        elif block.role == "tool":
            ends += [at] if after is None or after.role != "tool" else []
    return ends


def _end_of_head(prompt: CachedPrompt) -> int:
    """The last block of the initial developer messages; -1 for none."""
    end = -1
    for at, block in enumerate(prompt.blocks):
        if block.role not in _HEAD:
            break
        end = at if block.role != "tools" else end
    return end


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
            self._entries.write(digest, CacheEntry(lifetime, now + lifetime))
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
            if block.mark is not None and block.role in _UNMARKABLE:
                raise ValueError(f"a breakpoint cannot stand in {block.role}; mark another block")
        for ttl in (prompt.ttl, *(block.mark for block in prompt.blocks)):
            if ttl is not None and ttl not in self._rules.lifetimes:
                known = " or ".join(self._rules.lifetimes)
                raise ValueError(f"a breakpoint's ttl is {known}, not {ttl}")

    def _read(self, prompt: CachedPrompt, points: list[Point], now: float) -> int:
        """The tokens of the longest live candidate; it and the shorter ones live on."""
        hit = 0
        for at in self._candidates(prompt):
            point = points[at]
            for digest in _digests(prompt, point):
                if self._entries.is_readable(digest, now):
                    hit = max(hit, point.tokens)
                    self._entries.renew(digest, now)
        return hit

    def _candidates(self, prompt: CachedPrompt) -> set[int]:
        """The blocks at whose ends an entry is looked for."""
        rules = self._rules
        marks = _marks(prompt)
        found = {*marks[: rules.first_read], *_latest_positions(marks, rules.latest_read)}
        if not prompt.explicit:
            ends = implicit_breakpoints(prompt)
            found.update(_latest_positions(ends, rules.ends_read + 1))
            found.update(ends[:1] if _end_of_head(prompt) >= 0 else [])
        return found

    def _writes(
        self, prompt: CachedPrompt, points: list[Point]
    ) -> Iterator[tuple[Point, Ttl, bytes]]:
        """Each chosen breakpoint that is long enough, its lifetime and its entry."""
        rules = self._rules
        marks = _marks(prompt)
        for at in _latest_positions(
            marks, rules.marks_written if prompt.explicit else rules.beside_implicit
        ):
            if points[at].tokens >= rules.least:
                yield points[at], prompt.blocks[at].mark or rules.ttl, points[at].digest + _BY_MARK
        if not prompt.explicit:
            for at in _latest_positions(implicit_breakpoints(prompt), 1):
                if points[at].tokens >= rules.least and prompt.blocks[at].mark is None:
                    yield points[at], prompt.ttl or rules.ttl, points[at].digest


def _marks(prompt: CachedPrompt) -> list[int]:
    return [at for at, block in enumerate(prompt.blocks) if block.mark is not None]


def _latest_positions(positions: list[int], count: int) -> list[int]:
    return positions[max(0, len(positions) - count) :]


def _digests(prompt: CachedPrompt, point: Point) -> tuple[bytes, ...]:
    by_mark = point.digest + _BY_MARK
    return (by_mark,) if prompt.explicit else (by_mark, point.digest)
