"""Budget counters within one process.

The rules are those of ``slo.budgets.reservations``, whichever way they are kept.
``LocalBudgetStore`` keeps them in this process: exact as long as no other process serves the same
budgets.
``RedisBudgetStore`` (``proxy.store.redis.budget_store``) keeps them in Redis for all.
"""

from collections.abc import Mapping, Sequence

from proxy.store.ports import CountersCondition
from slo.budgets.counter import CounterClaim, CounterLevel, ReservationRefused, check_amount
from slo.budgets.reservations import ReservationGranted, Reservations, check_distinct_counters


class LocalBudgetStore:
    """Counters that this process keeps for itself, and loses when it ends."""

    is_shared = False

    def __init__(self) -> None:
        self._reservations = Reservations()
        self._condition = CountersCondition.EMPTY

    @property
    def forgotten_counters(self) -> int:
        """Counters forgotten before their windows had ended, for want of room; they begin at 0."""
        return self._reservations.forgotten

    async def reserve(
        self,
        name: str,
        claims: Sequence[CounterClaim],
        now: float,
        until: float,
        *,
        only_whole: bool = False,
    ) -> ReservationGranted | ReservationRefused | None:
        """Hold every claim until then, or none."""
        check_distinct_counters(claims)
        if only_whole and claims and self._condition is not CountersCondition.WHOLE:
            return None
        return self._reservations.reserve(name, claims, now, until)

    async def settle(
        self, name: str, amounts: Mapping[str, int], now: float, ended: float | None = None
    ) -> bool:
        """Add what was spent of each counter and let go of what was held there."""
        return self._reservations.settle(name, amounts, now, ended)

    def reserve_leased(self, name: str, claims: Sequence[CounterClaim], now: float) -> None:
        """None: nothing is reserved ahead."""
        return

    def settle_leased(self, name: str, amounts: Mapping[str, int], ended: float) -> bool:
        """False: nothing is reserved ahead."""
        return False

    async def extend(self, name: str, counters: Sequence[str], now: float, until: float) -> bool:
        """Let the reservation end later; False if a hold has already gone."""
        return self._reservations.extend(name, counters, now, until)

    async def levels(self, counters: Sequence[str], now: float) -> list[CounterLevel]:
        """Amounts spent and held of each counter; one that nobody has used is at 0."""
        return self._reservations.levels(counters, now)

    async def raise_spent(self, amounts: Mapping[str, int], now: float) -> list[int]:
        """Let no less have been spent of each counter."""
        for amount in amounts.values():
            check_amount(amount)
        before = [level.spent for level in self._reservations.levels(list(amounts), now)]
        for (counter, amount), spent in zip(amounts.items(), before, strict=True):
            if spent < amount:
                self._reservations.correct(counter, amount, now)
        return before

    async def begin_checkpoint(self, now: float, within: float) -> int:
        """The next second, from which on all that is settled is kept apart."""
        return self._reservations.begin_checkpoint(now, within)

    async def restore(self, amounts: Mapping[str, int], checkpoint: int, now: float) -> list[int]:
        """Let counters have spent this before a checkpoint, and what was settled later."""
        is_whole = self._condition is CountersCondition.WHOLE
        return self._reservations.restore(amounts, checkpoint, now, exactly=not is_whole)

    async def condition(self, now: float) -> CountersCondition:
        """The condition of the counters, by their mark."""
        return self._condition

    async def change_condition(
        self, before: CountersCondition, after: CountersCondition, now: float
    ) -> bool:
        """Change the mark; False if it has another value than expected."""
        if self._condition is not before:
            return False
        self._condition = after
        return True

    async def time(self) -> None:
        """None: this process's own clock is all there is."""
        return

    async def aclose(self) -> None:
        """Do nothing: there is no connection."""
