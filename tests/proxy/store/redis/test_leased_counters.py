"""Processes that lease parts of the same counters in Redis, over a wire that loses messages."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from enum import Enum
from typing import Any, TypeVar

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from proxy.store.redis.budget_store import RedisBudgetStore
from proxy.store.redis.leased_counters import TTL_S, LeasedCounters
from proxy.store.redis.local_budget_store import CountersCondition, StoreUnavailable
from slo.leases import (
    IDLE_S,
    MAX_LEASE_DIVISOR,
    MIN_LEASED_CALLS,
    VALID_S,
    LeaseRenewal,
    LeaseReport,
)
from slo.reservations import CounterClaim, CounterLevel, ReservationGranted, ReservationRefused
from tests.examples import examples
from tests.fakes.redis_keys import SERVER

T = TypeVar("T")

NOW = 1_000_000.0
LIMIT = 5_000
COST = 10
ENDS = NOW + 86_400.0


def claim(amount: int = COST, limit: int = LIMIT, counter: str = "team") -> CounterClaim:
    return CounterClaim(counter, amount, limit, hard=True, ends=ENDS)


class Wire(Enum):
    """What becomes of a message: it arrives, or it, or its answer, is lost, or it comes late."""

    FINE = "fine"
    UNSENT = "unsent"
    UNANSWERED = "unanswered"
    LATE = "late"


class Wired(RedisBudgetStore):
    """Counters in Redis over a wire that can fail.

    Attributes:
        wire: What becomes of reports and reservations.
        late: Those that will arrive.
        asked: How often calls were reserved one by one.
    """

    def __init__(self, prefix: str) -> None:
        super().__init__(SERVER, "acme", prefix=prefix, deadline=30.0, trusts_callers=True)
        self.wire = Wire.FINE
        self.late: list[Callable[[float], Awaitable[Any]]] = []
        self.asked = 0

    async def reserve(
        self,
        name: str,
        claims: Sequence[CounterClaim],
        now: float,
        until: float,
        *,
        only_whole: bool = False,
    ) -> ReservationGranted | ReservationRefused | None:
        self.asked += 1

        def arrive(at: float) -> Awaitable[ReservationGranted | ReservationRefused | None]:
            lasts = until - now
            return super(Wired, self).reserve(name, claims, at, at + lasts, only_whole=only_whole)

        return await self._sent(arrive, now)

    async def report(
        self, name: str, reports: Sequence[LeaseReport], now: float, ttl_s: float
    ) -> list[LeaseRenewal]:
        return await self._sent(lambda at: super(Wired, self).report(name, reports, at, ttl_s), now)

    async def _sent(self, arrive: Callable[[float], Awaitable[T]], now: float) -> T:
        """Return what comes of a message."""
        if self.wire is Wire.LATE:
            self.late.append(arrive)
        if self.wire in {Wire.LATE, Wire.UNSENT}:
            raise StoreUnavailable("the wire is cut")
        found = await arrive(now)
        if self.wire is Wire.UNANSWERED:
            raise StoreUnavailable("the wire is cut")
        return found

    async def arrive(self, which: int, now: float) -> None:
        """Let a late message arrive at last."""
        await self.late.pop(which)(now)


class LeasingProcesses:
    """Some processes that lease from the same counters, whose time is set.

    Attributes:
        spent: What calls have used.
        running: What each call that runs holds, by process and name.
        unreleased: Calls that nobody waits for and that may be held all the same, the same way.
    """

    def __init__(self, prefix: str, processes: int = 2) -> None:
        self.now = NOW
        self.wires = [Wired(prefix) for _ in range(processes)]
        self.processes = [
            LeasedCounters(wire, lambda: self.now, lambda: self.now) for wire in self.wires
        ]
        self.spent = self.calls = 0
        self.running: dict[tuple[int, str], int] = {}
        self.unreleased: list[tuple[int, str]] = []

    async def begin(self, *, is_whole: bool = True) -> None:
        if is_whole:
            await self.processes[0].change_condition(
                CountersCondition.EMPTY, CountersCondition.WHOLE, self.now
            )

    async def call(
        self, which: int = 0, amount: int = COST, limit: int = LIMIT, counter: str = "team"
    ) -> str | None:
        """The name of a call that was let pass, as admission does it; None where it was not."""
        self.calls += 1
        name, process = f"call-{self.calls}", self.processes[which]
        claims = [claim(amount, limit, counter)]
        said: Any = process.reserve_leased(name, claims, self.now)
        if said is None:
            try:
                said = await process.reserve(name, claims, self.now, self.now + 60, only_whole=True)
            except StoreUnavailable:
                self.unreleased.append((which, name))
                return None
        if not isinstance(said, ReservationGranted):
            return None
        self.running[which, name] = amount
        return name

    async def end(self, which: int, name: str, used: int, counter: str = "team") -> None:
        self.running.pop((which, name))
        self.spent += used
        process = self.processes[which]
        if not process.settle_leased(name, {counter: used}, self.now):
            await process.settle(name, {counter: used}, self.now)

    async def release(self) -> None:
        """Release all that may be held for nobody."""
        while self.unreleased:
            which, name = self.unreleased.pop()
            await self.processes[which].settle(name, {"team": 0}, self.now)

    async def leased(self, which: int = 0) -> None:
        """Let calls be made until a process has a lease."""
        for _ in range(3):
            name = await self.call(which)
            assert name is not None
            await self.end(which, name, 0)
        await self.processes[which].renew()

    async def level(self, counter: str = "team") -> CounterLevel:
        (found,) = await super(Wired, self.wires[0]).levels([counter], self.now)
        return found

    async def close(self) -> None:
        for wire, process in zip(self.wires, self.processes, strict=True):
            wire.wire = Wire.FINE
            await process.aclose()


@pytest.fixture
def played(redis_prefix: str) -> Callable[[Callable[[LeasingProcesses], Awaitable[None]]], None]:
    """Plays a story of two processes."""

    async def play(story: Callable[[LeasingProcesses], Awaitable[None]]) -> None:
        fleet = LeasingProcesses(redis_prefix)
        await fleet.begin()
        try:
            await story(fleet)
        finally:
            await fleet.close()

    return lambda story: asyncio.run(play(story))


def test_once_a_counter_is_leased_calls_ask_redis_nothing(played):
    async def story(fleet: LeasingProcesses) -> None:
        await fleet.leased()
        asked = fleet.wires[0].asked
        names = [await fleet.call() for _ in range(MIN_LEASED_CALLS)]
        for name in names:
            assert name is not None
            assert await fleet.processes[0].extend(name, ["team"], fleet.now, fleet.now + 60)
            await fleet.end(0, name, 7)
        assert fleet.wires[0].asked == asked
        await fleet.processes[0].renew()
        assert (await fleet.level()).spent == 7 * MIN_LEASED_CALLS

    played(story)


def test_calls_go_on_while_redis_stalls_and_no_longer_than_a_lease_is_valid(played):
    async def story(fleet: LeasingProcesses) -> None:
        await fleet.leased()
        fleet.wires[0].wire = Wire.UNSENT
        for _ in range(int(VALID_S * 2) - 1):
            fleet.now += 0.5
            name = await fleet.call()
            assert name is not None
            await fleet.end(0, name, 3)
            with pytest.raises(StoreUnavailable):
                await fleet.processes[0].renew()
        fleet.now += 0.5
        assert await fleet.call() is None

        fleet.wires[0].wire = Wire.FINE
        await fleet.processes[0].renew()
        await fleet.processes[0].renew()
        assert (await fleet.level()).spent == fleet.spent

    played(story)


def test_a_lease_is_a_small_part_of_what_is_free_and_none_where_that_is_few_calls(played):
    async def story(fleet: LeasingProcesses) -> None:
        await fleet.leased()
        assert MIN_LEASED_CALLS * COST <= (await fleet.level()).held <= LIMIT // MAX_LEASE_DIVISOR
        await fleet.processes[1].settle("much", {"team": LIMIT - 1000}, fleet.now)
        for _ in range(3):
            assert await fleet.call() is not None
            await fleet.processes[0].renew()
        assert (await fleet.level()).held == len(fleet.running) * COST

    played(story)


def test_all_of_a_budget_can_be_spent_to_the_last_call(played):
    async def story(fleet: LeasingProcesses) -> None:
        for _ in range(3):
            for which in (0, 1):
                await fleet.leased(which)
        for number in range(2 * LIMIT // COST):
            which = number % 2
            if (name := await fleet.call(which)) is not None:
                await fleet.end(which, name, COST)
            if number % 20 == 0:
                await fleet.processes[0].renew()
                await fleet.processes[1].renew()
        assert fleet.spent == LIMIT

    played(story)


def test_a_lease_nobody_needs_is_given_back_and_so_is_every_lease_at_the_end(played):
    async def story(fleet: LeasingProcesses) -> None:
        await fleet.leased(0)
        await fleet.leased(1)
        fleet.now += IDLE_S
        await fleet.processes[0].renew()
        assert (await fleet.level()).held > 0
        await fleet.processes[1].renew(is_last=True)
        assert await fleet.level() == CounterLevel(0, 0)
        await fleet.processes[0].renew()
        assert not fleet.processes[0]._leases

    played(story)


def test_unanswered_and_later_settlements_are_reported_at_the_end(redis_prefix):
    async def story() -> CounterLevel:
        fleet = LeasingProcesses(redis_prefix, processes=2)
        await fleet.begin()
        await fleet.leased(1)
        for wire in (Wire.UNANSWERED, Wire.FINE):
            name = await fleet.call(1)
            assert name is not None
            await fleet.end(1, name, 7)
            fleet.wires[1].wire = wire
            if wire is Wire.UNANSWERED:
                with pytest.raises(StoreUnavailable):
                    await fleet.processes[1].renew()
        await fleet.processes[1].aclose()
        found = await fleet.level()
        await fleet.wires[0].aclose()
        return found

    assert asyncio.run(story()) == CounterLevel(14, 0)


def test_the_lease_of_a_dead_process_counts_until_it_expires(played):
    async def story(fleet: LeasingProcesses) -> None:
        await fleet.leased(0)
        held = (await fleet.level()).held
        assert held > 0
        fleet.now += TTL_S - 0.01
        assert (await fleet.level()).held == held
        fleet.now += 0.01
        assert await fleet.level() == CounterLevel(0, 0)

    played(story)


def test_counters_that_lose_everything_know_within_a_report_what_calls_hold_and_lease_no_more(
    played,
):
    async def story(fleet: LeasingProcesses) -> None:
        await fleet.leased()
        ended, goes_on = await fleet.call(), await fleet.call()
        assert ended is not None
        assert goes_on is not None
        keys = await fleet.wires[0]._redis.keys(f"{fleet.wires[0]._keys}*")
        await fleet.wires[0]._redis.delete(*keys)
        await fleet.end(0, ended, 4)
        await fleet.processes[0].renew()
        assert await fleet.level() == CounterLevel(4, COST)
        assert fleet.processes[0].reserve_leased("x", [claim()], fleet.now) is None

        await fleet.processes[0].change_condition(
            CountersCondition.EMPTY, CountersCondition.WHOLE, fleet.now
        )
        await fleet.processes[0].renew()
        asked = fleet.wires[0].asked
        assert await fleet.call() is not None
        assert fleet.wires[0].asked == asked

    played(story)


def test_reports_from_before_a_checkpoint_add_nothing_to_restored_counters(played):
    async def story(fleet: LeasingProcesses) -> None:
        await fleet.leased()
        early, late = await fleet.call(), await fleet.call()
        assert early is not None
        assert late is not None
        await fleet.end(0, early, 4)
        process = fleet.processes[0]
        checkpoint = await process.begin_checkpoint(fleet.now, 5)
        fleet.now += 2
        await fleet.end(0, late, 6)
        assert await process.restore({"team": 104}, checkpoint, fleet.now) == [0]
        await process.renew()
        assert (await fleet.level()).spent == 110

    played(story)


def test_counters_asked_for_once_in_a_while_are_not_leased(played):
    async def story(fleet: LeasingProcesses) -> None:
        for _ in range(4):
            assert await fleet.call() is not None
            fleet.now += IDLE_S
        assert not fleet.processes[0]._leases

    played(story)


def test_a_call_that_may_be_held_in_redis_is_not_held_in_a_lease_too(played):
    async def story(fleet: LeasingProcesses) -> None:
        process = fleet.processes[0]
        claims = [claim()]
        fleet.wires[0].wire = Wire.UNANSWERED
        with pytest.raises(StoreUnavailable):
            await process.reserve("a", claims, fleet.now, fleet.now + 60)
        fleet.wires[0].wire = Wire.FINE
        await fleet.leased()
        assert process.reserve_leased("b", claims, fleet.now) is not None
        assert process.reserve_leased("a", claims, fleet.now) is None

    played(story)


def test_running_calls_are_told_leased_ones_included(played):
    async def story(fleet: LeasingProcesses) -> None:
        await fleet.leased(0)
        for _ in range(5):
            assert await fleet.call(0) is not None
        await fleet.processes[0].renew()
        claims = [claim()]
        said = await fleet.processes[1].reserve("x", claims, fleet.now, fleet.now + 60)
        assert isinstance(said, ReservationGranted)
        assert said.running == (6,)

    played(story)


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
            self.ask(self.fleet.leased(which))

    @rule(
        which=st.integers(0, 1),
        amount=st.integers(1, 12),
        times=st.integers(1, 12),
        wire=st.sampled_from([Wire.FINE, *Wire]),
    )
    def call(self, which: int, amount: int, times: int, wire: Wire) -> None:
        self.fleet.wires[which].wire = wire
        for _ in range(times):
            self.ask(self.fleet.call(which, amount))
        self.fleet.wires[which].wire = Wire.FINE

    @rule()
    def release(self) -> None:
        self.ask(self.fleet.release())

    @precondition(lambda self: self.fleet.running)
    @rule(data=st.data(), part=st.floats(0, 1), times=st.integers(1, 20))
    def end(self, data: Any, part: float, times: int) -> None:
        for which, name in list(self.fleet.running)[:times]:
            used = int(self.fleet.running[which, name] * part)
            self.ask(self.fleet.end(which, name, used))

    @rule(which=st.integers(0, 1), wire=st.sampled_from(Wire))
    def renew(self, which: int, wire: Wire) -> None:
        self.fleet.wires[which].wire = wire
        try:
            self.ask(self.fleet.processes[which].renew())
        except StoreUnavailable:
            assert wire is not Wire.FINE
        self.fleet.wires[which].wire = Wire.FINE

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
        taken = self.fleet.spent + sum(self.fleet.running.values())
        level = self.ask(self.fleet.level())
        assert taken <= LIMIT
        assert level.spent <= self.fleet.spent
        assert taken <= level.spent + level.held <= LIMIT

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
    class Life(LifeOfLeases):
        def __init__(self) -> None:
            super().__init__(redis_prefix)

    run_state_machine_as_test(Life, settings=examples(21, stateful_step_count=20, database=None))
