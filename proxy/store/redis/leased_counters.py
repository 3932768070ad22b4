"""Budget counters in Redis with leases: amounts reserved ahead, so that calls need no round trip.

A counter that is used again within seconds gets a lease (``slo.budgets.leases``); all leases are
renewed together twice a second. While Redis stalls, calls go on within their leases. Calls that no
lease covers, and counters without one, go to Redis one by one.

A process that dies leaves its leases behind. They count as held until ``TTL_S`` after their last
report, so that nothing is reserved twice. Then what its calls held counts as spent, and the rest is
free.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from itertools import islice
from secrets import token_hex
from typing import Final

from proxy.store.errors import StoreError
from proxy.store.redis.budget_store import RedisBudgetStore
from slo.budgets.counter import CounterClaim, CounterLevel, ReservationRefused
from slo.budgets.leases import IDLE_S, Lease, LeaseReport
from slo.budgets.reservations import ReservationGranted, check_distinct_counters

TTL_S: Final = 60.0
"""Seconds after the last report for which a lease counts as held."""

REPORT_EVERY_S: Final = 0.5
"""Seconds between two reports."""

_MAX_LEASES: Final = 1_000
#: Calls on a counter within ``IDLE_S`` that make a lease worth its reports.
_WORTH_CALLS: Final = 2
_MAX_CANDIDATES: Final = 10_000
_COUNTERS_PER_BATCH: Final = 50  # reports that one script takes


class LeasedCounters:
    """The counters of one organisation in Redis, some of them leased.

    Args:
        ticks: Seconds of a clock that never goes back; the running loop's where it is None.
    """

    is_shared = True

    def __init__(
        self,
        shared: RedisBudgetStore,
        now: Callable[[], float],
        ticks: Callable[[], float] | None = None,
    ) -> None:
        self.shared = shared
        self._now = now
        self._ticks = ticks or (lambda: asyncio.get_running_loop().time())
        self._name = f"lease/{token_hex(8)}"
        self._serial = 0
        self._leases: dict[str, Lease] = {}
        self._candidates: dict[str, tuple[int, float]] = {}
        self._here: dict[str, Sequence[CounterClaim]] = {}
        self._uncertain: dict[str, None] = {}
        # What leases have no part in, Redis is asked for.
        self.levels, self.raise_spent = shared.levels, shared.raise_spent
        self.begin_checkpoint, self.restore = shared.begin_checkpoint, shared.restore
        self.condition, self.change_condition = shared.condition, shared.change_condition
        self.time, self.counters_from = shared.time, shared.counters_from

    async def run(self) -> None:
        """Renew the leases, until cancelled."""
        while True:
            await asyncio.sleep(REPORT_EVERY_S)
            with suppress(StoreError):
                await self.renew()

    async def renew(self, *, is_last: bool = False) -> None:
        """Report on all leases, or release them.

        Raises:
            StoreError: Redis cannot be asked; what was not reported is reported again.
        """
        now = self._ticks()
        for counter in [
            counter_name for counter_name, lease in self._leases.items() if lease.is_over(now)
        ]:
            del self._leases[counter]
        counters = iter(list(self._leases))
        while batch := list(islice(counters, _COUNTERS_PER_BATCH)):
            sent = self._ticks()
            reports = [self._report(counter_name, sent, is_last=is_last) for counter_name in batch]
            renewals = await self.shared.report(self._name, reports, self._now(), TTL_S)
            for report, renewal in zip(reports, renewals, strict=True):
                self._leases[report.counter].renew(report, renewal, sent)

    def _report(self, counter: str, now: float, *, is_last: bool) -> LeaseReport:
        self._serial += 1
        return self._leases[counter].report(counter, self._serial, now, is_last=is_last)

    def reserve_leased(
        self, name: str, claims: Sequence[CounterClaim], now: float
    ) -> ReservationGranted | None:
        """Hold every claim within this process's leases; None where they do not cover it."""
        leases: list[Lease] = []
        for claim in claims:
            lease = self._leases.get(claim.counter)
            if lease is None:
                return None
            leases.append(lease)
        if not leases or name in self._uncertain:
            return None
        if name not in self._here:
            ticks = self._ticks()
            fitting = [
                lease.fits(claim, ticks) for lease, claim in zip(leases, claims, strict=True)
            ]
            if not all(fitting):
                return None
            check_distinct_counters(claims)
            for lease, claim in zip(leases, claims, strict=True):
                lease.add_hold(claim.amount)
            self._here[name] = claims
        return ReservationGranted(
            tuple([lease.level for lease in leases]),
            tuple([lease.all_running for lease in leases]),
        )

    def settle_leased(self, name: str, amounts: Mapping[str, int], ended: float) -> bool:
        """Settle what was reserved within leases; False where it was not."""
        claims = self._here.pop(name, None)
        if claims is None:
            return False
        ticks, second = self._ticks(), int(ended)
        for claim in claims:
            spent = amounts.get(claim.counter, 0)
            self._leases[claim.counter].settle(claim.amount, spent, ticks, second)
        return True

    async def reserve(
        self,
        name: str,
        claims: Sequence[CounterClaim],
        now: float,
        until: float,
        *,
        only_whole: bool = False,
    ) -> ReservationGranted | ReservationRefused | None:
        """Hold every claim until then, or none, in Redis; counters asked for again get leases."""
        if name in self._here and (granted := self.reserve_leased(name, claims, now)) is not None:
            return granted
        try:
            answer = await self.shared.reserve(name, claims, now, until, only_whole=only_whole)
        except StoreError:  # it may be held all the same
            self._uncertain[name] = None
            if len(self._uncertain) > _MAX_CANDIDATES:
                del self._uncertain[next(iter(self._uncertain))]
            raise
        if isinstance(answer, ReservationGranted):
            for claim, level in zip(claims, answer.levels, strict=True):
                self._consider(claim, level)
        return answer

    def _consider(self, claim: CounterClaim, level: CounterLevel) -> None:
        """Lease a counter that was asked for before, not long ago."""
        if claim.counter in self._leases or len(self._leases) >= _MAX_LEASES:
            return
        now = self._ticks()
        calls, since = self._candidates.pop(claim.counter, (0, now))
        if now >= since + IDLE_S:
            calls, since = 0, now
        if calls + 1 >= _WORTH_CALLS:
            self._leases[claim.counter] = Lease(claim, level, now)
            return
        self._candidates[claim.counter] = (calls + 1, since)
        if len(self._candidates) > _MAX_CANDIDATES:
            del self._candidates[next(iter(self._candidates))]

    async def settle(
        self, name: str, amounts: Mapping[str, int], now: float, ended: float | None = None
    ) -> bool:
        """Add what was spent of each counter and let go of what was held there."""
        if self.settle_leased(name, amounts, now if ended is None else ended):
            return True
        self._uncertain.pop(name, None)
        return await self.shared.settle(name, amounts, now, ended)

    async def extend(self, name: str, counters: Sequence[str], now: float, until: float) -> bool:
        """Let the reservation end later; what is held within a lease is held as long as that."""
        return name in self._here or await self.shared.extend(name, counters, now, until)

    async def aclose(self) -> None:
        """Give the leases back, and let go of all connections."""
        with suppress(StoreError):
            for _ in range(2):  # what had no answer is said again first, then what came after it
                await self.renew(is_last=True)
        await self.shared.aclose()
