# ruff: noqa: T201 - a script prints its result
"""Coding agents' sessions on GPT-5.6: a cache key for each session beside keys that they share.

Sessions hold 10,000 tokens of tools and instructions in common, marked at their end, as Codex does
by what its sessions sent (2026-11). Time and chance are simulated; costs count input alone, in
prices of an uncached token. ``no machines`` is the cache as the simulator has it: a key parts what
is stored, and nothing overflows. ``machines`` adds what is known of the models before: the first
256 tokens and the key choose a machine, and beyond 15 calls in a minute another one takes over.
Usage: python -m tests.bench.cache_keys [--sessions 30] [--calls 20] [--seeds 3]
"""

import argparse
import random
from collections import defaultdict, deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Final

from proxy.caches.openai_breakpoint import OpenAIBreakpoints
from proxy.caches.openai_interval import IN_MEMORY, MinuteCalls
from proxy.caches.port import CachedPrompt, Served, TokenBlock

RATES: Final = (1, 5, 15, 40)
SHARED_TOKENS, OWN_TOKENS, ANSWER_TOKENS, RESULT_TOKENS = 10_000, 400, 150, 1_300
READ, WRITE, FRESH = 0.1, 1.25, 1.0
_MINUTE_S: Final = 60.0
_ROUTED_TOKENS: Final = IN_MEMORY.routed
#: Seconds between a session's calls, by its kind: four a minute, or 12 at once and then a pause.
PACES: Final[dict[str, Callable[[random.Random, int], float]]] = {
    "steady": lambda dice, _: dice.expovariate(1 / 15),
    "bursts": lambda dice, call: dice.expovariate(1 / 2) if call % 12 else dice.uniform(60, 180),
}


@dataclass(frozen=True)
class Plan:
    """The traffic of a row: sessions, calls of each, and how often both are drawn."""

    sessions: int
    calls: int
    seeds: int


@dataclass
class Session:
    """A session: when it calls, and the key that it got at its first call."""

    number: int
    times: Sequence[float]
    key: str = ""

    def prompt(self, call: int) -> CachedPrompt:
        """The prompt of a call, with the turns before."""
        own = 1 + self.number * 1_000
        blocks = [
            TokenBlock(role="developer", tokens=(0,) * SHARED_TOKENS, message=0, mark="30m"),
            TokenBlock(role="user", tokens=(own,) * OWN_TOKENS, message=1),
        ]
        for turn in range(call):
            at = 2 + 2 * turn
            said = TokenBlock(role="assistant", tokens=(own + at,) * ANSWER_TOKENS, message=at)
            result = (own + at + 1,) * RESULT_TOKENS
            blocks += [said, TokenBlock(role="tool", tokens=result, message=at + 1)]
        return CachedPrompt(blocks=tuple(blocks), key=self.key)


@dataclass
class Machines:
    """Breakpoint caches of which the first tokens and the key choose one, until it is busy."""

    caches: list[OpenAIBreakpoints]
    routes: dict[bytes, MinuteCalls] = field(default_factory=dict)

    def serve(self, prompt: CachedPrompt, now: float) -> Served:
        """Serve the prompt where it is sent."""
        head = f"{prompt.key}:{prompt.blocks[0].tokens[:_ROUTED_TOKENS]}".encode()
        route = blake2b(head, digest_size=8).digest()
        before = self.routes.get(route, MinuteCalls(now)).at(now)
        self.routes[route] = before.with_call()
        home = int.from_bytes(route, "big") + before.calls // IN_MEMORY.per_minute
        cache = self.caches[home % len(self.caches)]
        served = cache.serve(prompt, now)
        cache.begin_answer(prompt, now)
        return served


@dataclass
class Keys:
    """Gives each session its key at its first call, by the rates of the keys that are shared.

    Attributes:
        limit: Calls of a shared key in the last minute from which on no session joins it; 0 for
            a key of each session's own.
        shards: Keys that sessions share.
    """

    limit: float
    shards: int = 1
    latest: dict[str, deque[float]] = field(default_factory=lambda: defaultdict(deque))

    def choose(self, session: Session, now: float) -> str:
        """The first shared key that has room; the session's own where none has."""
        for shard in range(self.shards):
            calls = self.latest[f"team-{shard}"]
            while calls and calls[0] <= now - _MINUTE_S:
                calls.popleft()
            if len(calls) < self.limit:
                return f"team-{shard}"
        return f"session-{session.number}"

    def note(self, key: str, now: float) -> None:
        """Count a call of this key."""
        self.latest[key].append(now)


RULES: Final[dict[str, tuple[float, int]]] = {
    "team": (float("inf"), 1),
    "team < 10": (10, 1),
    "team < 4": (4, 1),
    "shards < 10": (10, 1_000),
    "shards < 4": (4, 1_000),
}


def sessions(rate: float, pace: str, plan: Plan, dice: random.Random) -> Iterator[Session]:
    """Sessions that come at random, so that their calls come at this rate a minute in all."""
    now = 0.0
    for number in range(plan.sessions):
        now += dice.expovariate(rate / plan.calls / _MINUTE_S)
        times = [now]
        for call in range(1, plan.calls):
            times.append(times[-1] + PACES[pace](dice, call))
        yield Session(number, times)


def session_costs(
    found: Sequence[Session], limit: float, shards: int, *, has_machines: bool
) -> dict[int, float]:
    """The cost of each session's input by its number, where keys are given so."""
    count = IN_MEMORY.machines if has_machines else 1
    caches = [OpenAIBreakpoints() for _ in range(count)]
    cache, keys = Machines(caches), Keys(limit, shards)
    alone = caches[0]
    costs: dict[int, float] = defaultdict(float)
    calls = sorted((at, each.number, call) for each in found for call, at in enumerate(each.times))
    for now, number, call in calls:
        session = found[number]
        if call == 0:
            session.key = keys.choose(session, now)
        keys.note(session.key, now)
        prompt = session.prompt(call)
        if has_machines:
            served = cache.serve(prompt, now)
        else:
            served = alone.serve(prompt, now)
            alone.begin_answer(prompt, now)
        written = sum(served.written.values())
        costs[number] += READ * served.read + WRITE * written + FRESH * served.fresh
    return costs


def compare(rate: float, pace: str, plan: Plan, *, has_machines: bool) -> str:
    """A row: each rule's cost beside a key of each session's own, and its worst session's."""
    totals: dict[str, float] = defaultdict(float)
    worst: dict[str, float] = defaultdict(float)
    own_total = 0.0
    for seed in range(plan.seeds):
        found = list(sessions(rate, pace, plan, random.Random(seed)))  # noqa: S311
        own = session_costs(found, 0, 1, has_machines=has_machines)
        own_total += sum(own.values())
        for name, (limit, shards) in RULES.items():
            costs = session_costs(found, limit, shards, has_machines=has_machines)
            totals[name] += sum(costs.values())
            ratios = (costs[number] / own[number] for number in own)
            worst[name] = max(worst[name], max(ratios, default=1.0))
    told = " | ".join(f"{totals[name] / own_total:.3f} ({worst[name]:.2f})" for name in RULES)
    place = "machines" if has_machines else "no machines"
    return f"| {place} | {pace} | {rate} | {told} |"


def main() -> None:
    """Print a table of cost ratios to a key of each session's own."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sessions", type=int, default=30)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--calls", type=int, default=20)
    given = parser.parse_args()
    plan = Plan(given.sessions, given.calls, given.seeds)
    print(f"| cache | pace | calls a minute | {' | '.join(RULES)} |")
    print(f"|---|---|--:|{'--:|' * len(RULES)}")
    for has_machines in (False, True):
        for pace in PACES:
            for rate in RATES:
                row = compare(rate, pace, plan, has_machines=has_machines)
                print(row, flush=True)


if __name__ == "__main__":
    main()
