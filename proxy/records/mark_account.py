"""The stored account of a feature's cache marks, and what one process adds to it."""

import msgspec

from proxy.records.feature_mode import LayoutScope
from proxy.records.team_stake import UNITS_PER_NANO

PLACES = ("tools", "stable", "semi_stable", "first_call", "later_call")
"""The places of a prompt whose balances are kept, in wire order; the last two are one place."""


class StoredMarkAccount(msgspec.Struct, frozen=True, kw_only=True):
    """Costs and earnings of the marks of a feature on one family of models, in nano-dollars.

    Attributes:
        balance: Amount that its marks brought; below 0 for a loss, which becomes half in a day.
        direct: Cost of its calls, had they been sent unmodified.
        staked: Sum of what calls cost more for writing marks.
        earned: Sum of what calls cost less for reading them.
    """

    scope: LayoutScope
    balance: int = 0
    direct: int = 0
    staked: int = 0
    earned: int = 0
    calls: int = 0
    places: tuple[int, ...] = (0,) * len(PLACES)

    @property
    def lost(self) -> int:
        """Loss that counts against what the feature may lose."""
        return max(0, -self.balance)


class MarkAccountChange(msgspec.Struct, frozen=True, kw_only=True):
    """Amounts that one process counted of a feature's marks since they were stored last.

    Attributes:
        decay: Factor on the balances of places before.
    """

    account: StoredMarkAccount
    decay: float = 1.0


class AccountNews(msgspec.Struct):
    """The amounts that one process counted since an account was stored last, in its unit.

    Attributes:
        saved: Amount that the marks which were sent brought.
        places: Amounts to add to them then.
    """

    saved: float = 0.0
    direct: float = 0.0
    staked: float = 0.0
    earned: float = 0.0
    calls: int = 0
    decay: float = 1.0
    places: list[float] = msgspec.field(default_factory=lambda: [0.0] * len(PLACES))

    def change(self, scope: LayoutScope) -> MarkAccountChange:
        """The same as it is stored, for this feature."""

        def nanos(amount: float) -> int:
            return round(amount / UNITS_PER_NANO)

        account = StoredMarkAccount(
            scope=scope,
            balance=nanos(self.saved),
            direct=nanos(self.direct),
            staked=nanos(self.staked),
            earned=nanos(self.earned),
            calls=self.calls,
            places=tuple(map(nanos, self.places)),
        )
        return MarkAccountChange(account=account, decay=self.decay)

    def subtract(self, stored: "AccountNews") -> "AccountNews":
        """The rest once an earlier state of this was stored."""
        decay = self.decay / stored.decay
        return AccountNews(
            saved=self.saved - stored.saved,
            direct=self.direct - stored.direct,
            staked=self.staked - stored.staked,
            earned=self.earned - stored.earned,
            calls=self.calls - stored.calls,
            decay=decay,
            places=[
                now - then * decay for now, then in zip(self.places, stored.places, strict=True)
            ],
        )


class MarkTotals(msgspec.Struct, frozen=True, kw_only=True):
    """Sums of what the marks of many accounts cost and earned, in nano-dollars.

    Attributes:
        largest: Some of them, those that staked most first.
    """

    staked: int
    earned: int
    lost: int
    accounts: int
    largest: tuple[StoredMarkAccount, ...]
