import asyncio
from itertools import pairwise
from typing import Any

import pytest
from msgspec.structs import replace

from proxy.services.budgets.budget_metrics import BudgetLevel
from proxy.services.budgets.counter_report import levels
from proxy.store.errors import StoreError
from proxy.store.ports import CountersCondition
from proxy.store.redis.budget_scripts import MARKED
from proxy.store.sql.ids import id_floor
from proxy.store.sql.ledger.inserts import inserter
from slo.budgets.budget import BudgetUnit
from slo.budgets.counter import CounterLevel
from slo.window import Window
from tests.fakes.admission_harness import NOW, budget
from tests.fakes.receipts import a_receipt
from tests.fakes.reconciliation_harness import (
    COUNTER,
    ForgetfulBudgetStore,
)

#: Seconds after which the ledger knows whatever was spent before.
SETTLED_AFTER_S = 12.0


async def test_counters_that_begin_at_nothing_are_given_what_the_ledger_knows(harness):
    harness.keep(3, 4)
    await harness.reconciler.begin()
    assert await harness.level() == CounterLevel(7, 0)


@pytest.mark.parametrize("is_shared", [False, True])
async def test_counters_not_begun_yet_are_whole_after_the_first_look(harness, is_shared):
    harness.counters.is_shared = is_shared
    harness.keep(3, 4)
    assert not await harness.counters.passes("before")
    await harness.reconciler.begin()
    assert await harness.level() == CounterLevel(7, 0)
    assert await harness.counters.passes("after")


@pytest.mark.instant_time
async def test_a_process_that_begins_while_others_repair_does_not_call_the_counters_whole(
    harness,
):
    harness.counters.is_shared = True
    harness.follow_loop_time()
    harness.keep(7)
    await harness.counters.change_condition(
        CountersCondition.EMPTY, CountersCondition.REPAIRING, NOW
    )
    await harness.reconciler.begin()
    assert not await harness.counters.passes("begun")

    harness.run()
    await asyncio.sleep(SETTLED_AFTER_S)
    assert not await harness.counters.passes("soon")
    await asyncio.sleep(1)
    assert await harness.counters.passes("where nobody else did")
    assert await harness.level() == CounterLevel(7, 0)


@pytest.mark.instant_time
async def test_counters_that_are_lost_again_while_they_are_repaired_are_repaired_anew(harness):
    harness.keep(7)
    await harness.start(is_shared=True)
    for wait in (20, SETTLED_AFTER_S - 2):
        await asyncio.sleep(wait)
        harness.counters.forget()
    await asyncio.sleep(SETTLED_AFTER_S - 1)
    assert not await harness.counters.passes("soon")
    await asyncio.sleep(2)
    assert await harness.counters.passes("then")
    assert await harness.level() == CounterLevel(7, 0)


@pytest.mark.instant_time
@pytest.mark.parametrize("is_shared", [False, True])
async def test_counters_are_not_whole_before_the_ledger_knows_all_and_are_soon_after(
    harness, is_shared
):
    harness.counters.is_shared = is_shared
    harness.follow_loop_time()
    knows = False

    def flush(timeout: float) -> bool:
        assert timeout > 0
        return knows

    harness.store.drain.flush = flush
    await harness.reconciler.begin()
    harness.run()
    await asyncio.sleep(100)
    assert not await harness.counters.passes("before")
    knows = True
    harness.keep(7)
    await asyncio.sleep(1.5)
    assert await harness.counters.passes("after")
    assert await harness.level() == CounterLevel(7, 0)


@pytest.mark.instant_time
async def test_whole_mark_of_counters_is_renewed_in_time_even_while_the_ledger_hangs(harness):
    turns: list[float] = []

    async def turn(before: CountersCondition, after: CountersCondition, now: float) -> bool:
        turns.append(now)
        return await ForgetfulBudgetStore.change_condition(harness.counters, before, after, now)

    await harness.start(is_shared=True)
    harness.counters.change_condition = turn

    async def ask(*_: object) -> None:
        await asyncio.Event().wait()

    harness.store.ask = ask
    await asyncio.sleep(200)
    assert len(turns) > 200 / MARKED
    assert max(after - before for before, after in pairwise(turns)) < MARKED / 3


async def test_spending_still_missing_a_minute_later_is_added_once(harness):
    harness.keep(1_000_000_000, 500_000_000)
    await harness.reconciler.compare()
    assert await harness.level() == CounterLevel(0, 0)
    assert 'thriftgate_budget_drift{budget="b",unit="usd"} 1.5' in harness.page()
    harness.now += 60
    await harness.reconciler.compare()
    harness.now += 60
    await harness.reconciler.compare()
    assert await harness.level() == CounterLevel(1_500_000_000, 0)
    assert 'thriftgate_budget_drift{budget="b",unit="usd"} 0.0' in harness.page()


async def test_spending_settled_in_between_is_not_added_again(harness):
    harness.keep(7)
    await harness.reconciler.compare()
    await harness.counters.settle("call_1/0", {COUNTER: 7}, NOW)
    harness.now += 60
    await harness.reconciler.compare()
    assert await harness.level() == CounterLevel(7, 0)


async def test_reconciliation_never_lowers_a_counter(harness):
    await harness.counters.settle("call_1/0", {COUNTER: 70}, NOW)
    harness.keep(7)
    for _ in range(3):
        await harness.reconciler.compare()
        harness.now += 60
    assert await harness.level() == CounterLevel(70, 0)
    assert '"} -6.3e-08' in harness.page()


@pytest.mark.parametrize(
    ("fields", "counter"),
    [
        ({"scope": "organization"}, "b/organization/usd/2026-09-21/*"),
        ({"scope": "key", "of": "key_0"}, "b/key/usd/2026-09-21/key_0"),
        ({"scope": "feature"}, "b/feature/usd/2026-09-21/chat"),
        ({"window": Window.MONTH}, "b/team/usd/2026-09/acme"),
        ({"window": Window.HOUR}, "b/team/usd/2026-09-21T14/acme"),
    ],
)
async def test_every_scope_that_rollups_know_is_compared_with_them(
    make_harness, fields: dict[str, Any], counter: str
):
    harness = make_harness(budget(**fields))
    harness.keep(7)
    await harness.reconciler.begin()
    assert await harness.level(counter) == CounterLevel(7, 0)


async def test_tokens_are_compared_too(make_harness):
    harness = make_harness(budget(unit=BudgetUnit.TOKENS))
    harness.keep(7)
    usage = harness.receipt(0, 7).usage
    assert usage is not None
    await harness.reconciler.begin()
    assert await harness.level("b/team/tokens/2026-09-21/acme") == CounterLevel(
        usage.prompt_tokens + usage.generated_tokens, 0
    )


@pytest.mark.parametrize(
    ("fields", "counter", "amount"),
    [
        ({"unit": BudgetUnit.REQUESTS}, "b/team/requests/2026-09-21/acme", 2),
        (
            {"unit": BudgetUnit.REQUESTS, "window": Window.HOUR},
            "b/team/requests/2026-09-21T14/acme",
            2,
        ),
        ({"window": Window.MINUTE}, "b/team/usd/2026-09-21T14:13/acme", 7),
        ({"scope": "user"}, f"b/user/usd/2026-09-21/{'5f' * 16}", 7),
        ({"scope": "user", "of": "5f" * 16}, f"b/user/usd/2026-09-21/{'5f' * 16}", 7),
    ],
)
async def test_counters_known_only_from_receipts_are_compared_with_them(
    make_harness, fields, counter, amount
):
    harness = make_harness(budget(**fields))
    harness.keep(3, 4)
    await harness.reconciler.begin()
    assert await harness.level(counter) == CounterLevel(amount, 0)


async def test_counters_that_the_ledger_does_not_hold_are_left_alone(make_harness):
    harness = make_harness(budget(scope="label:project"))
    harness.keep(7)
    await harness.reconciler.begin()
    assert not harness.reconciler.levels


async def test_a_ledger_that_holds_more_than_is_read_fills_counters_and_reports_no_drift(
    make_harness,
):
    harness = make_harness(budget(scope="user"))
    harness.keep(3, 4, 5)
    harness.store.spendings._most_calls = 2
    await harness.reconciler.begin()
    assert await harness.level("b/user/usd/2026-09-21/" + "5f" * 16) == CounterLevel(7, 0)
    assert not harness.reconciler.levels


async def test_of_many_counters_each_is_given_its_own(make_harness):
    harness = make_harness(budget(scope="feature"))
    inserter(harness.store._engine)(
        [a_receipt(n, team=harness.team, cost_nanos=n, feature=f"f{n}") for n in range(250)]
    )
    await harness.reconciler.begin()
    names = [f"b/feature/usd/2026-09-21/f{n}" for n in range(250)]
    counter_levels = await levels(harness.counters, names, NOW)
    assert [level.spent for level in counter_levels] == list(range(250))


@pytest.mark.instant_time
async def test_local_counters_are_compared_every_minute_and_not_in_between(harness):
    await harness.start()
    await asyncio.sleep(SETTLED_AFTER_S + 1)
    harness.counters.is_lost = True
    await asyncio.sleep(58)
    harness.counters.is_lost = False
    harness.keep(7)
    await asyncio.sleep(3)
    assert harness.reconciler.levels == {budget(): BudgetLevel(drift=7, spent=7, fullest=7)}


@pytest.mark.instant_time
@pytest.mark.parametrize(
    ("fields", "counter", "before", "after"),
    [
        ({}, "b/team/usd/2026-09/acme", 7, 7 + 30),
        ({"scope": "feature"}, "b/feature/usd/2026-09/chat", 7, 7 + 30),
        ({"unit": BudgetUnit.REQUESTS}, "b/team/requests/2026-09/acme", 2, 2 + 3),
        ({"scope": "user"}, f"b/user/usd/2026-09/{'5f' * 16}", 7, 7 + 30),
    ],
)
async def test_month_counter_equals_the_ledger_after_receipts_of_past_days_are_booked(
    make_harness, fields, counter, before, after
):
    harness = make_harness(budget(window=Window.MONTH, **fields))
    harness.keep(3, 4)
    await harness.start()
    assert await harness.level(counter) == CounterLevel(before, 0)
    days_ago = [NOW - days * 86_400 for days in (3, 9, 19)]
    old = [
        replace(harness.receipt(0, 10), call_id=id_floor(moment), started=moment)
        for moment in days_ago
    ]
    assert harness.store.book(old) == len(old)
    await asyncio.sleep(3 * 60)
    assert await harness.level(counter) == CounterLevel(after, 0)
    assert [level.spent for level in harness.reconciler.levels.values()] == [after]


async def test_without_ledger_or_counters_it_says_so_and_goes_on(harness, caplog):
    harness.keep(7)
    harness.counters.is_lost = True
    await harness.reconciler.begin()

    async def ask(*_: object) -> None:
        raise StoreError("away")

    harness.store.ask = ask
    await harness.reconciler.begin()
    assert [record.getMessage().partition(":")[0] for record in caplog.records] == [
        "Budgets were not compared with the ledger"
    ] * 2


@pytest.mark.instant_time
async def test_counters_are_compared_once_a_minute_and_their_mark_is_renewed_every_five_seconds(
    harness,
):
    harness.follow_loop_time()
    await harness.reconciler.begin()
    comparisons, renewals = 0, 0
    ask, change_condition = harness.store.ask, harness.counters.change_condition

    async def count_ask(*args: Any) -> Any:
        nonlocal comparisons
        comparisons += 1
        return await ask(*args)

    async def count_change(*args: Any) -> Any:
        nonlocal renewals
        renewals += 1
        return await change_condition(*args)

    harness.store.ask, harness.counters.change_condition = count_ask, count_change
    harness.run()
    await asyncio.sleep(SETTLED_AFTER_S + 10 * 60 + 1)

    assert comparisons == 11
    assert renewals == 122
