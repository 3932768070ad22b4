"""Stories of two replicas of one objective."""

from typing import Any

from proxy.store.sql.settings.pins import PinRow
from slo.controller.state import ControllerState
from tests.fakes.clock import run_in_instant_time
from tests.fakes.objective_replicas import START, ReplicaGroup

DOWN = (ControllerState.DEGRADED, 1)
FROZEN = (ControllerState.FROZEN, 1)
WELL = (ControllerState.HEALTHY, 0)


def two(story: Any) -> None:
    async def play() -> None:
        world = ReplicaGroup()
        first, second = world.replica("first"), world.replica("second")
        await world.goes_on(1, first, second)
        await story(world, first, second)

    run_in_instant_time(play())


def pin(level: int, until: float, name: str = "chat-ttft") -> PinRow:
    return PinRow(objective=name, level=level, until=until, why="a launch", made=START)
