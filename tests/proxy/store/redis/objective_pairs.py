"""Two replicas' ways to the same objectives."""

from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

from proxy.store.ports import ObjectiveCounters
from slo.budgets.tally import SLOT_S
from tests.fakes.clock import ManualClock

NOW = 1_790_000_000.0
HERE = int(NOW // SLOT_S)


class Pair(NamedTuple):
    """Two replicas' ways to the same state, and the time."""

    one: ObjectiveCounters
    other: ObjectiveCounters
    watch: ManualClock


Make = Callable[[], Pair]
Story = Callable[[Pair], Awaitable[Any]]


async def run_and_close(pair: Pair, story: Story) -> Any:
    try:
        return await story(pair)
    finally:
        await pair.one.aclose()
        await pair.other.aclose()
