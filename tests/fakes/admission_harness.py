"""Admission with fakes around it, and budgets to admit by."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from proxy.calls.metering.attempt_receipts import build_receipt
from proxy.calls.metering.settlement import AttemptInfo, AttemptOutcome
from proxy.calls.translation.translation import prepare
from proxy.catalog.catalog import Catalog
from proxy.catalog.entries import Route
from proxy.prefix.prompts.fingerprints import Pseudonymizer
from proxy.records.receipt import Receipt
from proxy.records.timeline import Timeline
from proxy.services.budgets.admission import Admission
from proxy.services.budgets.cost_bounds.prediction import Predictor
from proxy.store.errors import StoreError
from proxy.store.ports import CountersCondition
from proxy.store.redis.local_budget_store import LocalBudgetStore
from slo.budgets.budget import Budget, BudgetUnit, HoldPolicy
from slo.budgets.counter import CounterClaim, CounterLevel, ReservationRefused
from slo.budgets.reservations import ReservationGranted, Reservations
from slo.price import Tariff
from slo.window import Window
from tests.fakes.call_dependencies import FakeEstimator, LoopTasks, call, route
from tests.fakes.clock import ticks

NOW = 1_790_000_000.0
BODY = b'{"model":"m","messages":[],"max_completion_tokens":1000}'
ROUTE = route("one", max_output=4096)
#: What the body above can cost at most: each of its bytes may be a token, its template adds 256,
#: and 1,000 may be generated.
WORST = (len(BODY) + 256) * 1_000 + 1000 * 4_000
#: What it may cost by its likely tokens, which are a fourth of its bytes.
LIKELY_WORST = 14 * 1_000 + 1000 * 4_000


def budget(**fields: Any) -> Budget:
    return Budget(
        **{
            "name": "b",
            "scope": "team",
            "unit": BudgetUnit.USD,
            "window": Window.DAY,
            "limit": 10 * WORST,
            "hold": HoldPolicy.WORST,
            **fields,
        }
    )


class LosableBudgetStore(LocalBudgetStore):
    """Counters that can be lost.

    Attributes:
        is_lost: Whether they are.
        asked: How often they were asked to reserve.
        extended: How often they were asked to let a reservation end later.
        delay: Seconds that a reservation of whole counters takes.
        extend_delay: Seconds that it takes to let a reservation end later.
        leases: Whether calls are reserved ahead, whatever becomes of the counters.
        stalls: How many reservations get no answer, and arrive only when ``go_on`` lets them.
    """

    def __init__(self) -> None:
        super().__init__()
        self.is_lost = False
        self.asked = self.extended = 0
        self.delay = 0.0
        self.extend_delay = 0.0
        self.leases = False
        self.stalls = 0
        self._late: list[tuple[str, Sequence[CounterClaim], float, float]] = []
        self._here: set[str] = set()

    def forget(self) -> None:
        """Lose everything."""
        self._reservations = Reservations()
        self._condition = CountersCondition.EMPTY

    def mend(self) -> None:
        """Be whole, as they are."""
        self._condition = CountersCondition.WHOLE

    def go_on(self) -> None:
        """Let the reservations arrive that got no answer."""
        for event in self._late:
            self._reservations.reserve(*event)
        self._late.clear()

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
        await self._found()
        if self.stalls:
            self.stalls -= 1
            self._late.append((name, claims, now, until))
            raise StoreError("it does not answer")
        await asyncio.sleep(self.delay if only_whole else 0)
        return await super().reserve(name, claims, now, until, only_whole=only_whole)

    def reserve_leased(  # type: ignore[override]
        self, name: str, claims: Sequence[CounterClaim], now: float
    ) -> ReservationGranted | None:
        if not self.leases:
            return None
        outcome = self._reservations.reserve(f"here/{name}", claims, now, now + 60)
        if not isinstance(outcome, ReservationGranted):
            return None
        self._here.add(name)
        return outcome

    def settle_leased(self, name: str, amounts: Mapping[str, int], ended: float) -> bool:
        if name not in self._here:
            return False
        self._here.remove(name)
        return self._reservations.settle(f"here/{name}", amounts, ended)

    async def settle(
        self, name: str, amounts: Mapping[str, int], now: float, ended: float | None = None
    ) -> bool:
        await self._found()
        return await super().settle(name, amounts, now, ended)

    async def extend(self, name: str, counters: Sequence[str], now: float, until: float) -> bool:
        if name in self._here:
            return True
        await self._found()
        self.extended += 1
        await asyncio.sleep(self.extend_delay)
        return await super().extend(name, counters, now, until)

    async def condition(self, now: float) -> CountersCondition:
        await self._found()
        return await super().condition(now)

    async def _found(self) -> None:
        await asyncio.sleep(0)
        if self.is_lost:
            raise StoreError("it is away")


class AdmissionHarness:
    """Admission at work; its time is the running loop's."""

    def __init__(
        self,
        *budgets: Budget,
        catalog: Catalog | None = None,
        tariff: Callable[[Route], Tariff | None] | None = None,
    ) -> None:
        self.began = ticks()
        self.store = LosableBudgetStore()
        self.store.mend()
        self.estimator = FakeEstimator()
        self.predictor = Predictor(self.estimator, catalog, tariff)
        self.admission = Admission(
            budgets,
            self.store,
            predictor=self.predictor,
            seal=Pseudonymizer(b"secret"),
            tasks=LoopTasks(),
            now=self.now,
        )

    def now(self) -> float:
        return NOW + ticks() - self.began

    def attempt(
        self, number: int, body: bytes = BODY, over: Route = ROUTE, **fields: Any
    ) -> AttemptInfo:
        made_call = call(body, **{"id": f"call_{number}", "arrived": NOW, **fields})
        return AttemptInfo(call=made_call, route=over)

    async def admit(self, attempt: AttemptInfo) -> Mapping[str, str]:
        return await self.admission.admit(attempt, prepare(attempt.call, attempt.route or ROUTE))

    def end(self, attempt: AttemptInfo, end: AttemptOutcome) -> Receipt:
        """Settle an attempt that ended so."""
        receipt = build_receipt(attempt, end, Timeline(ticks), Pseudonymizer(b"secret"))
        self.admission.settle(receipt)
        return receipt

    async def level(self, counter: str) -> CounterLevel:
        (level,) = await self.store.levels([counter], self.now())
        return level
