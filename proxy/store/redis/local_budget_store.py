"""The port to the counters that calls reserve from, and its twin inside one process.

The rules are those of ``slo.reservations``, whichever way they are kept. ``LocalBudgetStore`` keeps
them in this process: exact as long as no other process serves the same budgets.
``RedisBudgetStore`` (``proxy.store.redis.budget_store``) keeps them in Redis for all.

Counters that have lost everything look like counters nobody has used. So they carry a mark, which
goes with them: whoever gave them what the ledger knows writes there that they are whole, and a
reservation can ask for whole counters, in the same step.
"""

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Protocol

from slo.reservations import (
    CounterClaim,
    CounterLevel,
    ReservationGranted,
    ReservationRefused,
    Reservations,
    check_amount,
    check_distinct_counters,
)


class CountersCondition(StrEnum):
    """The condition of all counters, as their mark says."""

    EMPTY = ""  # there is no mark: they have just begun, or have lost everything
    REPAIRING = "mending"  # somebody has seen it, and is about to give them what they lack
    WHOLE = "whole"  # they were given what the ledger knows; to be said again every few seconds


class BudgetStore(Protocol):
    """Counters that calls reserve from before they are sent, and settle with afterwards.

    Every time is in seconds since 1970. A reservation has a name, which is unique to the attempt it
    is for: saying the same thing twice does it once. To give a hold back, settle it with 0.

    Attributes:
        is_shared: True if all processes count together.
    """

    @property
    def is_shared(self) -> bool:
        """True if all processes count together."""
        ...

    async def reserve(
        self,
        name: str,
        claims: Sequence[CounterClaim],
        now: float,
        until: float,
        *,
        only_whole: bool = False,
    ) -> ReservationGranted | ReservationRefused | None:
        """Hold every claim until then, or none.

        What is held or was settled under this name already stays as it is, and is granted.

        Args:
            name: The reservation's.
            claims: On a counter each; of none, nothing is asked.
            now: The time.
            until: End of the hold.
            only_whole: True if counters that are not whole are not to be reserved from.

        Returns:
            None, and nothing is held, where the counters lack what the ledger knows and only whole
            ones will do.

        Raises:
            ValueError: If two claims are for the same counter.
            StoreError: If the counters are out of reach.
        """
        ...

    async def settle(
        self, name: str, amounts: Mapping[str, int], now: float, ended: float | None = None
    ) -> bool:
        """Add what was spent of each counter and let go of what was held there.

        It is added also where the hold has come to its end, or never was; not where the counter
        was restored from a ledger that knew it. A counter that is left out keeps its hold.

        Args:
            name: The reservation's.
            amounts: By counter, those that the reservation was made on.
            now: The time.
            ended: End of the attempt, as the ledger has it; now where it is None.

        Returns:
            False, and nothing changes, where the reservation was settled before.

        Raises:
            ValueError: If an amount is out of bounds.
            StoreError: If the counters are out of reach.
        """
        ...

    def reserve_leased(
        self, name: str, claims: Sequence[CounterClaim], now: float
    ) -> ReservationGranted | None:
        """Hold every claim within what this process has reserved ahead; None where it cannot.

        Only whole counters are reserved from ahead. Such a reservation ends with the process.
        """
        ...

    def settle_leased(self, name: str, amounts: Mapping[str, int], ended: float) -> bool:
        """Settle what was reserved ahead; False, and nothing is done, where it was not."""
        ...

    async def extend(self, name: str, counters: Sequence[str], now: float, until: float) -> bool:
        """Let the reservation end later, never earlier; False if a hold has already gone.

        Raises:
            StoreError: If the counters are out of reach.
        """
        ...

    async def levels(self, counters: Sequence[str], now: float) -> list[CounterLevel]:
        """Amounts spent and held of each counter; one that nobody has used is at 0.

        Raises:
            StoreError: If the counters are out of reach.
        """
        ...

    async def raise_spent(self, amounts: Mapping[str, int], now: float) -> list[int]:
        """Raise the spent amount of each counter to at least this; returns the amounts before.

        In one step, so that doing it twice, or two at once, is doing it once. What is held stays
        held.

        Raises:
            ValueError: If an amount is out of bounds.
            StoreError: If the counters are out of reach.
        """
        ...

    async def begin_checkpoint(self, now: float, within: float) -> int:
        """The next second, from which on all that is settled is kept apart.

        Args:
            now: The time.
            within: Seconds since a checkpoint for which it serves, and no other is begun.

        Raises:
            StoreError: If the counters are out of reach.
        """
        ...

    async def restore(self, amounts: Mapping[str, int], checkpoint: int, now: float) -> list[int]:
        """Let counters have spent this before a checkpoint, and what was settled of later attempts.

        Counters that are not whole are set to it, others lifted. Doing it twice is doing it once.

        Args:
            amounts: By counter, what attempts used that ended before the checkpoint.
            checkpoint: As it was begun; nothing changes where there is another one by now.
            now: The time.

        Returns:
            What each said before.

        Raises:
            ValueError: If an amount is out of bounds.
            StoreError: If the counters are out of reach.
        """
        ...

    async def condition(self, now: float) -> CountersCondition:
        """The condition of the counters, by their mark.

        Raises:
            StoreError: If the counters are out of reach.
        """
        ...

    async def change_condition(
        self, before: CountersCondition, after: CountersCondition, now: float
    ) -> bool:
        """Change the mark, or prolong it; False if it has another value than expected.

        Nobody turns it to ``EMPTY``: that is what losing everything does.

        Raises:
            StoreError: If the counters are out of reach.
        """
        ...

    async def time(self) -> float | None:
        """The time by the counters' own clock; None where they have none.

        Raises:
            StoreError: If the counters are out of reach.
        """
        ...

    async def aclose(self) -> None:
        """Let go of connections, if there are any."""
        ...


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
        """Nothing; there is nothing to let go of."""
