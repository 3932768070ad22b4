"""An objective as it is kept."""

import msgspec
import pytest

from proxy.services.objectives.objective_state import (
    STATE_NAMES,
    Miss,
    PublishedState,
    ShownState,
    shown_state,
    track_objective,
)
from slo.controller.state import ControllerSnapshot, ControllerState
from slo.objectives.objective import Enforce, Metric
from tests.fakes.objective_replicas import objective


@pytest.mark.parametrize(
    ("enforce", "acts"),
    [
        (Enforce.OBSERVE, False),
        (Enforce.ALERT, False),
        (Enforce.DEGRADE, True),
        (Enforce.SHED, True),
    ],
)
def test_only_what_is_enforced_acts(enforce, acts):
    assert track_objective(objective(enforce=enforce)).acts is acts


def test_an_error_objective_reroutes_conversations_midway():
    assert track_objective(objective(metric=Metric.ERRORS, under=None)).is_hard
    assert not track_objective(objective()).is_hard


def test_an_objective_has_a_fallback_level_per_ladder_entry():
    track = track_objective(objective())

    assert [track.ladder_entry(level) for level in (1, 2, 3, 9)] == [
        "elsewhere",
        "small",
        "small",
        "small",
    ]
    assert [track.arm(level) for level in (0, 1)] == ["chat-ttft#0", "chat-ttft#1"]
    assert (track.name, track.rules.fallback_levels, track.rules.target) == ("chat-ttft", 2, 0.95)


@pytest.mark.parametrize(("target", "least"), [(0.5, 50), (0.95, 50), (0.9999, 10_000)])
def test_strict_targets_need_more_calls_to_trip(target, least):
    assert track_objective(objective(target=target)).rules.min_calls_to_trip == pytest.approx(
        least, rel=0.01
    )


def test_a_published_state_is_read_back_unchanged():
    state = PublishedState(
        5.0,
        ControllerSnapshot(
            state=ControllerState.PINNED, level=2, since=1.0, until=9.0, reason="why"
        ),
    )

    assert msgspec.json.decode(msgspec.json.encode(state), type=PublishedState) == state


MISS = Miss(7.0, "92 of 92 calls missed it")
DOUBT = Miss(7.0, "9 of 12 missed it", is_proven=False)
HEALTHY = ControllerSnapshot(since=1.0, reason="40 of 40 were good")


@pytest.mark.parametrize(
    ("snapshot", "miss", "shown"),
    [
        (None, None, ShownState("healthy")),
        (HEALTHY, None, ShownState("healthy", 0, 1.0, "40 of 40 were good")),
        (None, MISS, ShownState("missed", 0, 7.0, "92 of 92 calls missed it")),
        (HEALTHY, MISS, ShownState("missed", 0, 7.0, "92 of 92 calls missed it")),
        (None, DOUBT, ShownState("too_few_calls", 0, 7.0, "9 of 12 missed it")),
        (HEALTHY, DOUBT, ShownState("too_few_calls", 0, 7.0, "9 of 12 missed it")),
    ],
)
def test_a_miss_is_shown_where_the_controller_does_nothing(snapshot, miss, shown):
    assert shown_state(snapshot, miss) == shown


@pytest.mark.parametrize("state", list(ControllerState)[1:])
def test_a_controller_state_is_shown_whether_or_not_the_objective_is_missed(state):
    snapshot = ControllerSnapshot(state=state, level=1, since=3.0, reason="why")

    for miss in (None, MISS):
        assert shown_state(snapshot, miss) == ShownState(state.value, 1, 3.0, "why")
        assert state.value in STATE_NAMES


def test_the_state_that_a_leader_without_misses_published_is_read():
    published = b'{"at":5.0,"snapshot":{"since":1.0},"stage":"","burns":[]}'

    assert msgspec.json.decode(published, type=PublishedState).miss is None
