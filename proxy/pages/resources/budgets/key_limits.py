"""Budgets and rate limits that the calls of one key count in, with what is left of each."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

from dashboards.views.key_usage import KeyLimitView
from proxy.pages.viewing import Clock
from proxy.records.call import Key
from proxy.services.budgets.counter_report import levels
from proxy.store.errors import StoreError
from proxy.store.ports import BudgetStore
from slo.budgets.budget import Budget, BudgetIndex, Subject, counter_key
from slo.budgets.counter import CounterLevel
from slo.window import window_end

#: Seconds that the counters have.
_TIMEOUT_S: Final = 1.0
_MAX_LIMITS: Final = 50


@dataclass(eq=False)
class KeyLimitReader:
    """Reads the limits of keys; without counters there are none."""

    _budgets: Callable[[], Sequence[Budget]]
    _counters: BudgetStore | None
    _now: Clock
    _indexed: tuple[Sequence[Budget], BudgetIndex] = field(default=((), BudgetIndex(())))

    async def read(self, key: Key) -> list[KeyLimitView]:
        """The limits of a key, its own first; amounts are unknown while the counters are away."""
        if self._counters is None:
            return []
        now, own = self._now(), Subject(team=key.team_name, key=key.id, feature=key.feature)
        applicable = sorted(
            self._index().applicable(own), key=lambda pair: (pair[0].scope != "key", pair[0].name)
        )[:_MAX_LIMITS]
        names = [counter_key(budget, whose, now) for budget, whose in applicable]
        read = await _read_levels(self._counters, names, now)
        return [
            _limit_view(budget, level, now)
            for (budget, _), level in zip(applicable, read, strict=True)
        ]

    def _index(self) -> BudgetIndex:
        budgets = self._budgets()
        if budgets is not self._indexed[0]:
            self._indexed = (budgets, BudgetIndex(budgets))
        return self._indexed[1]


async def _read_levels(
    counters: BudgetStore, names: list[str], now: float
) -> Sequence[CounterLevel | None]:
    try:
        async with asyncio.timeout(_TIMEOUT_S):
            return await levels(counters, names, now)
    except (StoreError, TimeoutError):
        return [None] * len(names)


def _limit_view(budget: Budget, level: CounterLevel | None, now: float) -> KeyLimitView:
    spent, held = (None, None) if level is None else (level.spent, level.held)
    return KeyLimitView(
        budget=budget.name,
        scope=budget.scope,
        unit=budget.unit,
        window=budget.window,
        limit=budget.limit,
        spent=spent,
        held=held,
        left=None if level is None else max(budget.limit - level.spent - level.held, 0),
        ends=window_end(budget.window, now),
        is_hard=budget.hard,
    )
