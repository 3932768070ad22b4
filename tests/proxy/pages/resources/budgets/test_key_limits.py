"""Limits of a key: which hold for it, what is left, and counters that are away."""

import asyncio
from typing import NoReturn, cast

from dashboards.views.key_usage import KeyLimitView
from proxy.pages.resources.budgets.key_limits import KeyLimitReader
from proxy.records.call import Key
from proxy.store.errors import StoreError
from proxy.store.ports import BudgetStore
from proxy.store.redis.local_budget_store import LocalBudgetStore
from slo.budgets.budget import Budget, BudgetUnit, counter_key
from slo.window import Window, window_end
from tests.fakes.board import NOW

KEY = Key(id="key_1", team="team_1", team_name="acme", feature="chat")


def a_budget(name: str, scope: str, of: str = "*", **fields: object) -> Budget:
    values = {"unit": BudgetUnit.USD, "window": Window.DAY, "limit": 10**10, **fields}
    return Budget(name=name, scope=scope, of=of, **values)  # type: ignore[arg-type]


BUDGETS = (
    a_budget("all", "organization"),
    a_budget("own", "key", "key_1"),
    a_budget("other", "key", "key_2"),
    a_budget("team", "team", "acme", unit=BudgetUnit.TOKENS, window=Window.MINUTE, limit=1_000),
    a_budget("other-team", "team", "other"),
    a_budget("chats", "feature", "chat"),
    a_budget("users", "user"),
)


class AwayCounters:
    """Counters that are out of reach."""

    async def levels(self, *_: object) -> NoReturn:
        raise StoreError("away")


def read(counters: BudgetStore | None, key: Key = KEY) -> list[KeyLimitView]:
    return asyncio.run(KeyLimitReader(lambda: BUDGETS, counters, lambda: NOW).read(key))


async def spend(counters: LocalBudgetStore, name: str, amount: int) -> None:
    budget = next(one for one in BUDGETS if one.name == name)
    counter = counter_key(budget, "key_1" if budget.scope == "key" else "acme", NOW)
    await counters.settle(f"settled {name}", {counter: amount}, NOW)


def test_a_key_has_its_own_limits_first_and_those_of_no_other() -> None:
    assert [limit.budget for limit in read(LocalBudgetStore())] == ["own", "all", "chats", "team"]
    of_any = Key(id="key_2", team="team_2", team_name="third")
    assert [limit.budget for limit in read(LocalBudgetStore(), of_any)] == ["other", "all"]


def test_a_limit_says_what_is_left_and_when_it_starts_anew() -> None:
    counters = LocalBudgetStore()
    asyncio.run(spend(counters, "own", 4 * 10**9))
    asyncio.run(spend(counters, "team", 5_000))

    own, *_, team = read(counters)

    assert (own.spent, own.left, own.ends) == (4 * 10**9, 6 * 10**9, window_end(Window.DAY, NOW))
    assert (team.unit, team.window, team.left) == ("tokens", "minute", 0)


def test_amounts_are_unknown_while_the_counters_are_away() -> None:
    limits = read(cast("BudgetStore", AwayCounters()))

    assert [(limit.spent, limit.left) for limit in limits] == [(None, None)] * 4
    assert [limit.limit for limit in limits] == [10**10, 10**10, 10**10, 1_000]


def test_without_counters_nothing_is_limited() -> None:
    assert read(None) == []
