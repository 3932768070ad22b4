"""Features that planning makes dearer, sent unmodified here at once and everywhere soon."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from proxy.prefix.guard import Harm
from proxy.records.feature_mode import LayoutScope, PlanningMode
from proxy.services.planning.guard import PlanningGuard, suspension_alert
from proxy.store.sql.settings.layout_rows import ProposalState
from proxy.store.store import Store
from tests.fakes.alerts import AlertRecorder
from tests.fakes.call_dependencies import LoopTasks
from tests.fakes.clock import ManualClock
from tests.proxy.prefix.planning_requests import NOW
from tests.proxy.services.planning.planning_fixtures import UnreachableStore, open_store, run

PLACE = LayoutScope("team_1", "chat", "gpt")
HARM = Harm(calls=50, more=0.42)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    opened = open_store(tmp_path, Store)
    yield opened
    opened.close(5)


async def stepped_back(guard: PlanningGuard, tasks: LoopTasks) -> None:
    guard.suspend(PLACE, HARM)
    guard.suspend(PLACE, HARM)
    assert guard.is_suspended(PLACE)
    await asyncio.gather(*tasks._tasks)


def test_a_place_is_suspended_in_the_database_and_people_are_notified_once(store):
    alerts = AlertRecorder()
    tasks, clock = LoopTasks(), ManualClock(NOW)
    guard = PlanningGuard(store, tasks, now=clock, say=alerts)
    run(stepped_back(guard, tasks))

    assert store.layouts.states().of(PLACE).suspended == HARM.why
    assert not store.layouts.states().of(LayoutScope("team_1", "chat", "claude")).suspended
    assert [alert.subject for alert in alerts] == ["feature chat of team team_1 on gpt"]
    assert len(tasks._tasks) == 1


def approved_layouts(store: Store, count: int) -> None:
    store.layouts.switch(PLACE, PlanningMode.AUTO, "ann", NOW)
    for version in range(1, count + 1):
        store.layouts.propose(PLACE, f"d{version}", "{}", NOW)
        store.layouts.approve(PLACE, version, "ann", NOW + version)
    store.board.refresh()


async def layout_while_it_is_stopped(guard: PlanningGuard, tasks: LoopTasks) -> int:
    guard.stop(PLACE, Harm(calls=20, more=0.42, layout=1))
    layout_version = guard.layout_in_force(PLACE, 1)
    await asyncio.gather(*tasks._tasks)
    return layout_version


def test_a_layout_that_harms_is_used_no_more_before_the_database_says_so(store):
    approved_layouts(store, 1)
    tasks = LoopTasks()
    guard = PlanningGuard(store, tasks, now=ManualClock(NOW + 60))

    assert run(layout_while_it_is_stopped(guard, tasks)) == 0
    assert guard.layout_in_force(PLACE, 1) == 1, "a person may approve it again"


async def stop_layout(guard: PlanningGuard, tasks: LoopTasks, layout: int) -> None:
    guard.stop(PLACE, Harm(calls=20, more=0.42, layout=layout))
    await asyncio.gather(*tasks._tasks)


def test_a_layout_that_harms_gives_way_to_the_one_before_it(store):
    approved_layouts(store, 2)
    alerts, tasks, clock = AlertRecorder(), LoopTasks(), ManualClock(NOW + 60)
    guard = PlanningGuard(store, tasks, now=clock, say=alerts)
    run(stop_layout(guard, tasks, layout=2))
    state = store.board.current.of(PLACE)

    assert (state.version, state.suspended, state.changed_by) == (1, "", "guard")
    assert state.layout_version(NOW + 60) == 1, "at once, also in other processes"
    assert not guard.is_suspended(PLACE)
    (alert,) = alerts
    assert alert.title == (
        "Layout 2 of feature chat of team team_1 on gpt was rolled back: it cost more than layout 1"
    )
    assert "layout 1" in alert.action
    assert alert.fix == "Nothing has to be done. A person can approve the layout again."


def test_the_first_layout_that_harms_gives_way_to_none_and_planning_goes_on(store):
    approved_layouts(store, 1)
    tasks = LoopTasks()
    run(stop_layout(PlanningGuard(store, tasks, now=ManualClock(NOW + 60)), tasks, layout=1))
    state = store.board.current.of(PLACE)

    assert (state.version, state.is_off) == (0, False)
    proposal = store.layouts.propose(PLACE, "d9", "{}", NOW + 120)
    assert proposal is not None
    assert proposal.state is ProposalState.PROPOSED


def test_harm_of_a_layout_that_holds_no_more_changes_nothing(store):
    approved_layouts(store, 2)
    alerts, tasks = AlertRecorder(), LoopTasks()
    guard = PlanningGuard(store, tasks, now=ManualClock(NOW + 60), say=alerts)
    run(stop_layout(guard, tasks, layout=1))

    assert store.board.current.of(PLACE).version == 2
    assert list(alerts) == []


def test_without_the_database_a_layout_that_harms_is_used_no_more_here_for_a_while(
    tmp_path, caplog
):
    store, tasks, clock = open_store(tmp_path, UnreachableStore), LoopTasks(), ManualClock(NOW)
    guard = PlanningGuard(store, tasks, now=clock)
    run(stop_layout(guard, tasks, layout=1))
    clock.now += 599
    versions = [guard.layout_in_force(PLACE, version) for version in (1, 2)]
    clock.now += 1

    assert "Layout 1 could not be rolled back" in caplog.text
    assert (versions, guard.layout_in_force(PLACE, 1)) == ([0, 2], 1)
    store.close(5)


def test_once_the_database_holds_it_a_person_may_resume_it(store):
    tasks = LoopTasks()
    guard = PlanningGuard(store, tasks, now=ManualClock(NOW))
    run(stepped_back(guard, tasks))

    assert store.board.current.of(PLACE).is_off
    assert not guard.is_suspended(PLACE)
    assert store.layouts.resume(PLACE, "ann", NOW)


def test_without_the_database_it_passes_through_here_for_a_while(tmp_path, caplog):
    store, tasks, clock = open_store(tmp_path, UnreachableStore), LoopTasks(), ManualClock(NOW)
    guard = PlanningGuard(store, tasks, now=clock)
    run(stepped_back(guard, tasks))

    clock.now += 599
    assert guard.is_suspended(PLACE)
    clock.now += 1
    assert not guard.is_suspended(PLACE)
    assert "in this process alone" in caplog.text
    store.close(5)


def test_the_alert_says_why_and_how_to_plan_it_again():
    alert = suspension_alert(PLACE, "acme", HARM.why, 0.0)

    assert alert.title == (
        "Planning of feature chat of team acme on gpt is suspended:"
        " it cost more than sending unmodified"
    )
    assert alert.subject == "feature chat of team team_1 on gpt", "by the team's id"
    assert "42.0% more" in alert.facts[0][1]
    assert "once a person resumes it" in alert.fix


def test_an_alert_of_the_guard_ends_after_a_week():
    assert suspension_alert(PLACE, "acme", HARM.why, NOW).expires == NOW + 7 * 86_400


class NoTasks:
    """Tasks that never run: the database has not answered yet."""

    def start(self, work: object) -> None:
        """Drop the work."""


def test_places_and_layouts_stopped_here_are_forgotten_beyond_1024(store):
    guard = PlanningGuard(store, NoTasks(), now=ManualClock(NOW))  # type: ignore[arg-type]
    places = [LayoutScope("team_1", f"feature {number}", "gpt") for number in range(1_025)]
    for place in places[:-1]:
        guard.suspend(place, HARM)
        guard.stop(place, Harm(calls=20, more=0.42, layout=1))
    assert guard.is_suspended(places[0])
    assert guard.layout_in_force(places[0], 1) == 0

    guard.suspend(places[-1], HARM)
    guard.stop(places[-1], Harm(calls=20, more=0.42, layout=1))

    assert not guard.is_suspended(places[0])
    assert guard.layout_in_force(places[0], 1) == 1
    assert guard.is_suspended(places[-1])


def test_harm_noted_of_more_than_1024_places_is_forgotten_from_the_oldest_on(store):
    guard = PlanningGuard(store, NoTasks(), now=ManualClock(NOW))  # type: ignore[arg-type]
    places = [LayoutScope("team_1", f"feature {number}", "gpt") for number in range(1_025)]
    for place in places:
        guard.note_harm(place, HARM)
    guard.stop_noted_harm()

    assert [guard.is_suspended(place) for place in (places[0], places[1], places[-1])] == [
        False,
        True,
        True,
    ]
