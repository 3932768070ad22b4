"""The port to the counters that calls reserve from, and its twin inside one process.

The rules are those of ``slo.reservations``, whichever way they are kept. ``Private`` keeps them in
this process: exact as long as no other process serves the same budgets. ``Shared``
(``proxy.store.redis_reserving``) keeps them in Redis for all.
"""

from collections.abc import Mapping, Sequence
from typing import Protocol

from slo.reservations import Claim, Granted, Level, Refused, Reservations, within


class StoreLost(Exception):
    """The counters did not answer within their deadline, or not at all.

    What was asked for may still have been done: a hold then goes at its end, and whatever is asked
    again under the same name is done once.
    """


class Reserving(Protocol):
    """Counters that calls reserve from before they are sent, and settle with afterwards.

    Every time is in seconds since 1970. A reservation has a name, which is unique to the attempt it
    is for: saying the same thing twice does it once. To give a hold back, settle it with 0.

    Attributes:
        is_shared: Whether all processes count together.
    """

    @property
    def is_shared(self) -> bool:
        """Whether all processes count together."""
        ...

    async def reserve(
        self, name: str, claims: Sequence[Claim], now: float, until: float
    ) -> Granted | Refused:
        """Hold every claim until then, or none.

        What is held or was settled under this name already stays as it is, and is granted.

        Raises:
            ValueError: If two claims are for the same counter.
            StoreLost: If the counters are out of reach.
        """
        ...

    async def settle(self, name: str, amounts: Mapping[str, int], now: float) -> bool:
        """Add what was spent of each counter and let go of what was held there.

        It is added also where the hold has come to its end, or never was. A counter that is left
        out keeps its hold.

        Args:
            name: The reservation's.
            amounts: By counter, those that the reservation was made on.
            now: The time.

        Returns:
            False, and nothing changes, where the reservation was settled before.

        Raises:
            ValueError: If an amount is out of bounds.
            StoreLost: If the counters are out of reach.
        """
        ...

    async def extend(self, name: str, counters: Sequence[str], now: float, until: float) -> bool:
        """Let the reservation end later, never earlier; False if a hold has already gone.

        Raises:
            StoreLost: If the counters are out of reach.
        """
        ...

    async def levels(self, counters: Sequence[str], now: float) -> list[Level]:
        """What was spent and is held of each; a counter nobody has used is at 0.

        Raises:
            StoreLost: If the counters are out of reach.
        """
        ...

    async def lift(self, amounts: Mapping[str, int], now: float) -> list[int]:
        """Let no less have been spent of each counter; what it said before, of each.

        In one step, so that doing it twice, or two at once, is doing it once. What is held stays
        held.

        Raises:
            ValueError: If an amount is out of bounds.
            StoreLost: If the counters are out of reach.
        """
        ...

    async def aclose(self) -> None:
        """Let go of connections, if there are any."""
        ...


class Private:
    """Counters that this process keeps for itself, and loses when it ends."""

    is_shared = False

    def __init__(self) -> None:
        self._reservations = Reservations()

    async def reserve(
        self, name: str, claims: Sequence[Claim], now: float, until: float
    ) -> Granted | Refused:
        """Hold every claim until then, or none."""
        return self._reservations.reserve(name, claims, now, until)

    async def settle(self, name: str, amounts: Mapping[str, int], now: float) -> bool:
        """Add what was spent of each counter and let go of what was held there."""
        return self._reservations.settle(name, amounts, now)

    async def extend(self, name: str, counters: Sequence[str], now: float, until: float) -> bool:
        """Let the reservation end later; False if a hold has already gone."""
        return self._reservations.extend(name, counters, now, until)

    async def levels(self, counters: Sequence[str], now: float) -> list[Level]:
        """What was spent and is held of each."""
        return self._reservations.levels(counters, now)

    async def lift(self, amounts: Mapping[str, int], now: float) -> list[int]:
        """Let no less have been spent of each counter."""
        for amount in amounts.values():
            within(amount)
        before = [level.spent for level in self._reservations.levels(list(amounts), now)]
        for (counter, amount), spent in zip(amounts.items(), before, strict=True):
            if spent < amount:
                self._reservations.correct(counter, amount, now)
        return before

    async def aclose(self) -> None:
        """Nothing; there is nothing to let go of."""
