# ruff: noqa: S311, T201 - a simulation needs luck, and a script prints its result
"""An upstream is three times as slow for ten minutes: the controller, beside the usual switch.

Usage: python -m tests.bench.incident [--seeds 1 2 3] [--over 1 30]

One simulated hour, ten calls a second, in conversations of several calls that stay on the level
they began on. A call is slow beyond half a second, and one in twenty may be. The usual switch looks
at the p95 of all calls of the last minute and sends new conversations down while it is too high.
Both see the same conversations; nothing sleeps. The traffic and the delays are invented.

``--over`` prints what became of the first to the last of these seeds, in other weathers too: with
less traffic, with trouble that comes again, that is mild, or that is none.
"""

import argparse
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from heapq import heappop, heappush
from math import ceil, inf, isnan, nan
from random import Random
from statistics import fmean
from typing import Protocol

from slo.budgets.tally import Tally
from slo.controller.canary_share import level_for
from slo.controller.evaluate import evaluate
from slo.controller.state import ControllerRules, ControllerSnapshot, ControllerState, level_counts
from slo.controller.transitions import StateChange, state_change

HOUR = 3600.0
SLOWER = 3.0
#: Where the clock stands when the hour begins.
EPOCH = 1_800_000_000.0
#: Calls of a conversation, and seconds of thought between an answer and the next, on average.
CALLS, PAUSE = 4.0, 8.0
#: The median delay by level, in seconds, and how delays scatter (the sigma of their logarithm).
MEDIANS, SCATTER = (0.20, 0.14), 0.43
SLOW = 0.5
TARGET = 0.95
LOOKS = 2.0
_SIX_MINUTES = 360.0


@dataclass(frozen=True)
class Incident:
    """An hour's.

    Attributes:
        rate: Calls a second, about.
        spells: From when until when level 0 is how many times slower, in seconds of the hour.
    """

    rate: float = 10.0
    spells: tuple[tuple[float, float, float], ...] = ()

    def slower(self, second: float) -> float:
        """Number of times slower level 0 is."""
        return next((times for begin, end, times in self.spells if begin <= second < end), 1.0)


ONCE, AGAIN = (900.0, 1500.0, SLOWER), (1980.0, 2580.0, SLOWER)
INCIDENT = Incident(spells=(ONCE,))
WEATHERS = {
    "ten minutes, three times slower": INCIDENT,
    "and again after eight minutes": Incident(spells=(ONCE, AGAIN)),
    "the first at 3 calls/s": Incident(3.0, (ONCE,)),
    "the first at 1 call/s": Incident(1.0, (ONCE,)),
    "both at 1 call/s": Incident(1.0, (ONCE, AGAIN)),
    "the first at 10 calls/min": Incident(1 / 6, (ONCE,)),
    "ten minutes, 1.5 times slower": Incident(spells=((900.0, 1500.0, 1.5),)),
    "45 minutes, 1.5 times slower": Incident(spells=((900.0, HOUR, 1.5),)),
    "45 minutes, 1.5 times slower, 1 call/s": Incident(1.0, ((900.0, HOUR, 1.5),)),
    "two of four minutes": Incident(
        spells=tuple((at, at + 120.0, SLOWER) for at in range(900, 3600, 240))
    ),
    "4 % slow": Incident(spells=((0.0, HOUR, 1.177),)),
    "4 % slow, 10 calls/min": Incident(1 / 6, ((0.0, HOUR, 1.177),)),
    "calm": Incident(),
    "calm, 1 call/s": Incident(1.0),
    "calm, 10 calls/min": Incident(1 / 6),
}


class Policy(Protocol):
    """Chooses the level of new conversations."""

    def level(self, draw: float) -> int:
        """Of a conversation with this draw."""

    def saw(self, level: int, delay: float, now: float) -> None:
        """A call was answered."""

    def look(self, now: float) -> None:
        """Judge."""


class Controller:
    """Ours: tallies by level, judged by ``slo.controller``."""

    name = "controller"

    def __init__(self) -> None:
        self.rules = ControllerRules(target=TARGET, fallback_levels=len(MEDIANS) - 1)
        self.snapshot = ControllerSnapshot(since=EPOCH)
        self.tally = Tally()
        self.moves: list[StateChange] = []
        self.whole: list[float] = []

    def level(self, draw: float) -> int:
        return level_for(self.snapshot, draw, self.rules)

    def saw(self, level: int, delay: float, now: float) -> None:
        self.tally.add(str(level), int(delay <= SLOW), int(delay > SLOW), now)

    def look(self, now: float) -> None:
        arms = {level: level_counts(self.tally, str(level), now) for level in range(len(MEDIANS))}
        before, self.snapshot = (
            self.snapshot,
            evaluate(self.snapshot, arms, self.rules, now),
        )
        if move := state_change(before, self.snapshot):
            self.moves.append(move)
        if before.share < self.snapshot.share == 1.0:
            self.whole.append(now)

    @property
    def downs(self) -> list[float]:
        return [move.at for move in self.moves if move.after is ControllerState.DEGRADED]

    @property
    def settled_at(self) -> float:
        """The time when it last became healthy; never, if it is not."""
        if self.snapshot.state is not ControllerState.HEALTHY:
            return inf
        return max((m.at for m in self.moves if m.after is ControllerState.HEALTHY), default=EPOCH)


class Switch:
    """The usual: down while the p95 of the last minute is too high, and up while it is not."""

    name = "p95 of 60 s"

    def __init__(self) -> None:
        self.down = False
        self.seen: deque[tuple[float, float]] = deque()
        self.moves: list[float] = []
        self.downs: list[float] = []
        self.whole: list[float] = []

    def level(self, draw: float) -> int:
        return int(self.down)

    def saw(self, level: int, delay: float, now: float) -> None:
        self.seen.append((now, delay))

    def look(self, now: float) -> None:
        while self.seen and self.seen[0][0] <= now - 60.0:
            self.seen.popleft()
        delays = sorted(delay for _, delay in self.seen)
        down = bool(delays) and delays[ceil(TARGET * len(delays)) - 1] > SLOW
        if down != self.down:
            self.down = down
            self.moves.append(now)
            (self.downs if down else self.whole).append(now)

    @property
    def settled_at(self) -> float:
        return inf if self.down else max(self.moves, default=EPOCH)


class SimulatedHour:
    """An hour under a policy; the same seed has the same conversations, pauses and luck."""

    def __init__(self, seed: int, policy: Policy, weather: Incident) -> None:
        self.policy = policy
        self.weather = weather
        self.calls = self.slow = self.slow_meanwhile = self.lower = 0
        self._due: list[tuple[float, int, Callable[[float], None]]] = []
        self._pushed = 0
        self._seed = seed
        self._arrivals = Random(f"{seed} arrivals")
        self._begun = 0
        self.at(EPOCH, self._looks)
        self.at(EPOCH, self._begins)
        while self._due[0][0] < EPOCH + HOUR:
            when, _, happens = heappop(self._due)
            happens(when)

    def at(self, when: float, happens: Callable[[float], None]) -> None:
        self._pushed += 1
        heappush(self._due, (when, self._pushed, happens))

    def _looks(self, now: float) -> None:
        self.policy.look(now)
        self.at(now + LOOKS, self._looks)

    def _begins(self, now: float) -> None:
        """A conversation begins, and the next one will."""
        self.at(now + self._arrivals.expovariate(self.weather.rate / CALLS), self._begins)
        self._begun += 1
        luck = Random(f"{self._seed} conversation {self._begun}")
        level = self.policy.level(draw_of(f"{self._seed} {self._begun}"))
        self._asks(now, luck, level)

    def _asks(self, now: float, luck: Random, level: int) -> None:
        delay = MEDIANS[level] * luck.lognormvariate(0.0, SCATTER)
        slower = self.weather.slower(now - EPOCH)
        if level == 0:
            delay *= slower
        self.calls += 1
        self.lower += level > 0
        self.slow += delay > SLOW
        self.slow_meanwhile += delay > SLOW and slower > 1
        self.at(now + delay, lambda then: self._answers(then, delay, luck, level))

    def _answers(self, now: float, delay: float, luck: Random, level: int) -> None:
        """The answer is there; one in so many was the conversation's last."""
        self.policy.saw(level, delay, now)
        if luck.random() >= 1 / CALLS:
            pause = luck.expovariate(1 / PAUSE)
            self.at(now + pause, lambda then: self._asks(then, luck, level))


def draw_of(name: str) -> float:
    """The conversation's draw, from its name: 0.0 to below 1.0."""
    return int.from_bytes(blake2b(name.encode(), digest_size=6).digest()) / 2**48


@dataclass(frozen=True, kw_only=True)
class IncidentResult:
    """The results of an hour under a policy.

    Attributes:
        moves: How often the policy changed what it does with new conversations.
        slow: The share of calls that were slow.
        slow_meanwhile: Slow calls of the incident, as a share of the hour's.
        lower: The share of calls that the lower level answered.
        noticed: Seconds from the beginning of the first spell until a move down; none if none came.
        whole: Seconds from the last one's end until all new conversations went to level 0 for good.
        settled: Seconds from its end until the last move; infinite if that is still to come.
    """

    moves: int
    slow: float
    slow_meanwhile: float
    lower: float
    noticed: float
    whole: float
    settled: float


def outcome(seed: int, policy: Controller | Switch, weather: Incident = INCIDENT) -> IncidentResult:
    """Let the policy live through the hour."""
    hour = SimulatedHour(seed, policy, weather)
    begin = EPOCH + min((begin for begin, _, _ in weather.spells), default=0.0)
    end = EPOCH + max((end for _, end, _ in weather.spells), default=0.0)
    return IncidentResult(
        moves=len(policy.moves),
        slow=hour.slow / hour.calls,
        slow_meanwhile=hour.slow_meanwhile / hour.calls,
        lower=hour.lower / hour.calls,
        noticed=next((down for down in policy.downs if down >= begin), nan) - begin,
        whole=max(policy.whole, default=end) - end,
        settled=policy.settled_at - end,
    )


def print_each(seeds: Iterable[int]) -> None:
    """A line for each seed and policy, of the incident."""
    print(
        "| policy | seed | moves | slow calls | in the incident | sent down | noticed after"
        " | all up again after its end | last move |\n|---|--:|--:|--:|--:|--:|--:|--:|--:|"
    )
    for seed in seeds:
        for policy in (Switch(), Controller()):
            came = outcome(seed, policy)
            print(
                f"| {policy.name} | {seed} | {came.moves} | {came.slow:.2%} |"
                f" {came.slow_meanwhile:.2%} | {came.lower:.1%} | {came.noticed:.0f} s |"
                f" {came.whole:.0f} s | {came.settled:.0f} s |"
            )


def print_all(seeds: Sequence[int]) -> None:
    """A line for each weather: the controller's outcomes over the seeds, beside the switch's."""
    print(
        "| an hour of | moves, mean (most) | switch | slow calls | switch | more than with it"
        " | sent down | switch | noticed after, mean (most)"
        " | last move after its end, mean (most) | over 6 minutes |"
        "\n|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|"
    )
    for name, weather in WEATHERS.items():
        ours = [outcome(seed, Controller(), weather) for seed in seeds]
        usual = [outcome(seed, Switch(), weather) for seed in seeds]
        moves, noticed = [each.moves for each in ours], [each.noticed for each in ours]
        ends = bool(weather.spells) and all(end < HOUR for _, end, _ in weather.spells)
        settled = [each.settled for each in ours if each.moves and ends]
        worse = sum(one.slow > other.slow for one, other in zip(ours, usual, strict=True))
        cells = (
            name,
            f"{fmean(moves):.2f} ({max(moves)})",
            f"{fmean(each.moves for each in usual):.1f}",
            f"{fmean(each.slow for each in ours):.2%}",
            f"{fmean(each.slow for each in usual):.2%}",
            f"{worse} of {len(seeds)}",
            f"{fmean(each.lower for each in ours):.1%}",
            f"{fmean(each.lower for each in usual):.1%}",
            _mean_and_most(noticed),
            _mean_and_most(settled),
            f"{sum(each > _SIX_MINUTES for each in settled)} of {len(settled)}" if settled else "",
        )
        print(f"| {' | '.join(cells)} |", flush=True)


def _mean_and_most(seconds: Sequence[float]) -> str:
    """Mean and most of them; nothing of none."""
    measured = [second for second in seconds if not isnan(second)]
    return f"{fmean(measured):.0f} s ({max(measured):.0f} s)" if measured else ""


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--over", type=int, nargs=2, metavar=("FIRST", "LAST"))
    options = parser.parse_args()
    if options.over:
        print_all(range(options.over[0], options.over[1] + 1))
    else:
        print_each(options.seeds)


if __name__ == "__main__":
    main()
