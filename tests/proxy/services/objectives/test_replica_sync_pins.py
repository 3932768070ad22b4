"""Pins hold in every replica, through restarts and without their table."""

import pytest

from slo.controller.state import ControllerState
from slo.objectives.objective import Enforce
from tests.fakes.objective_replicas import START, ReplicaGroup, objective
from tests.proxy.services.objectives.replica_stories import WELL, pin, two_replicas

pytestmark = pytest.mark.instant_time


async def test_a_pin_holds_in_every_replica_until_it_ends_or_is_released():
    world, first, second = await two_replicas()
    world.kept.pinned = {"chat-ttft": pin(9, world.now + 100)}
    await world.goes_on(5, first, second)
    assert first.state == second.state == (ControllerState.PINNED, 2)  # there is no ninth
    world.kept.pinned = {"chat-ttft": pin(0, world.now + 50)}
    await world.goes_on(5, first, second)
    assert second.state == (ControllerState.PINNED, 0)
    await world.goes_on(60, first, second)
    assert first.state == second.state == WELL


async def test_a_pin_that_outlives_a_restart_is_told_once_and_began_when_it_was_set():
    world = ReplicaGroup()
    before = world.replica("before")
    world.kept.pinned = {"chat-ttft": pin(1, world.now + 500)}
    await world.goes_on(30, before)
    world.forget()
    after = world.replica("after")
    await world.goes_on(60, after)

    assert [alert.kind for alert in before.said] == ["move"]
    assert (after.said, after.state) == ([], (ControllerState.PINNED, 1))
    assert after.router.snapshots["chat-ttft"].since == START
    world.kept.pinned = {}
    await world.goes_on(5, after)
    assert [(alert.id, alert.is_open) for alert in after.said] == [(before.said[0].id, False)]


async def test_pins_that_cannot_be_read_hold_as_they_were():
    world, first, _ = await two_replicas()
    world.kept.pinned = {"chat-ttft": pin(1, world.now + 100)}
    await world.goes_on(5, first)
    world.kept.is_away = True
    await world.goes_on(5, first)
    world.kept.is_away, world.kept.is_slow = False, True
    await world.goes_on(5, first)
    assert first.state == (ControllerState.PINNED, 1)


async def test_a_pin_of_an_objective_without_a_ladder_does_nothing():
    world = ReplicaGroup(objective(ladder=(), enforce=Enforce.ALERT))
    one = world.replica("one")
    world.kept.pinned = {"chat-ttft": pin(3, world.now + 100), "unknown": pin(1, world.now + 9)}
    await world.goes_on(5, one)
    assert one.state == (ControllerState.PINNED, 0)
