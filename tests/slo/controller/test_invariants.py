"""Laws of the controller under any counts, evaluations, pins, freezes and changes of the clock."""

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from msgspec import json

from slo import wilson
from slo.budgets.tally import GoodBadCounts
from slo.controller.canary_share import level_for
from slo.controller.evaluate import evaluate
from slo.controller.pins import apply_pin, freeze_state, remove_pin, thaw_state
from slo.controller.state import ControllerRules, ControllerSnapshot, ControllerState, LevelCounts
from slo.controller.transitions import state_change
from tests.examples import examples

BEGAN = 1_000_000.0
RULES = ControllerRules(target=0.95, fallback_levels=2)
AUTOMATIC = (ControllerState.HEALTHY, ControllerState.DEGRADED, ControllerState.RECOVERING)


@st.composite
def arms(draw):
    """Counts that a level can have: some slots had calls, and some of them were bad."""
    parts = [
        (
            draw(st.integers(1, 20)),
            draw(st.integers(0, 120)),
            draw(st.sampled_from([0.0, 0.02, 0.05, 0.1, 0.6, 1.0])),
        )
        for _ in range(4)
    ]
    counted = []
    good = bad = 0
    for slots, n, share in parts:
        bad += round(n * share)
        good += n - round(n * share)
        counted += slots * [GoodBadCounts(good, bad)]
    return LevelCounts(tuple(counted))


def is_breach(arm: LevelCounts, *, is_new: bool = False) -> bool:
    """True if calls of a minute, or the last twenty, are over budget as what surrounds them is."""
    calls, seconds = arm.latest(10 if is_new else 20, 60)
    newest, _ = arm.latest(10)
    over = 0.05 if calls.n >= 50 and not is_new else 0.22
    return calls.share > over and newest.share > 0.05 < arm.within(max(5 * seconds, 300)).share


def canaries(primary: LevelCounts, before: ControllerSnapshot) -> GoodBadCounts:
    """The calls a recovery may be judged by: those of two minutes, after relapses of more of them.

    They are of longer where it takes that for 40, and 20 of ten minutes where everybody tries.
    """
    seconds = {0: 120, 1: 120, 2: 240}.get(before.relapses, 480)
    while primary.within(seconds).n < 40 and seconds < 600:
        seconds += 10
    counts = primary.within(seconds)
    assert counts.n >= (20 if before.share == 1.0 else 40)
    return counts


class ControllerMachine(RuleBasedStateMachine):
    """One objective's snapshot. Automatic moves are held to the rules; people may do anything."""

    def __init__(self) -> None:
        super().__init__()
        self.now = BEGAN
        self.snapshot = ControllerSnapshot(since=BEGAN)
        #: Seconds that truly passed since it last became degraded by itself, and the dwell it owes.
        self.degraded_for = self.owed = 0.0

    def _pass(self, seconds: float) -> None:
        self.now += seconds
        self.degraded_for += max(seconds, 0.0)

    @rule(
        seconds=st.sampled_from([1.0, 2.0, 2.0, 30.0, 60.0, 120.0, 900.0]),
        levels=st.dictionaries(st.integers(0, 2), arms(), max_size=3),
    )
    def look(self, seconds, levels):
        self._pass(seconds)
        before, after = (
            self.snapshot,
            evaluate(self.snapshot, levels, RULES, self.now),
        )
        self.snapshot = after
        assert after is before or after != before
        if before.state is ControllerState.FROZEN:
            assert after.state is ControllerState.FROZEN
        if state_change(before, after) is None or before.state not in AUTOMATIC:
            return
        self._check_move(before, after, levels)

    def _check_move(
        self, before: ControllerSnapshot, after: ControllerSnapshot, levels: dict[int, LevelCounts]
    ) -> None:
        """By itself, which takes evidence."""
        primary, own = levels.get(0, LevelCounts()), levels.get(before.level, LevelCounts())
        assert any(level.within(600).n >= RULES.min_calls_if_gross for level in levels.values())
        assert after.reason
        match before.state, after.state:
            case ControllerState.HEALTHY, ControllerState.DEGRADED:
                assert after.level == 1 or is_breach(levels[1])
                assert is_breach(primary)
            case ControllerState.DEGRADED, ControllerState.DEGRADED:
                assert after.level == before.level + 1
                assert is_breach(own, is_new=self.degraded_for < self.owed)
                assert self.degraded_for >= min(10.0, self.owed)
            case ControllerState.DEGRADED, ControllerState.RECOVERING:
                assert after.level == before.level
                assert canaries(primary, before).share <= 0.05
                minute = primary.within(60)
                assert minute.n < 50 or wilson.lower_bound(minute.bad, minute.n) <= 0.05
            case ControllerState.RECOVERING, ControllerState.DEGRADED:
                assert after.level == before.level
                assert after.relapses == before.relapses + 1
            case _:
                assert (before.state, after.state) == (
                    ControllerState.RECOVERING,
                    ControllerState.HEALTHY,
                )
                assert before.share == 1.0
        if before.state is ControllerState.DEGRADED and after.state is ControllerState.RECOVERING:
            assert self.degraded_for >= self.owed
        if after.state is ControllerState.DEGRADED:
            self.degraded_for, self.owed = 0.0, RULES.dwell_time(after.relapses)
            assert 120 <= self.owed <= 900

    @rule(seconds=st.sampled_from([1.0, 60.0, 86_400.0]))
    def turn_the_clock_back(self, seconds):
        self._pass(-seconds)

    @rule(level=st.integers(0, 2), ttl=st.sampled_from([10.0, 600.0]))
    def pin(self, level, ttl):
        self.snapshot = apply_pin(self.snapshot, level, self.now + ttl, self.now, "a test")
        self.owed = 0.0

    @rule()
    def unpin(self):
        self.snapshot = remove_pin(self.snapshot, self.now, RULES)

    @rule()
    def freeze(self):
        self.snapshot = freeze_state(self.snapshot, self.now, "the store is lost")

    @rule()
    def thaw(self):
        self.snapshot = thaw_state(self.snapshot, self.now)

    @invariant()
    def the_level_is_one_there_is(self):
        assert 0 <= self.snapshot.level <= RULES.fallback_levels
        proposed = [level_for(self.snapshot, draw, RULES) for draw in (0.0, 0.3, 0.99)]
        assert set(proposed) <= {0, self.snapshot.level}

    @invariant()
    def the_share_is_a_part(self):
        assert 0.0 <= self.snapshot.share <= 1.0
        if self.snapshot.state is ControllerState.HEALTHY:
            assert (self.snapshot.share, self.snapshot.level) == (1.0, 0)
        if self.snapshot.state is ControllerState.RECOVERING:
            assert self.snapshot.share in RULES.ramp

    @invariant()
    def it_survives_its_way_through_the_store(self):
        assert json.decode(json.encode(self.snapshot), type=ControllerSnapshot) == self.snapshot


TestLooked = ControllerMachine.TestCase
TestLooked.settings = examples(75, stateful_step_count=40, deadline=None)
