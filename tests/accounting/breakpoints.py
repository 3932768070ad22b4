"""Caches that are read at stored places alone: breakpoints, and OpenAI's intervals."""

from collections.abc import Iterable, Mapping, Sequence
from hashlib import blake2b
from math import inf
from typing import Final

from tests.accounting.rules import CacheRules
from tests.accounting.streams import WORD, as_bytes
from tests.accounting.wire import Tokens, WireBlock, WirePrompt

_LIFETIMES_S: Final = {"5m": 300.0, "30m": 1800.0, "1h": 3600.0, "12h": 43_200.0}
#: Seconds that an unused entry lives, and any at most, where a call asks for a retention (§1.3).
_RETENTIONS_S: Final = {"in_memory": (300.0, 3600.0), "24h": (1800.0, 86_400.0)}


class _Entry:
    """A stored prefix: its lifetime in seconds, when it was used last, and if it can be read."""

    def __init__(self, lifetime: float, now: float, longest: float = inf) -> None:
        self.lifetime, self.used, self.dies = lifetime, now, now + longest
        self.is_visible = False

    def is_live(self, now: float) -> bool:
        """True if it is neither unused for too long nor too old."""
        return now <= min(self.used + self.lifetime, self.dies)


class Breakpoints:
    """Entries at breakpoints alone: found whole, or not at all (§1.2, §2.1)."""

    max_marks = 4
    look_back = 20
    runs_are_one = True

    def __init__(self, rules: CacheRules) -> None:
        self.rules = rules
        #: By place, and by who stored it: true for a mark, false for implicit mode.
        self.entries: dict[tuple[bytes, bool], _Entry] = {}

    def send(self, prompt: WirePrompt, now: float) -> tuple[int, Mapping[str, int]]:
        """Read the longest entry; write beyond it, each token at the longest lifetime."""
        sizes, keys = _ends(prompt.blocks), _keys(prompt)
        hit = next((at for at in self.places(prompt) if self._live(prompt, keys[at], now)), None)
        read = 0 if hit is None else sizes[hit]
        for at in self.entries_to_refresh(prompt, hit):
            for entry in self._live(prompt, keys[at], now):
                entry.used = now
        ends: dict[str, int] = {}
        for at, (ttl, by_mark) in self.writes(prompt).items():
            if sizes[at] >= self.rules.min_tokens and sizes[at] > read:
                self.entries[keys[at], by_mark] = _Entry(_LIFETIMES_S[ttl], now)
                ends[ttl] = max(sizes[at], ends.get(ttl, 0))
        written, last = {}, read
        for ttl in sorted(ends, key=lambda ttl: -_LIFETIMES_S[ttl]):
            written[ttl] = max(0, ends[ttl] - last)
            last = max(last, ends[ttl])
        return read, written

    def begin(self, prompt: WirePrompt, now: float) -> None:
        """Show others what the prompt stored: not before the first byte (§2.1, visibility)."""
        keys = _keys(prompt)
        for at, (_, by_mark) in self.writes(prompt).items():
            if entry := self.entries.get((keys[at], by_mark)):
                entry.is_visible = True

    def end(self, prompt: WirePrompt, answer: Tokens, now: float) -> None:
        """Store no answer."""

    def writes(self, prompt: WirePrompt) -> dict[int, tuple[str, bool]]:
        """Blocks at whose end an entry is stored: lifetime, and true if a mark stands there."""
        marks = {index: (block.ttl, True) for index, block in enumerate(prompt.blocks) if block.ttl}
        lifetimes = [_LIFETIMES_S[ttl] for ttl, _ in marks.values()]
        if len(marks) > self.max_marks or lifetimes != sorted(lifetimes, reverse=True):
            raise ValueError("more than four marks, or a longer lifetime behind a shorter one")
        return marks

    def places(self, prompt: WirePrompt) -> Iterable[int]:
        """Blocks at whose end an entry is looked for: from each mark, so many positions back."""
        positions = _positions(prompt.blocks, runs_are_one=self.runs_are_one)
        for mark in sorted(self.writes(prompt), reverse=True):
            back = range(mark, -1, -1)
            yield from (at for at in back if positions[mark] - positions[at] < self.look_back)

    def entries_to_refresh(self, prompt: WirePrompt, hit: int | None) -> list[int]:
        """The entries that live on with a read: the one read, and those at marks before it."""
        return (
            [] if hit is None else [*(write for write in self.writes(prompt) if write < hit), hit]
        )

    def _live(self, prompt: WirePrompt, key: bytes, now: float) -> list[_Entry]:
        """Entries that the prompt can read; explicit mode misses what implicit mode stored.

        That is §1.2, gotcha 3.
        """
        writers = (True,) if prompt.explicit else (True, False)
        entries = (self.entries.get((key, by_mark)) for by_mark in writers)
        return [one for one in entries if one and one.is_visible and one.is_live(now)]


class Bedrock(Breakpoints):
    """Anthropic's rules, but every block is a position (§4)."""

    runs_are_one = False


class ExactBreakpoints(Breakpoints):
    """Marked blocks, and the end of the latest eligible message (§1.2)."""

    look_back = 80  # of SDK 3.52.0; the guide and Azure say 50
    earlier_ends = 20

    def writes(self, prompt: WirePrompt) -> dict[int, tuple[str, bool]]:
        marks = [at for at, block in enumerate(prompt.blocks) if block.ttl]
        if any(prompt.blocks[at].role in ("tools", "assistant") for at in marks):
            raise ValueError("no mark can stand there")
        writes = {at: (prompt.blocks[at].ttl, True) for at in marks[-(3 + prompt.explicit) :]}
        ends = _eligible_ends(prompt.blocks)
        if ends and not prompt.explicit and ends[-1] not in marks:
            writes[ends[-1]] = (prompt.ttl, False)
        return writes

    def places(self, prompt: WirePrompt) -> Iterable[int]:
        marks = [index for index, block in enumerate(prompt.blocks) if block.ttl]
        ends = _eligible_ends(prompt.blocks)
        automatic = {*ends[-1 - self.earlier_ends :], *_initial_end(prompt.blocks)}
        places = {*marks[-self.look_back :], *(() if prompt.explicit else automatic)}
        return sorted(places, reverse=True)

    def entries_to_refresh(self, prompt: WirePrompt, hit: int | None) -> list[int]:
        return [] if hit is None else [place for place in self.places(prompt) if place <= hit]


class AzureBreakpoints(ExactBreakpoints):
    look_back = 50


class Intervals:
    """Places every so many tokens, on the machine of key and first 256 tokens (§1.3, §1.4)."""

    calls_a_minute = 15
    routed_tokens = 256

    def __init__(self, rules: CacheRules) -> None:
        self.rules = rules
        self.entries: dict[tuple[str, str, bytes, int, bytes], _Entry] = {}
        self.minutes: dict[tuple[str, str, bytes], tuple[float, int]] = {}

    def send(self, prompt: WirePrompt, now: float) -> tuple[int, Mapping[str, int]]:
        """Read up to the last place that lives; the others are stored."""
        raw, rules, read = as_bytes(prompt.tokens), self.rules, 0
        machine = self._machine(prompt, now)
        lives = _RETENTIONS_S.get(prompt.retention, (rules.lifetime, rules.longest))
        for place in range(rules.interval, len(raw) // WORD + 1, rules.interval):
            key = (*machine, raw[: place * WORD])
            entry = self.entries.get(key)
            if entry is not None and entry.is_visible and entry.is_live(now):
                entry.used, read = now, place // rules.step * rules.step
            else:
                self.entries[key] = _Entry(lives[0], now, lives[1])
        return read if read >= rules.min_tokens else 0, {}

    def begin(self, prompt: WirePrompt, now: float) -> None:
        """Show others on its machine what the prompt stored."""
        raw, owner = as_bytes(prompt.tokens), (prompt.scope, prompt.key)
        for key, entry in self.entries.items():
            if key[:2] == owner and raw.startswith(key[-1]):
                entry.is_visible = True

    def end(self, prompt: WirePrompt, answer: Tokens, now: float) -> None:
        """Store no answer."""

    def _machine(self, prompt: WirePrompt, now: float) -> tuple[str, str, bytes, int]:
        route = (prompt.scope, prompt.key, as_bytes(prompt.tokens[: self.routed_tokens]))
        since, calls = self.minutes.get(route, (now, 0))
        since, calls = (since, calls) if now - since < 60 else (now, 0)
        self.minutes[route] = (since, calls + 1)
        return (*route, calls // self.calls_a_minute)


def _ends(blocks: Sequence[WireBlock]) -> list[int]:
    """Tokens up to the end of each block."""
    ends = [0]
    for block in blocks:
        ends.append(ends[-1] + len(block.tokens))
    return ends[1:]


def _keys(prompt: WirePrompt) -> list[bytes]:
    """For each block, what stands for everything up to and including it (§2.1)."""
    state = blake2b(repr((prompt.scope, prompt.key)).encode())
    keys = []
    for block in prompt.blocks:
        state.update(as_bytes(block.tokens))
        keys.append(state.digest())
    return keys


def _positions(blocks: Sequence[WireBlock], *, runs_are_one: bool) -> list[int]:
    """Positions of the look-back: a run of tool calls, or of results, is one (§2.1)."""
    positions, before = [0], ""
    for block in blocks:
        is_run = block.kind in ("tool_use", "tool_result") and block.kind == before
        positions.append(positions[-1] + (not (is_run and runs_are_one)))
        before = block.kind
    return positions[1:]


def _eligible_ends(blocks: Sequence[WireBlock]) -> list[int]:
    """Last blocks of user messages, of runs of tool messages, and of the leading developer's."""
    ends = set(_initial_end(blocks))
    for index, block in enumerate(blocks):
        after = blocks[index + 1] if index + 1 < len(blocks) else None
        is_last = after is None or after.message != block.message
        if is_last and block.role == "user":
            ends.add(index)
        if is_last and block.role == "tool" and (after is None or after.role != "tool"):
            ends.add(index)
    return sorted(ends)


def _initial_end(blocks: Sequence[WireBlock]) -> list[int]:
    """Last block of the developer messages that lead the conversation."""
    last: list[int] = []
    for index, block in enumerate(blocks):
        if block.role in ("developer", "system"):
            last = [index]
        elif block.role != "tools":
            break
    return last
