"""Counters that are away, stall, or come back empty, and what replicas do meanwhile."""

import pytest

from slo.controller.state import ControllerState
from tests.fakes.objective_replicas import ReplicaGroup, objective
from tests.proxy.services.objectives.replica_stories import DOWN, FROZEN, WELL, pin, two_replicas

pytestmark = pytest.mark.instant_time


async def test_counters_that_forgot_all_know_less_than_a_replica_does():
    world, first, second = await two_replicas()
    await world.goes_on(60, first, second, good=1, bad=1)
    world.forget()
    await second.steering.sync_once()

    assert second.steering._leads
    assert second.state == DOWN


async def test_without_counters_what_was_heard_holds_for_five_minutes_then_ones_own_counts_do():
    world, first, second = await two_replicas()
    await world.goes_on(60, first, second, good=1, bad=1)
    first.counters.is_lost = second.counters.is_lost = True
    await world.goes_on(290, second, good=10)
    assert second.state == FROZEN
    assert second.router.snapshots["chat-ttft"].reason == "Frozen: its counters are away"
    await world.goes_on(20, second, good=10)
    assert second.state[0] is not ControllerState.FROZEN
    await world.goes_on(580, second, good=10)
    assert second.state == WELL
    await world.goes_on(60, second, good=1, bad=9)
    assert second.state == DOWN

    first.counters.is_lost = second.counters.is_lost = False
    await world.goes_on(2, second, first)
    assert first.state == second.state


async def test_a_replica_that_never_reached_its_counters_judges_by_itself():
    world = ReplicaGroup()
    alone = world.replica("alone")
    alone.counters.is_lost = True
    await world.goes_on(299, alone, good=1, bad=1)
    assert alone.state == (ControllerState.FROZEN, 0)
    await world.goes_on(10, alone, good=1, bad=1)
    assert alone.state == DOWN


async def test_pins_are_followed_without_counters():
    world, first, second = await two_replicas()
    await world.goes_on(60, first, second, good=1, bad=1)
    first.counters.is_lost = second.counters.is_lost = True
    await world.goes_on(5, first, second)
    world.kept.pinned = {"chat-ttft": pin(2, world.now + 500)}
    await world.goes_on(5, first, second)
    assert first.state == second.state == (ControllerState.PINNED, 2)
    world.kept.pinned = {"chat-ttft": pin(0, world.now + 500)}
    await world.goes_on(5, first, second)
    assert second.state == (ControllerState.PINNED, 0)
    world.kept.pinned = {}
    await world.goes_on(5, first, second)
    assert first.state == second.state == FROZEN  # on the level it had before the pins


async def test_objectives_report_missing_counters_until_they_are_back(caplog):
    world, first, second = await two_replicas()
    await world.goes_on(30, first, second, good=9)
    for times in (1, 2):
        first.counters.is_lost = second.counters.is_lost = True
        await world.goes_on(15, first, second)
        assert first.state == second.state == (ControllerState.FROZEN, 0)
        first.counters.is_lost = second.counters.is_lost = False
        await world.goes_on(70, first, second, good=9)
        assert first.state == second.state == WELL
        assert [alert.is_open for alert in first.said] == [True, False] * times
        assert first.said == second.said
        assert len(world.kept.alerts) == times
    assert caplog.text.count("judged again by what all processes count") == 4


@pytest.mark.parametrize("is_database_away", [False, True])
@pytest.mark.parametrize("bad", [0, 3])
async def test_counters_that_stall_again_and_again_are_one_alert_of_all_objectives(
    bad, is_database_away
):
    world = ReplicaGroup(*(objective(name=name) for name in ("chat-ttft", "other", "third")))
    replicas = [world.replica(str(n)) for n in range(4)]
    await world.goes_on(60, *replicas, good=9, bad=bad)
    before = set(world.kept.alerts)
    for lost in [True, False] * 10:
        world.kept.is_away = is_database_away and lost
        for replica in replicas:
            replica.counters.is_lost = lost
        await world.goes_on(6, *replicas, good=9, bad=bad)
    await world.goes_on(90, *replicas, good=9, bad=bad)

    new = [alert for id_, alert in world.kept.alerts.items() if id_ not in before]
    assert [(alert.kind, alert.is_open) for alert in new] == [("store", False)]


async def test_counters_that_come_back_empty_thaw_what_froze_without_them():
    world, first, second = await two_replicas()
    await world.goes_on(60, first, second, good=1, bad=1)
    began = first.router.snapshots["chat-ttft"].level
    first.counters.is_lost = second.counters.is_lost = True
    await world.goes_on(5, first, second)
    world.forget()
    first.counters.is_lost = second.counters.is_lost = False
    await world.goes_on(1, first, second)
    assert first.state == second.state == (ControllerState.DEGRADED, began)


async def test_five_minutes_without_counters_end_the_freeze_and_not_the_alert():
    world, first, second = await two_replicas()
    await world.goes_on(30, first, second, good=9)
    second.counters.is_lost = True
    await world.goes_on(299, second, good=9)
    assert second.state == (ControllerState.FROZEN, 0)
    await world.goes_on(3, second, good=9)
    assert second.state == WELL
    assert [(alert.kind, alert.is_open) for alert in second.said] == [("store", True)]
