"""Costs and earnings of cache marks: the accounts of features, and a team's loss in a day."""

from math import ceil
from typing import Final

import msgspec

from proxy.records.feature_mode import LayoutScope

#: Money is counted in nano-dollars times a million tokens, as prices are.
STAKE_UNITS_PER_DOLLAR: Final = 1e15
UNITS_PER_NANO: Final = STAKE_UNITS_PER_DOLLAR / 1e9
#: Amount that all features of a team may lose together in a day: one dollar.
MAX_TEAM_LOSS_NANOS: Final = 1_000_000_000
MAX_TEAM_LOSS: Final = MAX_TEAM_LOSS_NANOS * UNITS_PER_NANO
#: Amount that a process borrows beyond its losses: ten processes begin a day at once at most.
LOAN_STEP: Final = MAX_TEAM_LOSS / 10
_DAY_S: Final = 86_400.0

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


class TeamLoan(msgspec.Struct, frozen=True, kw_only=True):
    """A change of what a team's features may lose in one process, in nano-dollars.

    Attributes:
        day: Days since the epoch, in UTC.
        more: Amount that is asked for; below 0 where it is given back.
        owed: Part of it that is lost already.
    """

    team: str
    day: int
    more: int
    owed: int = 0


class TeamStake(msgspec.Struct):
    """Losses of all features of a team today and by the calls under way, in one process.

    What may be lost is borrowed from a store, so that all processes together stay within the limit,
    also after a restart. While that is away, no more is lost than was borrowed.

    Attributes:
        limit: Amount that all processes may lose in a day.
        unlent: Amount that may be lost before anything was borrowed that day.
        lost: Amount of today, here.
        borrowed: Amount that the store counts for this process.
        wanted: Amount that would have been needed today.
        day: Days since the epoch.
    """

    limit: float = MAX_TEAM_LOSS
    unlent: float = MAX_TEAM_LOSS
    lost: float = 0.0
    borrowed: float = 0.0
    wanted: float = 0.0
    day: int = -1
    _first: float = 0.0

    def allows(self, more: float, now: float) -> bool:
        """True if so much more may be lost today."""
        self.begin_day(now)
        needed = self.lost + more
        if more <= 0.0 or needed <= max(self.borrowed, self._first):
            return True
        self.wanted = max(self.wanted, needed)
        return False

    def record(self, change: float, now: float) -> None:
        """Count a change of what one feature has lost."""
        self.begin_day(now)
        self.lost = max(0.0, self.lost + change)

    def begin_day(self, now: float) -> None:
        """Forget the losses of the day before; a clock that is set back forgets none."""
        day = int(now // _DAY_S)
        if day > self.day:
            self.lost = self.borrowed = self.wanted = 0.0
            self.day, self._first = day, self.unlent
        elif day < self.day - 1:  # calls of yesterday may end today
            self.day = day

    def loan(self, team: str, *, ends: bool = False) -> TeamLoan | None:
        """The change to ask the store for; None for none.

        Args:
            ends: True if the process ends, so that what is not lost is given back.
        """
        step = 0.0 if ends else LOAN_STEP
        target = min(self.limit, max(self.lost + step, 0.0 if ends else self.wanted))
        is_unused = not (self.lost or self.wanted or self.borrowed)
        more = target - self.borrowed
        if is_unused or (abs(more) < LOAN_STEP / 2 and self.wanted <= self.borrowed and not ends):
            return None
        if more < 0.0:
            self.borrowed += more  # before the store's answer, which may be lost
        owed = max(0.0, self.lost - self.borrowed)
        return TeamLoan(
            team=team,
            day=self.day,
            more=ceil(more / UNITS_PER_NANO),
            owed=ceil(owed / UNITS_PER_NANO),
        )

    def adopt_loan(self, loan: TeamLoan, lent: int) -> None:
        """Take over how much the store lent, in nano-dollars."""
        if loan.day == self.day and loan.more > 0:
            self.borrowed += lent * UNITS_PER_NANO
            self.wanted = self._first = 0.0

    def note_lent(self, lent: int, now: float) -> None:
        """Take note of what the store lent all processes today, in nano-dollars."""
        self.begin_day(now)
        if not self.borrowed:
            rest = max(0.0, self.limit - lent * UNITS_PER_NANO)
            self._first = min(self.unlent, rest / 10)
