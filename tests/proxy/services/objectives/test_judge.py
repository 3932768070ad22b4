"""The judge: where objectives stand, by what all replicas counted."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.services.objectives.judge import ActivePin, Judge
from proxy.services.objectives.objective_state import TrackedObjective, track_objective
from slo.controller.state import ControllerSnapshot, ControllerState
from slo.controller.transitions import StateChange
from slo.objectives.objective import Enforce
from tests.fakes.objective_replicas import START, objective

TRACK = track_objective(objective())
BARE = track_objective(objective(name="bare", ladder=(), enforce=Enforce.ALERT))


class JudgedTraffic:
    """A judge, and the time in which calls are counted."""

    def __init__(self, *tracks: TrackedObjective) -> None:
        self.judge = Judge(tracks or (TRACK,))
        self.now = START
        self.moves: list[StateChange] = []

    def goes_on(
        self, seconds: int, good: int = 0, bad: int = 0, pins: object = None
    ) -> "JudgedTraffic":
        for _ in range(seconds):
            self.now += 1.0
            if good or bad:
                self.judge.add_counts({(TRACK.arm(0), int(self.now // 10)): (good, bad)})
            changes = self.judge.judge(pins or {}, self.now)  # type: ignore[arg-type]
            self.moves += [move for _, move in changes]
        return self

    @property
    def state(self) -> ControllerState:
        return self.judge.snapshots["chat-ttft"].state


def pin_to(level: int, until: float, set_at: float = START) -> dict[str, ActivePin]:
    return {"chat-ttft": ActivePin(level=level, made=set_at, until=until, why="a launch")}


def test_bad_calls_move_an_objective_and_good_ones_move_it_back():
    day = JudgedTraffic().goes_on(60, good=1, bad=1).goes_on(600, good=10)

    assert [move.after for move in day.moves] == [
        ControllerState.DEGRADED, ControllerState.RECOVERING, ControllerState.HEALTHY,
    ]  # fmt: skip


def test_answers_given_before_count_in_burn_rates_and_bring_no_level_back():
    day = JudgedTraffic().goes_on(60, good=1, bad=1)
    assert day.state is ControllerState.DEGRADED

    for _ in range(300):
        day.judge.add_counts({(TRACK.kept_arm, int(day.now // 10)): (10, 0)})
        day.goes_on(1)

    assert day.state is ControllerState.DEGRADED
    assert day.judge.counts(TRACK, day.now, 1800.0).good == 3_060
    assert set(day.judge.arms) >= {TRACK.arm(0), TRACK.kept_arm}


def test_an_error_budget_is_measured_over_the_window_of_each_alert():
    day = JudgedTraffic().goes_on(100, good=9, bad=1)
    windows = day.judge.burn_windows(TRACK, day.now)

    assert [(window.over, window.limit) for window in windows] == [
        (1800.0, 6.0), (21_600.0, 3.0), (259_200.0, 1.5),
    ]  # fmt: skip
    assert [window.rate for window in windows] == pytest.approx([2.0] * 3)
    assert {window.counted for window in windows} == {1000}
    assert all(90.0 <= window.known <= 110.0 for window in windows)


def test_every_level_is_counted_by_itself():
    assert Judge([TRACK, BARE]).arms == [
        "chat-ttft#0", "chat-ttft#1", "chat-ttft#2", "chat-ttft#kept", "bare#0", "bare#kept",
    ]  # fmt: skip


def test_an_objective_without_a_ladder_never_moves():
    day = JudgedTraffic(BARE)
    for second in range(300):
        day.judge.add_counts({("bare#0", int((START + second) // 10)): (0, 9)})
        assert day.judge.judge({}, START + second) == []


@pytest.mark.parametrize("seconds", [60.0, 7200.0, 21_600.0, 3 * 86_400.0])
def test_counts_reach_back_as_far_as_alerts_look(seconds):
    judge = Judge([TRACK])
    slots = int(START // 10)
    for slot in range(0, 3 * 8640, 30):
        judge.add_counts({(TRACK.arm(slot % 3), slots - slot): (1, 1)})
    counts = judge.counts(TRACK, START, seconds)

    assert counts.n == pytest.approx(2 * max(seconds // 300, 1), rel=0.02)


def test_forgetting_clears_short_windows_only():
    day = JudgedTraffic().goes_on(10, good=5)
    day.judge.forget()

    assert day.judge.counts(TRACK, day.now, 60).n == 0
    assert day.judge.counts(TRACK, day.now, 86_400).n == 50


def test_silence_freezes_what_is_not_healthy_and_a_call_thaws_it():
    day = JudgedTraffic().goes_on(60, good=1, bad=1).goes_on(1900)
    states = [day.state, day.goes_on(5, good=1).state]
    assert states == [ControllerState.FROZEN, ControllerState.DEGRADED]
    assert JudgedTraffic().goes_on(3000).state is ControllerState.HEALTHY


@pytest.mark.parametrize("by", [3600.0, -3600.0])
def test_a_clock_that_jumps_freezes_for_a_minute(by):
    day = JudgedTraffic().goes_on(60, good=1, bad=1)
    day.now += by
    day.goes_on(1, good=1)
    assert day.state is ControllerState.FROZEN
    day.goes_on(70, good=1)
    assert day.state is not ControllerState.FROZEN


def test_a_clock_that_jumps_there_and_back_freezes_for_a_minute_too():
    day = JudgedTraffic().goes_on(60, good=1, bad=1)
    day.now += 86_400
    day.goes_on(1, good=1)
    day.now -= 86_400
    day.goes_on(70, good=1)

    assert day.state is not ControllerState.FROZEN


def test_a_jump_means_nothing_to_what_is_healthy():
    day = JudgedTraffic().goes_on(10, good=5)
    day.now += 3600
    day.goes_on(5, good=5)

    assert day.moves == []


def test_a_pin_holds_until_it_ends():
    day = JudgedTraffic()
    pins = pin_to(2, START + 50)
    day.goes_on(10, pins=pins)
    assert (day.state, day.judge.snapshots["chat-ttft"].level) == (ControllerState.PINNED, 2)
    assert "a launch" in day.judge.snapshots["chat-ttft"].reason
    day.goes_on(60, pins=pins)
    assert day.state is ControllerState.HEALTHY  # as it was before


@pytest.mark.parametrize(("set_at", "since"), [(-500, -500), (0, 0), (900, 1)])
def test_a_pin_began_when_it_was_set_and_never_later_than_now(set_at, since):
    day = JudgedTraffic().goes_on(2, pins=pin_to(1, START + 1000, START + set_at))

    assert day.judge.snapshots["chat-ttft"].since == START + since


@pytest.mark.parametrize(("set_at", "since"), [(-500, 9), (3, 9), (3.8, 9), (6, 6)])
def test_a_pin_that_is_read_late_does_not_begin_before_what_it_ended(set_at, since):
    day = JudgedTraffic()
    snapshot = ControllerSnapshot(
        state=ControllerState.DEGRADED, level=1, since=START + 3.2, until=START + 600
    )
    day.judge.take_over_states({"chat-ttft": snapshot}, START)
    day.goes_on(8).goes_on(1, pins=pin_to(2, START + 1000, START + set_at))

    (move,) = day.moves
    assert (move.after, move.at) == (ControllerState.PINNED, START + since)


def test_a_pin_that_is_released_ends_at_once():
    day = JudgedTraffic().goes_on(5, pins=pin_to(0, START + 1000)).goes_on(1)

    assert day.state is ControllerState.HEALTHY


@pytest.mark.parametrize(("level", "expected"), [(-3, 0), (0, 0), (2, 2), (9, 2)])
def test_a_pin_is_to_a_level_that_there_is(level, expected):
    day = JudgedTraffic().goes_on(2, pins=pin_to(level, START + 100))

    assert day.judge.snapshots["chat-ttft"].level == expected


def test_a_pin_to_another_level_until_the_same_time_is_a_new_pin():
    day = (
        JudgedTraffic()
        .goes_on(2, pins=pin_to(1, START + 100))
        .goes_on(2, pins=pin_to(2, START + 100))
    )

    assert day.judge.snapshots["chat-ttft"].level == 2
    assert [move.level for move in day.moves] == [1, 2]


def test_a_new_judge_continues_the_published_states_without_a_jump():
    snapshot = ControllerSnapshot(
        state=ControllerState.DEGRADED, level=1, since=START - 10, until=START + 100
    )
    day = JudgedTraffic().goes_on(5)
    day.now += 500
    day.judge.take_over_states({"chat-ttft": snapshot, "gone": snapshot}, day.now)
    day.goes_on(1, good=1)

    assert day.judge.snapshots == {"chat-ttft": snapshot}


def test_objectives_that_are_not_judged_freeze_except_for_pins():
    judge = Judge([TRACK, BARE])
    judge.take_over_states(
        {"chat-ttft": ControllerSnapshot(state=ControllerState.DEGRADED, level=1, since=START)},
        START,
    )

    moved = judge.freeze({}, START + 1, "it is away")
    assert [(track.name, move.after) for track, move in moved] == [
        ("chat-ttft", ControllerState.FROZEN),
        ("bare", ControllerState.FROZEN),
    ]
    assert judge.snapshots["chat-ttft"].reason == "Frozen: it is away"
    assert judge.freeze({}, START + 2, "it is away") == []
    judge.freeze(pin_to(2, START + 5), START + 3, "it is away")
    assert (judge.snapshots["chat-ttft"].state, judge.snapshots["chat-ttft"].level) == (
        ControllerState.PINNED,
        2,
    )
    judge.freeze(pin_to(2, START + 5), START + 5, "it is away")
    assert judge.snapshots["chat-ttft"].state is ControllerState.FROZEN
    assert judge.snapshots["chat-ttft"].previous_state is ControllerState.DEGRADED


def test_a_level_of_a_longer_ladder_is_kept_within_this_one():
    snapshot = ControllerSnapshot(state=ControllerState.DEGRADED, level=7, since=START)
    judge = Judge([TRACK, BARE])
    judge.take_over_states({"chat-ttft": snapshot, "bare": snapshot}, START + 9)

    assert judge.snapshots["chat-ttft"].level == 2
    assert judge.snapshots["bare"] == ControllerSnapshot(since=START + 9)


@given(
    st.lists(
        st.tuples(
            st.sampled_from([-4000.0, -5.0, 0.0, 1.0, 10.0, 70.0, 1000.0]),
            st.integers(0, 200),
            st.integers(0, 200),
            st.none() | st.integers(-1, 4),
        ),
        max_size=40,
    )
)
def test_any_clocks_and_pins_leave_the_level_on_the_ladder(rounds):
    judge, now = Judge([TRACK, BARE]), START
    for gone, good, bad, level in rounds:
        now += gone
        judge.add_counts({(TRACK.arm(good % 3), int(now // 10)): (good, bad)})
        pins = {} if level is None else pin_to(level, now + 30)
        changes = judge.freeze({**pins}, now, "so") if bad % 5 == 1 else judge.judge({**pins}, now)
        for _, move in changes:
            assert 0 <= move.level <= 2
        assert all(0 <= snapshot.level <= 2 for snapshot in judge.snapshots.values())
