"""The ports to the counters that processes may share, which their stores implement.

============================  ==============================  ==============================
port                          in one process                  in Redis, for all
============================  ==============================  ==============================
``BudgetStore``               ``redis.local_budget_store``    ``redis.budget_store``
``ObjectiveCounters``         ``redis.local_objective_store`` ``redis.objective_store``
============================  ==============================  ==============================

Budget counters that have lost everything look like unused ones. So they carry a mark, which is lost
with them. The process that restores them from the ledger marks them as whole, and a reservation can
require whole counters in the same step.
"""

from collections.abc import Collection, Mapping, Sequence
from enum import StrEnum
from typing import Protocol

from slo.budgets.counter import CounterClaim, CounterLevel, ReservationRefused
from slo.budgets.reservations import ReservationGranted

Count = tuple[int, int]
"""The number of good calls, and the number of bad ones."""

Cell = tuple[str, int]
"""A key, and a slot's number."""


class CountersCondition(StrEnum):
    """The condition of all counters, as their mark says."""

    EMPTY = ""  # there is no mark: they have just begun, or have lost everything
    REPAIRING = "mending"  # somebody has seen it, and is about to give them what they lack
    WHOLE = "whole"  # they were given what the ledger knows; to be said again every few seconds


class BudgetStore(Protocol):
    """Counters that calls reserve from before they are sent, and settle with afterwards.

    Every time is in seconds since 1970. A reservation has a name, which is unique to the attempt it
    is for: saying the same thing twice does it once. To give a hold back, settle it with 0.

    Raises:
        StoreError: The counters are out of reach; of every coroutine.
    """

    @property
    def is_shared(self) -> bool:
        """True if all processes count together."""

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
            claims: On a counter each; of none, nothing is asked.
            until: End of the hold.
            only_whole: True if counters that are not whole are not to be reserved from.

        Returns:
            None, and nothing is held, where the counters lack what the ledger knows and only whole
            ones will do.

        Raises:
            ValueError: If two claims are for the same counter.
        """

    async def settle(
        self, name: str, amounts: Mapping[str, int], now: float, ended: float | None = None
    ) -> bool:
        """Add what was spent of each counter and let go of what was held there.

        It is added also where the hold has come to its end, or never was; not where the counter
        was restored from a ledger that knew it. A counter that is left out keeps its hold.

        Args:
            amounts: By counter, those that the reservation was made on.
            ended: End of the attempt, as the ledger has it; now where it is None.

        Returns:
            False, and nothing changes, where the reservation was settled before.

        Raises:
            ValueError: If an amount is out of bounds.
        """

    def reserve_leased(
        self, name: str, claims: Sequence[CounterClaim], now: float
    ) -> ReservationGranted | None:
        """Hold every claim within what this process has reserved ahead; None where it cannot.

        Only whole counters are reserved from ahead. Such a reservation ends with the process.
        """

    def settle_leased(self, name: str, amounts: Mapping[str, int], ended: float) -> bool:
        """Settle what was reserved ahead; False, and nothing is done, where it was not."""

    async def extend(self, name: str, counters: Sequence[str], now: float, until: float) -> bool:
        """Let the reservation end later, never earlier; False if a hold has already gone."""

    async def levels(self, counters: Sequence[str], now: float) -> list[CounterLevel]:
        """Amounts spent and held of each counter; one that nobody has used is at 0."""

    async def raise_spent(self, amounts: Mapping[str, int], now: float) -> list[int]:
        """Raise the spent amount of each counter to at least this; returns the amounts before.

        In one step, so that doing it twice, or two at once, is doing it once. What is held stays
        held.

        Raises:
            ValueError: If an amount is out of bounds.
        """

    async def begin_checkpoint(self, now: float, within: float) -> int:
        """The next second, from which on all that is settled is kept apart.

        Args:
            within: Seconds since a checkpoint for which it serves, and no other is begun.
        """

    async def restore(self, amounts: Mapping[str, int], checkpoint: int, now: float) -> list[int]:
        """Let counters have spent this before a checkpoint, and what was settled of later attempts.

        Counters that are not whole are set to it, others lifted. Doing it twice is doing it once.

        Args:
            amounts: By counter, what attempts used that ended before the checkpoint.
            checkpoint: As it was begun; nothing changes where there is another one by now.

        Returns:
            What each said before.

        Raises:
            ValueError: If an amount is out of bounds.
        """

    async def condition(self, now: float) -> CountersCondition:
        """The condition of the counters, by their mark."""

    async def change_condition(
        self, before: CountersCondition, after: CountersCondition, now: float
    ) -> bool:
        """Change the mark, or prolong it; False if it has another value than expected.

        Nobody turns it to ``EMPTY``: that is what losing everything does.
        """

    async def time(self) -> float | None:
        """The time by the counters' own clock; None where they have none."""

    async def aclose(self) -> None:
        """Let go of connections, if there are any."""


class ObjectiveCounters(Protocol):
    """Counts of all replicas, their leadership, and what the leader publishes.

    Keys are words of the caller's, of at most ``MAX_NAME_BYTES`` bytes. What has no sense or no
    bounds is refused with a ``ValueError`` before anybody is asked.

    Raises:
        StoreError: The store is out of reach; of every coroutine.
    """

    @property
    def is_shared(self) -> bool:
        """True if all processes share it."""

    async def add(self, increments: Mapping[Cell, Count]) -> None:
        """Add so many good and bad to each key's count in a slot.

        Not counted, and not complained about: a slot that begins more than ``MAX_CLOCK_DRIFT_S``
        before or after the store's own time, as of a replica whose clock is wrong; and a key
        that is new to a slot which counts ``MAX_KEYS`` already. A slot is kept for
        ``RETENTION_S`` after its end.

        Adding is no reservation: who adds again after a ``StoreError`` may count twice, and
        who does not may count too little. Too little is safer, where rates are judged.

        Args:
            increments: At most ``MAX_CELLS``, each of 0 to ``MAX_INCREMENT`` good and as many bad.

        Raises:
            ValueError: If an increment is out of bounds, or they are too many.
            StoreError: If the store is out of reach; any part may have been counted.
        """

    async def read(self, keys: Collection[str], first: int, last: int) -> Mapping[Cell, Count]:
        """Reads what was counted in these slots, both ends included.

        What nobody counted, or is no longer kept, is absent. To look at a long time again and
        again, keep what was read: only the last slots change.

        Raises:
            ValueError: If keys times slots are more than ``MAX_CELLS``, or keys too many.
        """

    async def lead(self, who: str, seconds: float) -> int | None:
        """The epoch under which ``who`` leads from now on, None where somebody else leads.

        Who leads keeps the epoch by asking again before the seconds have passed. After that the
        first to ask leads, under a higher epoch than any before, even if it led before.

        Args:
            who: A name no other replica has.
            seconds: 0 to ``MAX_LEASE_S``; with 0, who leads lets go.

        Raises:
            ValueError: If the name or the seconds are out of bounds.
            StoreError: If the store is out of reach; ``who`` may lead all the same.
        """

    async def publish(self, epoch: int, snapshots: Mapping[str, bytes]) -> bool:
        """Publish the states; earlier ones are replaced as a whole.

        An epoch that is newer than any given out is taken, and ends whoever leads: the next lead
        is newer still.

        Args:
            epoch: Under which ``lead`` said one leads; 1 to ``MAX_EPOCH``.
            snapshots: At most ``MAX_KEYS``, of ``MAX_STATE_BYTES`` bytes each.

        Returns:
            False, and nothing changes, where a newer epoch has begun.

        Raises:
            ValueError: If the epoch or the snapshots are out of bounds.
            StoreError: If the store is out of reach; it may have been said all the same.
        """

    async def snapshots(self) -> tuple[int, Mapping[str, bytes]]:
        """The states published last, and their epoch; 0 and nothing before the first time."""

    async def aclose(self) -> None:
        """Let go of connections, if there are any."""
