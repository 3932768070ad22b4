# ruff: noqa: T201 - a script prints its result
"""Coding agents' sessions on GPT-5.6: a cache key for each session beside keys that they share.

Sessions hold 10,000 tokens of tools and instructions in common, marked at their end, as the gateway
marks Codex's. Time and chance are simulated; costs count input alone, in prices of an uncached
token. ``no machines`` is the cache as the simulator has it: a key parts what is stored, and nothing
overflows. ``machines`` adds what is known of the models before: the first 256 tokens and the key
choose a machine, and beyond 15 calls in a minute another one takes over.
Of each rule it prints the cost over a key of each session's own and, in brackets, the worst
session's and what the worst draw lost, in thousands of tokens.
Usage: python -m tests.bench.cache_keys [--sessions 60] [--calls 20] [--seeds 3] [--gap 0] [--all]
"""

import argparse
import random
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from hashlib import blake2b
from math import inf
from typing import Final

from proxy.caches.openai_breakpoint import OpenAIBreakpoints
from proxy.caches.openai_interval import IN_MEMORY, MinuteCalls
from proxy.caches.port import CachedPrompt, Served, TokenBlock
from proxy.prefix.agent_keys import MAX_SHORT_CALLS, KeyCosts, SharedCacheKeys

RATES: Final = (1, 6, 30, 120)
#: Counted in eights, so that a row takes seconds.
SHARED_TOKENS, OWN_TOKENS, ANSWER_TOKENS, RESULT_TOKENS = 1_250, 150, 19, 162
READ, WRITE, FRESH = 0.1, 1.25, 1.0
#: One cent at a dollar for a million tokens, in eights.
STAKE_TOKENS: Final = 10_000 / 8
_MINUTE_S: Final = 60.0
_LIFETIME_S: Final = 1_800.0
_ROUTED_TOKENS: Final = IN_MEMORY.routed
_EIGHT: Final = 8
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
    """The traffic of a row.

    Attributes:
        calls: Calls of each session.
        seeds: Times that both are drawn.
        gap_s: Seconds between two sessions, on average; 0 where a rate of calls decides.
    """

    sessions: int
    calls: int
    seeds: int
    gap_s: float = 0.0


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
            message = 2 + 2 * turn
            answer = TokenBlock(
                role="assistant", tokens=(own + message,) * ANSWER_TOKENS, message=message
            )
            result = (own + message + 1,) * RESULT_TOKENS
            blocks += [answer, TokenBlock(role="tool", tokens=result, message=message + 1)]
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
    """Gives each session its key."""

    def choose(self, session: KeyedSession, call: int, now: float) -> str:
        """The key of a session's call: its own."""
        return f"session-{session.number}"

    def note(self, session: KeyedSession, call: int, served: Served, now: float) -> None:
        """A call of a session was served."""


class OneKey(Keys):
    """One key for all sessions."""

    def choose(self, session: KeyedSession, call: int, now: float) -> str:
        """The key of all."""
        return "team"


class BuiltKeys(Keys):
    """The gateway's rule.

    Args:
        stake: Uncached tokens that sessions may lose before they saved anything.
    """

    def __init__(self, stake: float) -> None:
        self._keys = SharedCacheKeys()
        self._costs = KeyCosts(WRITE - READ, SHARED_TOKENS, SHARED_TOKENS + OWN_TOKENS, stake)

    def choose(self, session: KeyedSession, call: int, now: float) -> str:
        """The key that it shares, else its own."""
        name = b"%d" % session.number
        key = self._keys.choose_key(name, "team", now, self._costs)
        return key or super().choose(session, call, now)

    def note(self, session: KeyedSession, call: int, served: Served, now: float) -> None:
        """Count a call, and what it saved or lost beside what its cache should have read."""
        name = b"%d" % session.number
        total = served.read + served.fresh + sum(served.written.values())
        self._keys.record_call(name, now, call)
        expected = session.sent if call and now - session.latest <= _LIFETIME_S else 0
        saved = -max(0, expected - served.read) if expected else served.read if not call else 0
        self._keys.record_answer(name, total, saved * (WRITE - READ), now)
        session.sent, session.latest = total, now


class RoomAlone(BuiltKeys):
    """Short sessions join wherever their calls fit, whatever they may lose."""

    def __init__(self) -> None:
        super().__init__(inf)
        self._latest: dict[str, float] = {}
        self._joined: set[int] = set()

    def choose(self, session: KeyedSession, call: int, now: float) -> str:
        """The key that it shares, else its own."""
        key = super().choose(session, call, now)
        if call == 0 and key in self._latest:
            self._joined.add(session.number)
        self._latest[key] = now
        return key


class LeaveAtFourth(RoomAlone):
    """The same, and a session that joined goes on with its own key from its fourth call on."""

    def choose(self, session: KeyedSession, call: int, now: float) -> str:
        """The key that it shares for three calls, else its own."""
        key = super().choose(session, call, now)
        has_left = session.number in self._joined and call >= MAX_SHORT_CALLS
        return Keys.choose(self, session, call, now) if has_left else key


class OneAtATime(RoomAlone):
    """The same as room alone, of one session a minute."""

    def __init__(self) -> None:
        super().__init__()
        self._latest_join = -inf
        self._own: set[int] = set()

    def choose(self, session: KeyedSession, call: int, now: float) -> str:
        """The key that it shares, else its own."""
        key = super().choose(session, call, now)
        if call == 0 and session.number in self._joined:
            if now - self._latest_join < _MINUTE_S:
                self._own.add(session.number)
            else:
                self._latest_join = now
        return Keys.choose(self, session, call, now) if session.number in self._own else key


RULES: Final[dict[str, Callable[[], Keys]]] = {
    "one key": OneKey,
    "as built": partial(BuiltKeys, STAKE_TOKENS),
    "no stake": partial(BuiltKeys, 0.0),
}
#: Rules that are simpler.
SIMPLER: Final[dict[str, Callable[[], Keys]]] = {
    "room alone": RoomAlone,
    "leave at the fourth call": LeaveAtFourth,
    "one a minute": OneAtATime,
}


def sessions(rate: float, pace: str, plan: KeyPlan, dice: random.Random) -> Iterator[KeyedSession]:
    """Sessions that come at random, so that their calls come at this rate a minute in all."""
    now = 0.0
    for number in range(plan.sessions):
        gap = dice.uniform(0, 2 * plan.gap_s)
        now += gap if plan.gap_s else dice.expovariate(rate / plan.calls / _MINUTE_S)
        times = [now]
        for call in range(1, plan.calls):
            times.append(times[-1] + PACES[pace](dice, call))
        yield KeyedSession(number, times)


def session_costs(
    keyed: Sequence[KeyedSession], keys: Keys, *, has_machines: bool
) -> dict[int, float]:
    """The cost of each session's input by its number, where keys are given so."""
    count = IN_MEMORY.machines if has_machines else 1
    cache = Machines([OpenAIBreakpoints() for _ in range(count)])
    costs: dict[int, float] = defaultdict(float)
    calls = sorted((time, one.number, call) for one in keyed for call, time in enumerate(one.times))
    for now, number, call in calls:
        session = keyed[number]
        session.key = keys.choose(session, call, now)
        served = cache.serve(session.prompt(call), now)
        keys.note(session, call, served, now)
        written = sum(served.written.values())
        costs[number] += READ * served.read + WRITE * written + FRESH * served.fresh
    return costs


def compare(
    rules: Mapping[str, Callable[[], Keys]],
    rate: float,
    pace: str,
    plan: KeyPlan,
    *,
    has_machines: bool,
) -> str:
    """A row: each rule's cost beside own keys, its worst session's, and its worst draw's loss."""
    totals: dict[str, float] = defaultdict(float)
    worst: dict[str, float] = defaultdict(float)
    most: dict[str, float] = defaultdict(lambda: -inf)
    own_total = 0.0
    for seed in range(plan.seeds):
        keyed = list(sessions(rate, pace, plan, random.Random(seed)))  # noqa: S311
        own = session_costs(keyed, Keys(), has_machines=has_machines)
        own_total += sum(own.values())
        for name, make in rules.items():
            costs = session_costs(keyed, make(), has_machines=has_machines)
            totals[name] += sum(costs.values())
            most[name] = max(most[name], sum(costs.values()) - sum(own.values()))
            ratios = (costs[number] / own[number] for number in own)
            worst[name] = max(worst[name], max(ratios, default=1.0))
    cells = " | ".join(
        f"{totals[name] / own_total:.3f} ({worst[name]:.2f}, {most[name] * _EIGHT / 1_000:+.0f})"
        for name in rules
    )
    place = "machines" if has_machines else "no machines"
    return f"| {place} | {pace} | {rate} | {cells} |"


def main() -> None:
    """Print a table of cost ratios to a key of each session's own."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sessions", type=int, default=60)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--calls", type=int, default=20)
    parser.add_argument("--gap", type=float, default=0.0, help="seconds between two sessions")
    parser.add_argument("--all", action="store_true", help="simpler rules, too")
    given = parser.parse_args()
    plan = KeyPlan(given.sessions, given.calls, given.seeds, given.gap)
    rules = {**RULES, **SIMPLER} if given.all else RULES
    print(f"| cache | pace | calls a minute | {' | '.join(rules)} |")
    print(f"|---|---|--:|{'--:|' * len(rules)}")
    for has_machines in (False, True):
        for pace in PACES:
            for rate in (0,) if plan.gap_s else RATES:
                row = compare(rules, rate, pace, plan, has_machines=has_machines)
                print(row, flush=True)


if __name__ == "__main__":
    main()
