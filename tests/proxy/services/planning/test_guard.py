"""Features that planning makes dearer, sent unmodified here at once and everywhere soon."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from proxy.prefix.guard import Harm
from proxy.records.feature_mode import LayoutScope
from proxy.services.planning.guard import PlanningGuard, suspension_alert
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
    found = open_store(tmp_path, Store)
    yield found
    found.close(5)


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

    assert store.layouts.standings().of(PLACE).suspended == HARM.why
    assert not store.layouts.standings().of(LayoutScope("team_1", "chat", "claude")).suspended
    assert [each.subject for each in alerts] == ["feature chat of team team_1 on gpt"]
    assert len(tasks._tasks) == 1


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

    assert guard.is_suspended(PLACE)
    clock.now += 601
    assert not guard.is_suspended(PLACE)
    assert "in this process alone" in caplog.text
    store.close(5)


def test_the_alert_says_why_and_how_to_plan_it_again():
    alert = suspension_alert(PLACE, HARM.why, 0.0)

    assert alert.title == "Planning made feature chat of team team_1 on gpt dearer and is suspended"
    assert "42.0% more" in alert.facts[0][1]
    assert "thriftgate layout resume team_1 chat --family gpt" in alert.fix
