"""Calls without luck, second by second, judged every two seconds."""

from collections.abc import Callable
from math import floor

from slo.budgets.tally import Tally
from slo.controller.evaluate import evaluate
from slo.controller.state import ControllerRules, ControllerSnapshot, level_counts
from slo.controller.transitions import state_change

EPOCH = 1_800_000_000.0
RULES = ControllerRules(target=0.95, fallback_levels=2)
FINE, AWFUL = 0.01, 0.6
Bad = Callable[[int, int], float]
"""The part of a level's calls that are bad, by level and second."""


class SteadyTraffic:
    """Calls without luck: every level gets and spoils exactly its part of them."""

    def __init__(
        self,
        bad: Bad,
        rate: Callable[[int], float] = lambda second: 10.0,
        rules: ControllerRules = RULES,
    ) -> None:
        self.bad, self.rate, self.rules = bad, rate, rules
        self.tally = Tally()
        self.snapshot = ControllerSnapshot(since=EPOCH)
        self.moves: list[str] = []
        self.owed = [0.0] * (rules.fallback_levels + 1)
        self.spoiled = [0.0] * (rules.fallback_levels + 1)
        self.bad_in_all = [0] * (rules.fallback_levels + 1)
        self.jump = 0.0
        self.second = 0

    def run(self, seconds: int, *, counting: bool = True) -> "SteadyTraffic":
        for _ in range(seconds):
            now = EPOCH + self.second + self.jump
            if counting:
                self._calls(now)
            if self.second % 2 == 0:
                arms = {level: level_counts(self.tally, str(level), now) for level in self.levels}
                self.stand(evaluate(self.snapshot, arms, self.rules, now))
                self.tally.forget(now)
            self.second += 1
        return self

    def stand(self, after: ControllerSnapshot) -> None:
        if move := state_change(self.snapshot, after):
            self.moves.append(
                f"{self.second}: {move.before} {move.level_before} > {move.after} {move.level}"
            )
        self.snapshot = after

    @property
    def levels(self) -> range:
        return range(self.rules.fallback_levels + 1)

    @property
    def now(self) -> float:
        return EPOCH + self.second + self.jump

    def _calls(self, now: float) -> None:
        parts = [0.0 for _ in self.levels]
        parts[self.snapshot.level] = 1.0 - self.snapshot.share
        parts[0] += self.snapshot.share if self.snapshot.level else 0.0
        parts[0] = parts[0] or float(not self.snapshot.level)
        for level, part in enumerate(parts):
            self.owed[level] += self.rate(self.second) * part
            calls = floor(self.owed[level] + 1e-9)
            self.owed[level] -= calls
            self.spoiled[level] += calls * self.bad(level, self.second)
            bad = floor(self.spoiled[level] + 1e-9)
            self.spoiled[level] -= bad
            self.bad_in_all[level] += bad
            if calls:
                self.tally.add(str(level), calls - bad, bad, now)
