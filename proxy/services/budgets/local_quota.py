"""The quota that one process admits by itself while the budgets' counters are out of reach."""

from collections.abc import Mapping, Sequence
from typing import Final

from proxy.services.budgets.reservation_requests import CountedBudget
from slo.reservation_sizing import UsageBounds
from slo.reservations import (
    MAX_AMOUNT,
    CounterClaim,
    CounterLevel,
    ReservationRefused,
    Reservations,
)

#: Seconds that a hold outlives the last sign of its call.
TTL_S: Final = 60.0
#: The part of what was left that one process spends while counters are lost.
_QUOTA_DIVISOR: Final = 10


class LocalQuota:
    """Admits calls by this process's part of what was left while the counters are away."""

    def __init__(self) -> None:
        self._reservations = Reservations()
        self._quotas: dict[str, int] = {}

    def claim(
        self, each: CountedBudget, wanted: UsageBounds, level: CounterLevel | None
    ) -> CounterClaim:
        """The call's claim on this process's part of what was left when last heard."""
        limit = each.budget.limit
        free = limit if level is None else max(limit - level.spent - level.held, 0)
        quota = self._quotas.setdefault(each.counter, free // _QUOTA_DIVISOR)
        return CounterClaim(each.counter, min(wanted.most, MAX_AMOUNT), quota, True, each.ends)  # noqa: FBT003 - as it is

    def reserve(self, name: str, claims: Sequence[CounterClaim], now: float) -> bool:
        """True if all claims are held."""
        return not isinstance(
            self._reservations.reserve(name, claims, now, now + TTL_S), ReservationRefused
        )

    def settle(self, name: str, amounts: Mapping[str, int], now: float) -> None:
        """Note what a call used."""
        self._reservations.settle(name, amounts, now)
