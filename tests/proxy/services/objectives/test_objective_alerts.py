"""Alerts of objectives: each once when it begins, and once when it ends."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.services.objectives.judge import Judge
from proxy.services.objectives.objective_alerts import ObjectiveAlerts
from proxy.services.objectives.objective_state import TrackedObjective, track_objective
from slo.alert import Severity
from slo.controller.state import ControllerSnapshot, ControllerState
from slo.controller.transitions import StateChange
from slo.objectives.objective import BurnAlert, Enforce, Metric
from tests.examples import examples
from tests.fakes.objective_replicas import START, objective

TRACK = track_objective(objective(alerts=(BurnAlert(burn=6.0, over=1800.0),)))
FLOOR = track_objective(
    objective(name="floor", metric=Metric.CACHE, target=0.7, under=None, enforce=Enforce.ALERT)
)


def move(
    after: ControllerState,
    level: int = 0,
    time: float = START,
    before: int = 0,
    state_before: ControllerState = ControllerState.HEALTHY,
) -> StateChange:
    return StateChange(
        before=state_before,
        after=after,
        level_before=before,
        level=level,
        at=time,
        reason="why",
    )


class ObjectiveHistory:
    """News of one objective as its counts go on."""

    def __init__(self, about: TrackedObjective = TRACK) -> None:
        self.track = about
        self.news = ObjectiveAlerts()
        self.judge = Judge([about])
        self.now = START
        self.cost = 0
        self.stages: dict[str, str] = {}

    def goes_on(self, seconds: float, good: int = 0, bad: int = 0) -> list[Any]:
        """Each ten seconds so many calls; what is told meanwhile."""
        alerts = []
        for _ in range(int(seconds // 10)):
            self.now += 10.0
            self.judge.add_counts({(self.track.arm(0), int(self.now // 10)): (good, bad)})
            self.cost += bad
            alerts += self.news.alerts_of_judgement(
                [self.track], self.judge, {self.track.name: self.cost}, self.now, self.stages
            )
        return alerts


def test_a_budget_that_burns_is_told_once_and_once_that_it_is_over():
    story = ObjectiveHistory()
    assert story.goes_on(60, good=10) == []
    (began,) = story.goes_on(600, good=1, bad=9)
    (ended,) = story.goes_on(1800, good=100)

    assert (began.kind, began.severity, began.subject) == ("burn", Severity.PAGE, "chat-ttft")
    assert began.is_open
    assert (ended.id, ended.ended) == (began.id, pytest.approx(story.now, abs=1800))
    assert ended.cost_nanos
    assert began.title.startswith("chat-ttft: 90 of 160 calls had no first token within 500 ms")


def test_a_burn_names_the_stage_that_most_late_calls_broke():
    story = ObjectiveHistory()
    story.stages = {"chat-ttft": "queue, in 41 of 50 late calls"}
    story.goes_on(60, good=10)
    (began,) = story.goes_on(600, good=1, bad=9)

    assert ("stage", "queue, in 41 of 50 late calls") in began.facts


def test_a_second_burn_is_another_alert():
    story = ObjectiveHistory()
    first = story.goes_on(600, bad=9)
    story.goes_on(3600, good=100)
    again = story.goes_on(600, bad=999)

    assert len({alert.id for alert in (*first, *again)}) == 2


def test_an_observed_objective_notifies_nobody():
    story = ObjectiveHistory(track_objective(objective(enforce=Enforce.OBSERVE)))

    assert story.goes_on(600, bad=9) == []
    assert story.news.alerts_of_move(story.track, move(ControllerState.DEGRADED, 1), 0) == []


def test_a_floor_that_is_missed_is_told_until_it_is_well_above():
    story = ObjectiveHistory(FLOOR)
    (began,) = story.goes_on(600, good=10_000, bad=90_000)
    (ended,) = story.goes_on(1200, good=95_000, bad=5_000)

    assert (began.kind, ended.id) == ("floor", began.id)
    assert "floor" in began.title
    assert dict(began.facts)["floor"] == "70 %"


def test_a_move_is_told_with_what_is_done_and_how_to_undo_it():
    (alert,) = ObjectiveAlerts().alerts_of_move(TRACK, move(ControllerState.DEGRADED, 2), 0)

    assert alert.title == "chat-ttft is degraded: new conversations go to small, fallback level 2"
    assert alert.action == "New conversations go to small, except for canary calls."
    assert "A pin to level 0" in alert.fix
    assert dict(alert.facts)["level"] == "small"
    assert alert.severity is Severity.TICKET


def test_a_move_that_is_not_enforced_is_a_note():
    (alert,) = ObjectiveAlerts().alerts_of_move(
        track_objective(objective(enforce=Enforce.ALERT)), move(ControllerState.DEGRADED, 1), 0
    )

    assert alert.severity is Severity.NOTE
    assert alert.action.startswith("Nothing")


def test_moves_on_one_level_are_one_alert_that_ends_with_how_many_were_moved():
    news = ObjectiveAlerts()
    alerts = [
        *news.alerts_of_move(TRACK, move(ControllerState.DEGRADED, 1), 10),
        *news.alerts_of_move(TRACK, move(ControllerState.RECOVERING, 1, START + 200, before=1), 20),
        *news.alerts_of_move(TRACK, move(ControllerState.DEGRADED, 1, START + 300, before=1), 25),
        *news.alerts_of_move(TRACK, move(ControllerState.HEALTHY, 0, START + 900, before=1), 35),
    ]

    assert len({alert.id for alert in alerts}) == 1
    assert [alert.is_open for alert in alerts] == [True, False]
    assert alerts[-1].action == "25 calls fell back here; new ones use the model they ask for."
    assert news.alerts_of_move(TRACK, move(ControllerState.HEALTHY), 35) == []


def test_a_move_to_another_level_ends_what_was_told_and_is_told_anew():
    news = ObjectiveAlerts()
    news.alerts_of_move(TRACK, move(ControllerState.DEGRADED, 1), 0)

    ended, begun = news.alerts_of_move(
        TRACK, move(ControllerState.DEGRADED, 2, START + 200, before=1), 5
    )

    assert ended.action == "It continued: degraded, fallback level 2."
    assert begun.title == "chat-ttft is degraded: new conversations go to small, fallback level 2"
    assert (ended.is_open, begun.is_open) == (False, True)
    assert ended.id != begun.id


def test_a_pin_to_what_is_asked_for_is_told():
    (alert,) = ObjectiveAlerts().alerts_of_move(TRACK, move(ControllerState.PINNED, 0), 0)

    assert alert.title == "chat-ttft is pinned: calls get the model they ask for"
    assert alert.action == "New conversations use the model they ask for."
    assert alert.severity is Severity.NOTE
    assert "level" not in dict(alert.facts)


def test_a_pin_to_a_level_names_the_level():
    (alert,) = ObjectiveAlerts().alerts_of_move(TRACK, move(ControllerState.PINNED, 2), 0)

    assert alert.title == "chat-ttft is pinned to small, fallback level 2"
    assert alert.severity is Severity.NOTE


def test_a_pin_and_its_release_leave_the_alert_that_was_open_before() -> None:
    news = ObjectiveAlerts()
    (open_before,) = news.alerts_of_move(TRACK, move(ControllerState.DEGRADED, 1), 0)
    (pinned,) = news.alerts_of_move(
        TRACK, move(ControllerState.PINNED, 2, START + 60, 1, ControllerState.DEGRADED), 5
    )
    assert (pinned.severity, pinned.is_open) == (Severity.NOTE, True)
    assert news.open_ids == [open_before.id, pinned.id]

    back = move(ControllerState.DEGRADED, 1, START + 120, 2, ControllerState.PINNED)
    (released,) = news.alerts_of_move(TRACK, back, 9)
    assert (released.id, released.is_open) == (pinned.id, False)
    assert released.action == "4 calls fell back here; the objective decides again."
    assert news.open_ids == [open_before.id]


def test_a_pin_of_another_process_is_known_after_a_restart_beside_the_open_alert() -> None:
    news, heir = ObjectiveAlerts(), ObjectiveAlerts()
    moved = news.alerts_of_move(TRACK, move(ControllerState.DEGRADED, 1), 0)
    pin = move(ControllerState.PINNED, 2, START + 60, 1, ControllerState.DEGRADED)
    pinned = news.alerts_of_move(TRACK, pin, 0)

    assert heir.resume([TRACK], [*moved, *pinned], (), START + 90) == []
    assert heir.open_ids == [moved[0].id, pinned[0].id]
    assert heir.alerts_of_move(TRACK, pin, 0) == []


def test_a_burn_alert_goes_on_through_a_pin_and_its_release() -> None:
    story = ObjectiveHistory()
    (burnt,) = story.goes_on(600, bad=9)
    pin = move(ControllerState.PINNED, 1, story.now)
    release = move(ControllerState.HEALTHY, 0, story.now + 60, 1, ControllerState.PINNED)
    told = story.news.alerts_of_move(TRACK, pin, 0) + story.news.alerts_of_move(TRACK, release, 0)

    assert burnt.id not in {alert.id for alert in told}
    assert story.goes_on(60, bad=9) == []
    assert story.news.open_ids == [burnt.id]


def test_alerts_sent_by_one_process_are_not_sent_again_by_another():
    story, heir = ObjectiveHistory(), ObjectiveHistory()
    (burnt,) = story.goes_on(600, bad=9)
    (moved,) = story.news.alerts_of_move(TRACK, move(ControllerState.DEGRADED, 1), 0)
    heir.now = story.now
    heir.news.resume([TRACK], [burnt, moved], (), heir.now)
    heir.judge.snapshots = {
        TRACK.name: ControllerSnapshot(state=ControllerState.DEGRADED, level=1, since=START)
    }

    assert heir.goes_on(140, good=10) == []  # nothing is known yet of the time before
    (over,) = heir.goes_on(60, good=10)
    assert (over.id, over.is_open) == (burnt.id, False)
    (healthy,) = heir.news.alerts_of_move(TRACK, move(ControllerState.HEALTHY, 0, heir.now), 3)
    assert (healthy.id, healthy.is_open) == (moved.id, False)


def test_a_reported_alert_stays_open_until_its_end_is_known():
    story = ObjectiveHistory()
    (burnt,) = story.goes_on(600, bad=9)

    assert story.news.resume([TRACK], [], (), story.now) == []
    assert story.news.open_ids == [burnt.id]
    assert story.goes_on(60, bad=9) == []  # it is not told again
    assert story.news.resume([TRACK], [], {burnt.id}, story.now) == []
    assert story.news.open_ids == []


def test_of_what_several_processes_told_the_oldest_goes_on_and_the_others_end():
    older, newer = (
        ObjectiveAlerts().alerts_of_move(TRACK, move(ControllerState.DEGRADED, 1, START + n), 0)[0]
        for n in (0, 9)
    )

    (over,) = ObjectiveAlerts().resume([TRACK], [newer, older], (), START + 60)
    assert (over.id, over.ended, over.action) == (
        newer.id,
        START + 60,
        "It continues as another alert.",
    )


def test_a_move_that_nobody_ended_ends_when_all_is_well():
    story = ObjectiveHistory()
    (moved,) = story.news.alerts_of_move(TRACK, move(ControllerState.DEGRADED, 1), 0)
    anew = ObjectiveHistory()
    anew.news.resume([TRACK], [moved], (), anew.now)
    anew.judge.snapshots = {TRACK.name: ControllerSnapshot(since=START)}
    (ended,) = anew.goes_on(30, good=1)

    assert (ended.id, ended.is_open) == (moved.id, False)


def test_alerts_of_other_objectives_are_not_resumed():
    story = ObjectiveHistory()
    (burnt,) = story.goes_on(600, bad=9)
    heir = ObjectiveAlerts()
    heir.resume([FLOOR], [burnt], (), story.now)

    assert heir._open == {}


@examples(21, deadline=None)
@given(
    st.lists(
        st.tuples(st.sampled_from([10, 60, 600, 1800]), st.integers(0, 50), st.integers(0, 50)),
        max_size=6,
    ),
    st.sampled_from([TRACK, FLOOR]),
)
def test_each_objective_alert_begins_once_and_ends_once(phases, about):
    story, alerts = ObjectiveHistory(about), []
    for seconds, good, bad in phases:
        alerts += story.goes_on(seconds, good * 1000, bad * 1000)

    begun = [alert.id for alert in alerts if alert.is_open]
    ended = [alert.id for alert in alerts if not alert.is_open]
    assert len(set(begun)) == len(begun)
    assert len(set(ended)) == len(ended)
    assert set(ended) <= set(begun)
    assert len(begun) - len(ended) == len(story.news._open)


def test_a_gateway_that_is_a_minute_old_says_nothing_of_three_days():
    story = ObjectiveHistory()
    alerts = story.goes_on(900, bad=9)

    assert alerts
    assert not any(alert.title.endswith((" over 6 h", " over 3 d")) for alert in alerts)
