"""Stories of two replicas of one objective."""

from proxy.store.sql.settings.pins import PinRow
from slo.controller.state import ControllerState
from tests.fakes.objective_replicas import START, Replica, ReplicaGroup

DOWN = (ControllerState.DEGRADED, 1)
FROZEN = (ControllerState.FROZEN, 1)
WELL = (ControllerState.HEALTHY, 0)


async def two_replicas() -> tuple[ReplicaGroup, Replica, Replica]:
    world = ReplicaGroup()
    first, second = world.replica("first"), world.replica("second")
    await world.goes_on(1, first, second)
    return world, first, second


def pin(level: int, until: float, name: str = "chat-ttft") -> PinRow:
    return PinRow(objective=name, level=level, until=until, why="a launch", made=START)
