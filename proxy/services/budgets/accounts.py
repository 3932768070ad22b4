"""Spending per budget according to the ledger, at a cost that does not grow with its window.

Rollups hold dollars and tokens of the organization, teams, keys and features, in windows of an hour
and more. Requests, end users and minutes are read from receipts. Labels are in neither.

Of a month only yesterday and today are read each time; earlier days are read once, one after the
other, and kept. Receipts may still come for those, from an import or another process's journal: as
soon as the ledger has other attempts of these days, they are read again.
"""

from collections import deque
from collections.abc import Collection, Mapping, Sequence
from heapq import nlargest
from typing import Final, Literal, TypeAlias

import msgspec

from proxy.store.sql.ledger.spendings import MAX_NAMES, NamedSpendings, Spending, Spendings
from slo import window
from slo.budgets.budget import EVERY, LABEL_PREFIX, Budget, BudgetUnit, counter_key
from slo.budgets.counter import MAX_AMOUNT
from slo.budgets.pace import PACE_DAYS
from slo.window import Window

#: Seconds after which what the ledger knows has been settled, or given up: more than all attempts
#: of an admission take together.
SETTLED_AFTER_S: Final = 12.0
_MAX_LOOKS: Final = 32
_DAY_S: Final = 86_400.0
#: Seconds after which yesterday is read again: attempts settle late.
_YESTERDAY_S: Final = 3_600.0
_ROLLED_UP: Final = frozenset({"organization", "team", "key", "feature"})
_NOTHING: Final = Spending(0, 0)

_Source: TypeAlias = Literal["rollups", "receipts"]


class LedgerAccount(msgspec.Struct, frozen=True):
    """Spending of a budget, in its unit, by name; not whole where there are more names."""

    by: dict[str, int]
    is_whole: bool


class _LastDays(msgspec.Struct):
    """Spending in each of the last whole days, the oldest first, and when yesterday was read."""

    today: float
    read_at: float
    days: list[dict[str, Spending]]


class _Past(msgspec.Struct):
    """Spending in a window's days that are over, and the attempts in the ledger it is read from."""

    start: float
    end: float
    by: dict[str, Spending]
    attempts: int = 0
    is_whole: bool = True


def is_compared(budget: Budget) -> bool:
    """True if the ledger knows what the budget counts."""
    return not budget.scope.startswith(LABEL_PREFIX)


class LedgerAccounts:
    """The accounts of budgets, over what was spent; one thread at a time may ask, and blocks.

    Budgets that are asked about at the same time share what is read for them.
    """

    def __init__(self, spendings: Spendings) -> None:
        self._spendings = spendings
        self._asked_for: tuple[float, float | None] = (float("-inf"), None)
        self._read: dict[tuple[_Source, str, Window], NamedSpendings] = {}
        self._pasts: dict[tuple[_Source, str], _Past] = {}
        self._attempts: dict[tuple[float, float], int] = {}
        self._last_days: dict[str, _LastDays] = {}

    def account(
        self, budget: Budget, now: float, ended_before: float | None = None
    ) -> LedgerAccount:
        """Spending of a budget in the current window, according to the ledger.

        Args:
            ended_before: Leaves out attempts that ended then or later, not longer than a day ago;
                None for none.

        Raises:
            StoreError: The database is away.
        """
        if (now, ended_before) != self._asked_for:
            self._asked_for, self._read, self._attempts = (now, ended_before), {}, {}
        key = (_source(budget), budget.scope, budget.window)
        if key not in self._read:
            self._read[key] = self._from_source(*key)
        reading = self._read[key]
        return LedgerAccount(
            {
                whose: _amount_of_unit(budget.unit, spending)
                for whose, spending in reading.by.items()
                if budget.of == whose or (budget.of == EVERY and whose)
            },
            reading.is_whole,
        )

    def last_days(self, budget: Budget, now: float) -> Mapping[str, Sequence[int]]:
        """Amounts of the whole days before today by name, the oldest first.

        Each day is read once, yesterday every hour; {} for what rollups do not know. Of more names
        than are kept these are the ones with the most dollars.

        Raises:
            StoreError: The database is away.
        """
        if _source(budget) != "rollups" or budget.window is Window.HOUR:
            return {}
        days = self._whole_days(budget.scope, now)
        total: dict[str, Spending] = {}
        for day in days:
            total = _sum(total, day)
        return {
            name: [_amount_of_unit(budget.unit, day.get(name, _NOTHING)) for day in days]
            for name in total
            if budget.of in {EVERY, name}
        }

    def _whole_days(self, scope: str, now: float) -> Sequence[dict[str, Spending]]:
        """Spending in each of the last whole days, the oldest first."""
        today = window.window_start(Window.DAY, now)
        past = self._last_days.get(scope)
        if past is None or past.today != today:
            days = [self._day(scope, today - n * _DAY_S) for n in range(PACE_DAYS, 0, -1)]
            past = self._last_days[scope] = _LastDays(today, now, days)
        elif now - past.read_at >= _YESTERDAY_S:
            past.days[-1], past.read_at = self._day(scope, today - _DAY_S), now
        return past.days

    def _day(self, scope: str, start: float) -> dict[str, Spending]:
        return self._spendings.from_rollups(scope, start, start + _DAY_S)

    def _from_source(self, source: _Source, scope: str, kind: Window) -> NamedSpendings:
        now, ended_before = self._asked_for
        start, end = window.window_start(kind, now), window.window_end(kind, now)
        if kind is not Window.MONTH:
            return self._sum_calls(source, scope, (start, end), ended_before)
        yesterday = window.window_start(Window.DAY, now) - _DAY_S
        past = self._past(source, scope, start, max(start, yesterday))
        last = self._sum_calls(source, scope, (past.end, end), ended_before)
        return NamedSpendings(_sum(past.by, last.by), past.is_whole and last.is_whole)

    def _past(self, source: _Source, scope: str, start: float, until: float) -> _Past:
        past = self._pasts.get((source, scope))
        if past is None or past.end > until or not self._is_current(past, start):
            past = self._pasts[source, scope] = _Past(start, start, {})
        # Counted before the days are read: what comes meanwhile makes them be read once more.
        past.attempts += self._count_attempts(past.end, until)
        while past.end < until:
            day = self._sum_calls(source, scope, (past.end, past.end + _DAY_S), None)
            past.by, past.end = _sum(past.by, day.by), past.end + _DAY_S
            past.is_whole &= day.is_whole
        return past

    def _is_current(self, past: _Past, start: float) -> bool:
        """True if it is the past of this window, and the ledger still has the same of its days."""
        return past.start == start and past.attempts == self._count_attempts(start, past.end)

    def _count_attempts(self, start: float, end: float) -> int:
        """Attempts in the ledger from one midnight to another, counted once for all budgets."""
        if start >= end:
            return 0
        if (start, end) not in self._attempts:
            self._attempts[start, end] = self._spendings.attempts_of_days(start, end)
        return self._attempts[start, end]

    def _sum_calls(
        self, source: _Source, scope: str, times: tuple[float, float], ended_before: float | None
    ) -> NamedSpendings:
        if source == "rollups":
            return NamedSpendings(
                self._spendings.from_rollups(scope, *times, ended_before), is_whole=True
            )
        return self._spendings.from_receipts(scope, *times, ended_before)


def _source(budget: Budget) -> _Source:
    is_rolled_up = (
        budget.scope in _ROLLED_UP
        and budget.unit is not BudgetUnit.REQUESTS
        and budget.window is not Window.MINUTE
    )
    return "rollups" if is_rolled_up else "receipts"


def _sum(some: dict[str, Spending], more: dict[str, Spending]) -> dict[str, Spending]:
    """Both together, of as many as are kept, those with the most dollars."""
    total = dict(some)
    for whose, spending in more.items():
        before = total.get(whose, _NOTHING)
        total[whose] = Spending(
            before.nanos + spending.nanos,
            before.tokens + spending.tokens,
            before.requests + spending.requests,
        )
    if len(total) <= MAX_NAMES:
        return total
    return dict(nlargest(MAX_NAMES, total.items(), key=lambda item: item[1].nanos))


def _amount_of_unit(unit: BudgetUnit, spending: Spending) -> int:
    if unit is BudgetUnit.REQUESTS:
        return spending.requests
    return spending.nanos if unit is BudgetUnit.USD else spending.tokens


class LedgerReading(msgspec.Struct, frozen=True):
    """Amounts in the ledger of a budget, by counter; not whole where there are more than these."""

    budget: Budget
    by: Mapping[str, int]
    is_whole: bool


class _Look(msgspec.Struct, frozen=True):
    """Amounts in the ledger at a time, by counter."""

    at: float
    amounts: Mapping[str, int]


class LedgerLooks:
    """The last looks at the ledger."""

    def __init__(self, spendings: Spendings) -> None:
        self._accounts = LedgerAccounts(spendings)
        self._looks: deque[_Look] = deque(maxlen=_MAX_LOOKS)
        self._last: _Look | None = None

    def read(
        self, budgets: Collection[Budget], now: float, ended_before: float | None = None
    ) -> list[LedgerReading]:
        """Reads each budget's amounts from the ledger, or those that ended before; blocks.

        Raises:
            StoreError: The database is away.
        """
        readings = []
        for budget in budgets:
            account = self._accounts.account(budget, now, ended_before)
            by = {
                counter_key(budget, whose, now): min(amount, MAX_AMOUNT)
                for whose, amount in account.by.items()
            }
            readings.append(LedgerReading(budget, by, account.is_whole))
        return readings

    def note(
        self, readings: Sequence[LedgerReading], now: float, *, is_away: bool, is_lacking: bool
    ) -> Mapping[str, int]:
        """Note a look; returns the amounts that the counters surely lack where they have less.

        Those are of the last look of which all is settled by now. Counters that lack something
        have nothing on its way of what was known when they were there last.

        Args:
            is_away: True if the counters do not answer.
            is_lacking: True if they lost what they had.
        """
        candidates = (self._last_settled_look(now), self._last if is_lacking else None)
        look = _Look(now, amounts_of(readings))
        self._looks.append(look)
        if not is_away:
            self._last = look
        newest = max(filter(None, candidates), key=lambda look: look.at, default=None)
        return {} if newest is None else newest.amounts

    def _last_settled_look(self, now: float) -> _Look | None:
        """The last look of which all that the ledger knew is settled by now; None if none is."""
        settled = now - SETTLED_AFTER_S
        while len(self._looks) > 1 and self._looks[1].at <= settled:
            self._looks.popleft()
        if not self._looks or self._looks[0].at > settled:
            return None
        return self._looks[0]


def amounts_of(readings: Sequence[LedgerReading]) -> dict[str, int]:
    """The amounts of all budgets, by counter."""
    return {name: amount for reading in readings for name, amount in reading.by.items()}
