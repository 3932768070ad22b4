# ruff: noqa: T201 - a script prints its result
"""Coding agents' sessions on GPT-5.6: a cache key for each session beside keys that they share.

Sessions hold 10,000 tokens of tools and instructions in common, marked at their end, as the gateway
marks Codex's. Time and chance are simulated; costs count input alone, in prices of an uncached
token. ``no machines`` is the cache as the simulator has it: a key parts what is stored, and nothing
overflows. ``machines`` adds what is known of the models before: the first 256 tokens and the key
choose a machine, and beyond 15 calls in a minute another one takes over.
Usage: python -m tests.bench.cache_keys [--sessions 60] [--calls 20] [--seeds 3]
"""

import argparse
import random
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from hashlib import blake2b
from typing import Final

from proxy.caches.openai_breakpoint import OpenAIBreakpoints
from proxy.caches.openai_interval import IN_MEMORY, MinuteCalls
from proxy.caches.port import CachedPrompt, Served, TokenBlock
from proxy.prefix.agent_keys import SharedCacheKeys

RATES: Final = (1, 6, 30, 120)
#: Counted in eights, so that a row takes seconds.
SHARED_TOKENS, OWN_TOKENS, ANSWER_TOKENS, RESULT_TOKENS = 1_250, 50, 19, 162
READ, WRITE, FRESH = 0.1, 1.25, 1.0
_MINUTE_S: Final = 60.0
_LIFETIME_S: Final = 1_800.0
_ROUTED_TOKENS: Final = IN_MEMORY.routed
#: Calls of a session before it turns busy, where it does so late.
_CALM_CALLS: Final = 5


def _burst_gap(dice: random.Random, call: int) -> float:
    return dice.expovariate(1 / 2) if call % 12 else dice.uniform(60, 180)


#: Seconds between a session's calls, by its kind: four a minute; 12 at once and then a pause; the
#: same after a calm beginning; an agent's steps and a person's pauses; 20 a minute; eight at once
#: and then a pause of 11 to 25 minutes.
PACES: Final[dict[str, Callable[[random.Random, int], float]]] = {
    "steady": lambda dice, _: dice.expovariate(1 / 15),
    "bursts": _burst_gap,
    "late": lambda dice, call: (
        dice.uniform(20, 60) if call < _CALM_CALLS else _burst_gap(dice, call)
    ),
    "agent": lambda dice, _: (
        3 + dice.lognormvariate(1.5, 0.6) if dice.random() < 0.9 else dice.lognormvariate(5, 1)
    ),
    "fast": lambda dice, _: 2 + dice.expovariate(1),
    "return": lambda dice, call: (
        4 + dice.expovariate(1 / 4) if call % 8 else dice.uniform(660, 1_500)
    ),
}


@dataclass(frozen=True)
class KeyPlan:
    """The traffic of a row: sessions, calls of each, and how often both are drawn."""

    sessions: int
    calls: int
    seeds: int


@dataclass
class KeyedSession:
    """A session: when it calls, its key, and the tokens and time of its latest call."""

    number: int
    times: Sequence[float]
    key: str = ""
    sent: int = 0
    latest: float = 0.0

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


class Keys:
    """Gives each session its key at its first call."""

    def choose(self, session: KeyedSession, now: float) -> str:
        """The key of a session that begins: its own."""
        return f"session-{session.number}"

    def note(self, session: KeyedSession, call: int, served: Served, now: float) -> None:
        """A call of a session was served."""


class OneKey(Keys):
    """One key for all sessions."""

    def choose(self, session: KeyedSession, now: float) -> str:
        """The key of all."""
        return "team"


class BuiltKeys(Keys):
    """The gateway's rule.

    Args:
        on_credit: True if one session may join before anything was saved.
    """

    def __init__(self, *, on_credit: bool) -> None:
        self._keys = SharedCacheKeys(on_credit=on_credit)

    def choose(self, session: KeyedSession, now: float) -> str:
        """The key that it shares, else its own."""
        name = b"%d" % session.number
        return self._keys.choose_key(name, "team", now, WRITE - READ) or super().choose(
            session, now
        )

    def note(self, session: KeyedSession, call: int, served: Served, now: float) -> None:
        """Count a call, and what it saved or lost beside what its cache should have read."""
        name = b"%d" % session.number
        total = served.read + served.fresh + sum(served.written.values())
        self._keys.record_call(name, now, call)
        expected = session.sent if call and now - session.latest <= _LIFETIME_S else 0
        saved = -max(0, expected - served.read) if expected else served.read if not call else 0
        self._keys.record_answer(name, total, saved * (WRITE - READ), now)
        session.sent, session.latest = total, now


RULES: Final[dict[str, Callable[[], Keys]]] = {
    "one key": OneKey,
    "as built": partial(BuiltKeys, on_credit=True),
    "no credit": partial(BuiltKeys, on_credit=False),
}


def sessions(rate: float, pace: str, plan: KeyPlan, dice: random.Random) -> Iterator[KeyedSession]:
    """Sessions that come at random, so that their calls come at this rate a minute in all."""
    now = 0.0
    for number in range(plan.sessions):
        now += dice.expovariate(rate / plan.calls / _MINUTE_S)
        times = [now]
        for call in range(1, plan.calls):
            times.append(times[-1] + PACES[pace](dice, call))
        yield KeyedSession(number, times)


def session_costs(
    found: Sequence[KeyedSession], keys: Keys, *, has_machines: bool
) -> dict[int, float]:
    """The cost of each session's input by its number, where keys are given so."""
    count = IN_MEMORY.machines if has_machines else 1
    cache = Machines([OpenAIBreakpoints() for _ in range(count)])
    costs: dict[int, float] = defaultdict(float)
    calls = sorted((at, each.number, call) for each in found for call, at in enumerate(each.times))
    for now, number, call in calls:
        session = found[number]
        if call == 0:
            session.key = keys.choose(session, now)
        served = cache.serve(session.prompt(call), now)
        keys.note(session, call, served, now)
        written = sum(served.written.values())
        costs[number] += READ * served.read + WRITE * written + FRESH * served.fresh
    return costs


def compare(rate: float, pace: str, plan: KeyPlan, *, has_machines: bool) -> str:
    """A row: each rule's cost beside a key of each session's own, and its worst session's."""
    totals: dict[str, float] = defaultdict(float)
    worst: dict[str, float] = defaultdict(float)
    own_total = 0.0
    for seed in range(plan.seeds):
        found = list(sessions(rate, pace, plan, random.Random(seed)))  # noqa: S311
        own = session_costs(found, Keys(), has_machines=has_machines)
        own_total += sum(own.values())
        for name, make in RULES.items():
            costs = session_costs(found, make(), has_machines=has_machines)
            totals[name] += sum(costs.values())
            ratios = (costs[number] / own[number] for number in own)
            worst[name] = max(worst[name], max(ratios, default=1.0))
    told = " | ".join(f"{totals[name] / own_total:.4f} ({worst[name]:.2f})" for name in RULES)
    place = "machines" if has_machines else "no machines"
    return f"| {place} | {pace} | {rate} | {told} |"


def main() -> None:
    """Print a table of cost ratios to a key of each session's own."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sessions", type=int, default=60)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--calls", type=int, default=20)
    given = parser.parse_args()
    plan = KeyPlan(given.sessions, given.calls, given.seeds)
    print(f"| cache | pace | calls a minute | {' | '.join(RULES)} |")
    print(f"|---|---|--:|{'--:|' * len(RULES)}")
    for has_machines in (False, True):
        for pace in PACES:
            for rate in RATES:
                row = compare(rate, pace, plan, has_machines=has_machines)
                print(row, flush=True)


if __name__ == "__main__":
    main()
