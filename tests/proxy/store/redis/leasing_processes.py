"""Processes that lease parts of the same counters over a wire that loses messages."""

from collections.abc import Awaitable, Callable, Sequence
from enum import Enum
from typing import Any, TypeVar

from proxy.store.errors import StoreError
from proxy.store.ports import CountersCondition
from proxy.store.redis.budget_store import RedisBudgetStore
from proxy.store.redis.leased_counters import LeasedCounters
from slo.budgets.counter import CounterClaim, CounterLevel, ReservationRefused
from slo.budgets.leases import (
    LeaseRenewal,
    LeaseReport,
)
from slo.budgets.reservations import ReservationGranted
from tests.fakes.redis_keys import SERVER

T = TypeVar("T")
NOW = 1_000_000.0
LIMIT = 5_000
COST = 10
DAY = 86_400.0
ENDS = NOW + DAY


def claim(amount: int = COST, limit: int = LIMIT, counter: str = "team") -> CounterClaim:
    return CounterClaim(counter, amount, limit, hard=True, ends=ENDS)


class MessageFate(Enum):
    """The fate of a message: it arrives, or it, or its answer, is lost, or it comes late."""

    FINE = "fine"
    UNSENT = "unsent"
    UNANSWERED = "unanswered"
    LATE = "late"


class UnreliableBudgetStore(RedisBudgetStore):
    """Counters in Redis over a wire that can fail.

    Attributes:
        wire: What becomes of reports and reservations.
        late: Those that will arrive.
        asked: How often calls were reserved one by one.
    """

    def __init__(self, prefix: str) -> None:
        super().__init__(SERVER, "acme", prefix=prefix, deadline=30.0, trusts_callers=True)
        self.wire = MessageFate.FINE
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

        def arrive(moment: float) -> Awaitable[ReservationGranted | ReservationRefused | None]:
            lasts = until - now
            return super(UnreliableBudgetStore, self).reserve(
                name, claims, moment, moment + lasts, only_whole=only_whole
            )

        return await self._deliver(arrive, now)

    async def report(
        self, name: str, reports: Sequence[LeaseReport], now: float, ttl_s: float
    ) -> list[LeaseRenewal]:
        return await self._deliver(
            lambda at: super(UnreliableBudgetStore, self).report(name, reports, at, ttl_s), now
        )

    async def _deliver(self, arrive: Callable[[float], Awaitable[T]], now: float) -> T:
        """Return what comes of a message."""
        if self.wire is MessageFate.LATE:
            self.late.append(arrive)
        if self.wire in {MessageFate.LATE, MessageFate.UNSENT}:
            raise StoreError("the wire is cut")
        answer = await arrive(now)
        if self.wire is MessageFate.UNANSWERED:
            raise StoreError("the wire is cut")
        return answer

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
        self.wires = [UnreliableBudgetStore(prefix) for _ in range(processes)]
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
        answer: Any = process.reserve_leased(name, claims, self.now)
        if answer is None:
            try:
                answer = await process.reserve(
                    name, claims, self.now, self.now + 60, only_whole=True
                )
            except StoreError:
                self.unreleased.append((which, name))
                return None
        if not isinstance(answer, ReservationGranted):
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

    async def take_lease(self, which: int = 0) -> None:
        """Let calls be made until a process has a lease."""
        for _ in range(3):
            name = await self.call(which)
            assert name is not None
            await self.end(which, name, 0)
        await self.processes[which].renew()

    async def level(self, counter: str = "team") -> CounterLevel:
        (level,) = await super(UnreliableBudgetStore, self.wires[0]).levels([counter], self.now)
        return level

    async def close(self) -> None:
        for wire, process in zip(self.wires, self.processes, strict=True):
            wire.wire = MessageFate.FINE
            await process.aclose()
