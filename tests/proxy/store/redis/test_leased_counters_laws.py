"""Leases pass no limit and lose nothing, whatever is lost on the wire."""

import asyncio
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from proxy.store.errors import StoreError
from slo.budgets.counter import CounterLevel
from tests.examples import examples
from tests.proxy.store.redis.leasing_processes import LIMIT, LeasingProcesses, MessageFate


class LifeOfLeases(RuleBasedStateMachine):
    """Two processes call and report over a bad wire, stall and go on; no limit is ever passed.

    What was released before its reservation arrives holds nothing.
    """

    def __init__(self, prefix: str) -> None:
        super().__init__()
        self._prefix = prefix
        self._runner = asyncio.Runner()

    def ask(self, work: Any) -> Any:
        return self._runner.run(work)

    @initialize()
    def open(self) -> None:
        self.fleet = LeasingProcesses(f"{self._prefix}_{id(self)}")
        self.ask(self.fleet.begin())
        for which in (0, 1):
            self.ask(self.fleet.take_lease(which))

    @rule(
        which=st.integers(0, 1),
        amount=st.integers(1, 12),
        times=st.integers(1, 12),
        wire=st.sampled_from([MessageFate.FINE, *MessageFate]),
    )
    def call(self, which: int, amount: int, times: int, wire: MessageFate) -> None:
        self.fleet.wires[which].wire = wire
        for _ in range(times):
            self.ask(self.fleet.call(which, amount))
        self.fleet.wires[which].wire = MessageFate.FINE

    @rule()
    def release(self) -> None:
        self.ask(self.fleet.release())

    @precondition(lambda self: self.fleet.running)
    @rule(data=st.data(), part=st.floats(0, 1), times=st.integers(1, 20))
    def end(self, data: Any, part: float, times: int) -> None:
        for which, name in list(self.fleet.running)[:times]:
            used = int(self.fleet.running[which, name] * part)
            self.ask(self.fleet.end(which, name, used))

    @rule(which=st.integers(0, 1), wire=st.sampled_from(MessageFate))
    def renew(self, which: int, wire: MessageFate) -> None:
        self.fleet.wires[which].wire = wire
        try:
            self.ask(self.fleet.processes[which].renew())
        except StoreError:
            assert wire is not MessageFate.FINE
        self.fleet.wires[which].wire = MessageFate.FINE

    @precondition(lambda self: any(wire.late for wire in self.fleet.wires))
    @rule(first=st.booleans())
    def arrive(self, first: bool) -> None:  # noqa: FBT001 - Hypothesis gives it
        for wire in self.fleet.wires:
            if wire.late:
                self.ask(wire.arrive(0 if first else -1, self.fleet.now))

    @rule(seconds=st.floats(0.1, 1.5))
    def wait(self, seconds: float) -> None:
        self.fleet.now += seconds

    @rule()
    def give_back(self) -> None:
        for process in self.fleet.processes:
            self.ask(process.renew(is_last=True))

    @invariant()
    def nobody_passes_the_limit_and_redis_knows_of_all_that_is_held(self) -> None:
        used = self.fleet.spent + sum(self.fleet.running.values())
        level = self.ask(self.fleet.level())
        assert used <= LIMIT
        assert level.spent <= self.fleet.spent
        assert used <= level.spent + level.held <= LIMIT

    def teardown(self) -> None:
        fleet = self.fleet
        for which, name in list(fleet.running):
            self.ask(fleet.end(which, name, 0))
        self.ask(fleet.release())
        for process in fleet.processes * 2:  # what had no answer, then what came after it
            self.ask(process.renew(is_last=True))
        for wire in fleet.wires:
            while wire.late:
                self.ask(wire.arrive(0, fleet.now))
        level = self.ask(fleet.level())
        self.ask(fleet.close())
        self._runner.close()
        assert level == CounterLevel(fleet.spent, 0)


def test_whatever_is_lost_on_the_wire_leases_pass_no_limit_and_lose_nothing(redis_prefix) -> None:
    class LeaseMachine(LifeOfLeases):
        def __init__(self) -> None:
            super().__init__(redis_prefix)

    run_state_machine_as_test(
        LeaseMachine, settings=examples(21, stateful_step_count=20, database=None)
    )
