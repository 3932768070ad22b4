"""Caches that hold whole prompts, of which a beginning is read."""

from array import array
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from tests.accounting.rules import CacheRules
from tests.accounting.wire import Tokens, WirePrompt

WORD: Final = 4


class _Stream:
    """Tokens that a cache holds, since when others can read them, and when they were used."""

    def __init__(self, prompt: WirePrompt, raw: bytes, visible: float, used: float) -> None:
        self.scope, self.raw = (prompt.scope, prompt.key), raw
        self.visible, self.used = visible, used
        self.is_busy = True


class Prefixes:
    """Caches of which the longest common beginning is read, in steps (§3, §6, §7)."""

    def __init__(self, rules: CacheRules) -> None:
        self.rules = rules
        self.streams: list[_Stream] = []

    def send(self, prompt: WirePrompt, now: float) -> tuple[int, Mapping[str, int]]:
        """Read the longest beginning that some stream holds."""
        raw, rules = as_bytes(prompt.tokens), self.rules
        held = max((_common(one.raw, raw) for one in self._live(prompt, now)), default=0)
        if rules.at_once:
            self._add(prompt, raw, now, now)
        return self._readable(held, prompt), {}

    def begin(self, prompt: WirePrompt, now: float) -> None:
        """Keep the prompt."""
        self._add(prompt, as_bytes(prompt.tokens), now + self.rules.delay, now)

    def end(self, prompt: WirePrompt, answer: Tokens, now: float) -> None:
        """Keep the answer, but for its last token: nothing was computed on that."""
        if self.rules.keeps_answers:
            self._add(prompt, as_bytes((*prompt.tokens, *answer[:-1])), now + self.rules.delay, now)

    def _readable(self, held: int, prompt: WirePrompt) -> int:
        rules = self.rules
        read = min(held, len(prompt.tokens) - rules.last_is_computed) // rules.step * rules.step
        is_cached = read >= rules.min_tokens and (prompt.key or not rules.needs_key)
        return read if is_cached else 0

    def _add(self, prompt: WirePrompt, raw: bytes, visible: float, used: float) -> None:
        self.streams.append(_Stream(prompt, raw, visible, used))

    def _live(self, prompt: WirePrompt, now: float) -> Iterator[_Stream]:
        for one in self.streams:
            is_young = now - one.used <= self.rules.lifetime
            if one.visible <= now and is_young and one.scope == (prompt.scope, prompt.key):
                yield one


class Units(Prefixes):
    """Whole units: ends of prompts and answers, and beginnings that two prompts share (§5)."""

    def __init__(self, rules: CacheRules) -> None:
        super().__init__(rules)
        self.prompts: list[_Stream] = []

    def send(self, prompt: WirePrompt, now: float) -> tuple[int, Mapping[str, int]]:
        raw = as_bytes(prompt.tokens)
        units = [unit for unit in self._live(prompt, now) if raw.startswith(unit.raw)]
        longest = max((len(unit.raw) for unit in units), default=0) // WORD
        read = self._readable(longest, prompt)
        for unit in units:
            if len(unit.raw) // WORD >= read:
                unit.used = now
        return read, {}

    def begin(self, prompt: WirePrompt, now: float) -> None:
        raw, step = as_bytes(prompt.tokens), self.rules.step * WORD
        before = [one for one in self.prompts if one.scope == (prompt.scope, prompt.key)]
        shared = max((_common(one.raw, raw) * WORD for one in before), default=0)
        self._add(prompt, raw[: shared // step * step], now + self.rules.delay, now)
        self.prompts.append(_Stream(prompt, raw, now, now))
        super().begin(prompt, now)

    def end(self, prompt: WirePrompt, answer: Tokens, now: float) -> None:
        self._add(prompt, as_bytes((*prompt.tokens, *answer)), now + self.rules.delay, now)

    def _add(self, prompt: WirePrompt, raw: bytes, visible: float, used: float) -> None:
        scope = (prompt.scope, prompt.key)
        for one in self._live(prompt, used):
            if one.raw == raw and one.scope == scope:
                one.used = used
                return
        super()._add(prompt, raw, visible, used)


class Slots(Prefixes):
    """llama.cpp: each slot holds the latest prompt it served, and is busy meanwhile (§7.3)."""

    similarity: Final = 0.1
    calls = 0

    def send(self, prompt: WirePrompt, now: float) -> tuple[int, Mapping[str, int]]:
        raw, size = as_bytes(prompt.tokens), len(prompt.tokens)
        self.calls += 1
        free = [one for one in self.streams if not one.is_busy]
        if not free and len(self.streams) >= self.rules.slots:
            free = list(self.streams)
        owner = (prompt.scope, prompt.key)
        held = {one: _common(one.raw, raw) * (one.scope == owner) for one in free}
        slot = max(free, key=lambda one: held[one], default=None)
        if slot is None or held[slot] <= self.similarity * size:
            is_full = len(self.streams) >= self.rules.slots
            slot = min(free, key=lambda one: one.used) if is_full else None
        if slot is None:
            self._add(prompt, raw, now, self.calls)
            return 0, {}
        self.streams[self.streams.index(slot)] = _Stream(prompt, raw, now, self.calls)
        return self._readable(held[slot], prompt), {}

    def begin(self, prompt: WirePrompt, now: float) -> None:
        """Keep nothing more: the slot holds the prompt since it was sent."""

    def end(self, prompt: WirePrompt, answer: Tokens, now: float) -> None:
        raw, owner = as_bytes(prompt.tokens), (prompt.scope, prompt.key)
        for one in self.streams:
            if one.is_busy and one.raw == raw and one.scope == owner:
                one.raw, one.is_busy = raw + as_bytes(answer[:-1]), False
                return


def as_bytes(tokens: Sequence[int]) -> bytes:
    return array("I", tokens).tobytes()


def _common(one: bytes, other: bytes) -> int:
    """Tokens that two begin with alike."""
    low, high = 0, min(len(one), len(other)) // WORD
    while low < high:
        middle = (low + high + 1) // 2
        is_alike = one[: middle * WORD] == other[: middle * WORD]
        low, high = (middle, high) if is_alike else (low, middle - 1)
    return low
