import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec
import pytest
from prometheus_client import CollectorRegistry, generate_latest
from sqlalchemy.exc import OperationalError

from proxy.records.receipt import Receipt
from proxy.services.budgets.counter_report import levels
from proxy.services.budgets.reconciliation import SETTLED_AFTER_S, Reconciler
from proxy.store.redis.budget_scripts import MARKED
from proxy.store.redis.local_budget_store import CountersCondition, StoreUnavailable
from proxy.store.sql.inserts import inserter
from proxy.store.sql.spendings import ended_at
from proxy.store.store import Store
from slo.budget import Budget, BudgetUnit
from slo.reservations import CounterClaim, CounterLevel
from slo.window import Window
from tests.fakes.admission_harness import NOW, LosableBudgetStore, budget
from tests.fakes.clock import played, ticks
from tests.fakes.databases import migrated_sqlite
from tests.fakes.receipts import a_receipt

COUNTER = "b/team/usd/2026-09-21/acme"


class Away(LosableBudgetStore):
    """Counters of all processes, which can be away, and forget everything.

    Attributes:
        is_shared: Whether they say that they are.
    """

    def __init__(self) -> None:
        super().__init__()
        self.is_shared = False

    async def levels(self, counters: Sequence[str], now: float) -> list[CounterLevel]:
        await self._found()
        return await super().levels(counters, now)

    async def raise_spent(self, amounts: Mapping[str, int], now: float) -> list[int]:
        await self._found()
        return await super().raise_spent(amounts, now)

    async def begin_checkpoint(self, now: float, within: float) -> int:
        await self._found()
        return await super().begin_checkpoint(now, within)

    async def restore(self, amounts: Mapping[str, int], checkpoint: int, now: float) -> list[int]:
        await self._found()
        return await super().restore(amounts, checkpoint, now)

    async def condition(self, now: float) -> CountersCondition:
        if self.is_shared:
            await self._found()
        return await super().condition(now)

    async def turn(self, before: CountersCondition, after: CountersCondition, now: float) -> bool:
        if self.is_shared:
            await self._found()
        return await super().change_condition(before, after, now)

    def unseen(self, counter: str) -> int:
        """What was spent, though they are away."""
        return self._reservations.levels([counter], 0.0)[0].spent

    async def passes(self, name: str) -> bool:
        """True if they are whole, to a reservation that asks for it."""
        claim = CounterClaim("passing", 0, 1, hard=True, ends=NOW)
        return await self.reserve(name, [claim], NOW, NOW, only_whole=True) is not None


class Books:
    """A ledger, counters, and who compares them."""

    def __init__(self, folder: Path, *budgets: Budget) -> None:
        self.store = Store.open(migrated_sqlite(folder / "thriftgate.db"), folder / "journal")
        self.team = self.store.teams.create("acme", now=NOW).id
        self.counters = Away()
        self.now = NOW
        self.reconciler = Reconciler(
            budgets or (budget(),), self.counters, self.store, lambda: self.now
        )

    def passing(self) -> None:
        """Let its time be the running loop's from now on."""
        began, loop = self.now - ticks(), asyncio.get_running_loop()
        self.reconciler._now = lambda: began + loop.time()
        self.store.ask = self._ask  # type: ignore[assignment,method-assign]

    async def _ask(self, question: Callable[..., Any], *args: Any) -> Any:
        return question(*args)

    def keep(self, *costs: int) -> None:
        inserter(self.store._engine)(
            [self.receipt(number, cost) for number, cost in enumerate(costs)]
        )

    def receipt(self, number: int, cost: int) -> Receipt:
        """The receipt of an attempt that ended so many seconds after a few before the beginning."""
        fields = {"team": self.team, "cost_nanos": cost, "feature": "chat"}
        return a_receipt(number, started=NOW + number - 10, **fields)

    async def level(self, counter: str = COUNTER) -> CounterLevel:
        (found,) = await self.counters.levels([counter], self.now)
        return found

    def page(self) -> str:
        registry = CollectorRegistry()
        registry.register(self.reconciler)
        return generate_latest(registry).decode()


@pytest.fixture
def made(tmp_path, request):
    books: list[Books] = []

    def make(*budgets: Budget) -> Books:
        books.append(Books(tmp_path, *budgets))
        return books[0]

    yield make
    for each in books:
        each.store.close(5)


def test_counters_that_begin_at_nothing_are_given_what_the_ledger_knows(made):
    async def story(books: Books) -> None:
        books.keep(3, 4)
        await books.reconciler.begin()
        assert await books.level() == CounterLevel(7, 0)

    asyncio.run(story(made()))


@pytest.mark.parametrize("is_shared", [False, True])
def test_counters_that_nobody_began_yet_are_whole_after_the_first_look(made, is_shared):
    async def story(books: Books) -> None:
        books.counters.is_shared = is_shared
        books.keep(3, 4)
        assert not await books.counters.passes("before")
        await books.reconciler.begin()
        assert await books.level() == CounterLevel(7, 0)
        assert await books.counters.passes("after")

    asyncio.run(story(made()))


def test_a_process_that_begins_while_others_repair_does_not_call_the_counters_whole(made):
    async def story(books: Books) -> None:
        books.counters.is_shared = True
        books.passing()
        books.keep(7)
        await books.counters.change_condition(
            CountersCondition.EMPTY, CountersCondition.REPAIRING, NOW
        )
        await books.reconciler.begin()
        assert not await books.counters.passes("begun")

        running = asyncio.ensure_future(books.reconciler.run())
        await asyncio.sleep(SETTLED_AFTER_S)
        assert not await books.counters.passes("soon")
        await asyncio.sleep(1)
        assert await books.counters.passes("where nobody else did")
        assert await books.level() == CounterLevel(7, 0)
        running.cancel()

    played(story(made()))


def test_counters_that_are_lost_again_while_they_are_repaired_are_repaired_anew(made):
    async def story(books: Books) -> None:
        books.counters.is_shared = True
        books.passing()
        books.keep(7)
        await books.reconciler.begin()
        running = asyncio.ensure_future(books.reconciler.run())
        for wait in (20, SETTLED_AFTER_S - 2):
            await asyncio.sleep(wait)
            books.counters.forget()
        await asyncio.sleep(SETTLED_AFTER_S - 1)
        assert not await books.counters.passes("soon")
        await asyncio.sleep(2)
        assert await books.counters.passes("then")
        assert await books.level() == CounterLevel(7, 0)
        running.cancel()

    played(story(made()))


@pytest.mark.parametrize("is_shared", [False, True])
def test_counters_are_not_whole_before_the_ledger_knows_all_and_are_soon_after(made, is_shared):
    async def story(books: Books) -> None:
        books.counters.is_shared = is_shared
        books.passing()
        knows = False

        def flush(timeout: float) -> bool:
            assert timeout > 0
            return knows

        books.store.drain.flush = flush  # type: ignore[method-assign]
        await books.reconciler.begin()
        running = asyncio.ensure_future(books.reconciler.run())
        await asyncio.sleep(100)
        assert not await books.counters.passes("before")
        knows = True
        books.keep(7)
        await asyncio.sleep(1.5)
        assert await books.counters.passes("after")
        assert await books.level() == CounterLevel(7, 0)
        running.cancel()

    played(story(made()))


def test_that_counters_are_whole_is_said_again_in_time_also_while_the_ledger_hangs(made):
    async def story(books: Books) -> None:
        turns: list[float] = []

        async def turn(before: CountersCondition, after: CountersCondition, now: float) -> bool:
            turns.append(now)
            return await Away.change_condition(books.counters, before, after, now)

        books.counters.is_shared = True
        books.passing()
        await books.reconciler.begin()
        running = asyncio.ensure_future(books.reconciler.run())
        books.counters.change_condition = turn  # type: ignore[method-assign]

        async def ask(*_: object) -> None:
            await asyncio.Event().wait()

        books.store.ask = ask  # type: ignore[assignment,method-assign]
        await asyncio.sleep(200)
        assert len(turns) > 200 / MARKED
        assert max(after - before for before, after in pairwise(turns)) < MARKED / 3
        running.cancel()

    played(story(made()))


def test_what_is_still_lacking_a_minute_later_is_added_once(made):
    async def story(books: Books) -> None:
        books.keep(1_000_000_000, 500_000_000)
        await books.reconciler.compare()
        assert await books.level() == CounterLevel(0, 0)
        assert 'thriftgate_budget_drift{budget="b",unit="usd"} 1.5' in books.page()
        books.now += 60
        await books.reconciler.compare()
        books.now += 60
        await books.reconciler.compare()
        assert await books.level() == CounterLevel(1_500_000_000, 0)
        assert 'thriftgate_budget_drift{budget="b",unit="usd"} 0.0' in books.page()

    asyncio.run(story(made()))


def test_what_is_settled_in_between_is_not_added_again(made):
    async def story(books: Books) -> None:
        books.keep(7)
        await books.reconciler.compare()
        await books.counters.settle("call_1/0", {COUNTER: 7}, NOW)
        books.now += 60
        await books.reconciler.compare()
        assert await books.level() == CounterLevel(7, 0)

    asyncio.run(story(made()))


def test_nothing_is_ever_taken_off(made):
    async def story(books: Books) -> None:
        await books.counters.settle("call_1/0", {COUNTER: 70}, NOW)
        books.keep(7)
        for _ in range(3):
            await books.reconciler.compare()
            books.now += 60
        assert await books.level() == CounterLevel(70, 0)
        assert '"} -6.3e-08' in books.page()

    asyncio.run(story(made()))


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
def test_every_scope_that_rollups_know_is_compared_with_them(
    made, fields: dict[str, Any], counter: str
):
    async def story(books: Books) -> None:
        books.keep(7)
        await books.reconciler.begin()
        assert await books.level(counter) == CounterLevel(7, 0)

    asyncio.run(story(made(budget(**fields))))


def test_tokens_are_compared_too(made):
    async def story(books: Books) -> None:
        books.keep(7)
        usage = books.receipt(0, 7).usage
        assert usage is not None
        await books.reconciler.begin()
        assert await books.level("b/team/tokens/2026-09-21/acme") == CounterLevel(
            usage.prompt_tokens + usage.generated_tokens, 0
        )

    asyncio.run(story(made(budget(unit=BudgetUnit.TOKENS))))


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
def test_what_only_receipts_know_is_compared_with_them(made, fields, counter, amount):
    async def story(books: Books) -> None:
        books.keep(3, 4)
        await books.reconciler.begin()
        assert await books.level(counter) == CounterLevel(amount, 0)

    asyncio.run(story(made(budget(**fields))))


def test_what_nobody_wrote_down_is_left_alone(made):
    async def story(books: Books) -> None:
        books.keep(7)
        await books.reconciler.begin()
        assert not books.reconciler.drifts

    asyncio.run(story(made(budget(scope="label:project"))))


def test_a_ledger_that_holds_more_than_is_read_fills_counters_and_reports_no_drift(
    made,
):
    async def story(books: Books) -> None:
        books.keep(3, 4, 5)
        books.store.spendings._most_calls = 2
        await books.reconciler.begin()
        assert await books.level("b/user/usd/2026-09-21/" + "5f" * 16) == CounterLevel(7, 0)
        assert not books.reconciler.drifts

    asyncio.run(story(made(budget(scope="user"))))


def test_of_many_counters_each_is_given_its_own(made):
    async def story(books: Books) -> None:
        inserter(books.store._engine)(
            [a_receipt(n, team=books.team, cost_nanos=n, feature=f"f{n}") for n in range(250)]
        )
        await books.reconciler.begin()
        names = [f"b/feature/usd/2026-09-21/f{n}" for n in range(250)]
        said = await levels(books.counters, names, NOW)
        assert [level.spent for level in said] == list(range(250))

    asyncio.run(story(made(budget(scope="feature"))))


def test_counters_that_were_lost_are_given_what_is_sure_at_once_and_the_rest_soon(made):
    async def story(books: Books) -> None:
        books.counters.is_shared = True
        books.passing()
        books.keep(7)
        await books.reconciler.begin()
        running = asyncio.ensure_future(books.reconciler.run())
        await asyncio.sleep(20)
        assert await books.level() == CounterLevel(7, 0)

        assert await books.counters.passes("before")
        books.counters.forget()
        assert not await books.counters.passes("at once")
        inserter(books.store._engine)([books.receipt(25, 5)])
        await asyncio.sleep(1.5)
        assert await books.level() == CounterLevel(7, 0)
        await asyncio.sleep(SETTLED_AFTER_S - 2)
        assert not await books.counters.passes("soon")
        await asyncio.sleep(2)
        assert await books.counters.passes("then")
        assert await books.level() == CounterLevel(12, 0)
        running.cancel()

    played(story(made()))


def test_counters_that_are_back_and_empty_are_given_at_once_what_was_known_when_they_went(made):
    async def story(books: Books) -> None:
        books.counters.is_shared = True
        books.passing()
        await books.reconciler.begin()
        running = asyncio.ensure_future(books.reconciler.run())
        await asyncio.sleep(40)
        await books.counters.settle("call_1/0", {COUNTER: 7}, NOW)
        books.keep(7)
        books.counters.is_lost = True
        await asyncio.sleep(3)
        inserter(books.store._engine)([books.receipt(25, 5)])
        books.counters.forget()
        books.counters.is_lost = False
        await asyncio.sleep(1.5)
        assert await books.level() == CounterLevel(7, 0)
        await books.counters.settle("call_50/0", {COUNTER: 5}, NOW)
        await asyncio.sleep(4 * SETTLED_AFTER_S)
        assert await books.level() == CounterLevel(12, 0)
        running.cancel()

    played(story(made()))


async def called(books: Books, number: int, heard: float, settles: float) -> None:
    """A call of 10 ends; the ledger hears of it, and the counter, so much later."""
    now = books.reconciler._now
    ended = round(now(), 6)
    receipt = msgspec.structs.replace(books.receipt(number, 10), started=ended - 1.5)

    async def settle() -> None:
        await asyncio.sleep(settles)
        with suppress(StoreUnavailable):
            await books.counters.settle(f"call_{number}/0", {COUNTER: 10}, now(), ended_at(receipt))

    async with asyncio.TaskGroup() as both:
        both.create_task(settle())
        await asyncio.sleep(heard)
        inserter(books.store._engine)([receipt])


@pytest.mark.parametrize("heard", [0.3, 3.0])
@pytest.mark.parametrize("settles", [0.1, 4.0])
@pytest.mark.parametrize("loss", ["emptied", "away"])
def test_under_load_a_lost_counter_ends_exactly_where_the_ledger_is(made, heard, settles, loss):
    """Four calls a second."""

    async def story(books: Books) -> None:
        books.counters.is_shared = True
        books.passing()
        await books.reconciler.begin()
        running = asyncio.ensure_future(books.reconciler.run())
        async with asyncio.TaskGroup() as calls:
            for number in range(440):
                calls.create_task(called(books, number, heard, settles))
                await asyncio.sleep(0.25)
                if number == 160 and loss == "emptied":
                    books.counters.forget()
                books.counters.is_lost = loss == "away" and 160 < number < 190
        assert await books.counters.passes("then")
        assert books.counters.unseen(COUNTER) == 4400
        await asyncio.sleep(120)
        assert books.counters.unseen(COUNTER) == 4400
        running.cancel()

    played(story(made()))


def test_a_checkpoint_that_could_not_be_begun_is_begun_later(made):
    async def story(books: Books) -> None:
        books.counters.is_shared = True
        books.passing()
        await books.reconciler.begin()
        running = asyncio.ensure_future(books.reconciler.run())
        await asyncio.sleep(30)
        books.counters.is_lost = True
        await asyncio.sleep(10)
        begin = books.counters.begin_checkpoint

        async def begin_later(now: float, within: float) -> int:
            books.counters.begin_checkpoint = begin  # type: ignore[method-assign]
            raise StoreUnavailable("once more")

        books.counters.begin_checkpoint = begin_later  # type: ignore[method-assign]
        books.counters.is_lost = False
        await asyncio.sleep(1)
        books.keep(7)
        await asyncio.sleep(SETTLED_AFTER_S + 2)
        assert books.counters.unseen(COUNTER) == 7
        running.cancel()

    played(story(made()))


def test_counters_that_are_out_of_reach_for_a_moment_are_made_whole_no_later(made):
    async def story(books: Books) -> None:
        books.counters.is_shared = True
        books.passing()
        await books.reconciler.begin()
        running = asyncio.ensure_future(books.reconciler.run())
        await asyncio.sleep(30)
        books.counters.forget()
        for _ in range(3):
            await asyncio.sleep(3)
            books.counters.is_lost = True
            await asyncio.sleep(0.8)
            books.counters.is_lost = False
        await asyncio.sleep(SETTLED_AFTER_S - 3 * 3.8 + 1.5)
        assert await books.counters.passes("then")
        running.cancel()

    played(story(made()))


def test_what_is_on_its_way_to_counters_that_are_back_is_not_counted_twice(made):
    async def story(books: Books) -> None:
        books.counters.is_shared = True
        books.passing()
        await books.reconciler.begin()
        running = asyncio.ensure_future(books.reconciler.run())
        await asyncio.sleep(20)
        books.keep(7)
        books.counters.forget()
        await asyncio.sleep(SETTLED_AFTER_S - 2)
        await books.counters.settle("call_1/0", {COUNTER: 7}, NOW)
        await asyncio.sleep(4 * SETTLED_AFTER_S)
        assert books.counters.unseen(COUNTER) == 7
        running.cancel()

    played(story(made()))


def test_what_was_spent_while_counters_were_away_is_added_when_they_are_back(made):
    async def story(books: Books) -> None:
        books.counters.is_shared = True
        books.passing()
        await books.reconciler.begin()
        running = asyncio.ensure_future(books.reconciler.run())
        await asyncio.sleep(100)
        books.counters.is_lost = True
        books.keep(7)
        await asyncio.sleep(40)
        assert books.counters.unseen(COUNTER) == 0
        books.counters.is_lost = False
        await asyncio.sleep(1.5)
        assert await books.level() == CounterLevel(7, 0)
        running.cancel()

    played(story(made()))


def test_what_this_process_counts_alone_is_compared_every_minute_and_nothing_asked_between(made):
    async def story(books: Books) -> None:
        books.passing()
        await books.reconciler.begin()
        running = asyncio.ensure_future(books.reconciler.run())
        await asyncio.sleep(SETTLED_AFTER_S + 1)
        books.counters.is_lost = True
        await asyncio.sleep(58)
        books.counters.is_lost = False
        books.keep(7)
        await asyncio.sleep(3)
        assert books.reconciler.drifts == {budget(): 7}
        running.cancel()

    played(story(made()))


def test_without_ledger_or_counters_it_says_so_and_goes_on(made, caplog):
    async def story(books: Books) -> None:
        books.keep(7)
        books.counters.is_lost = True
        await books.reconciler.begin()

        async def ask(*_: object) -> None:
            raise OperationalError("SELECT", {}, OSError("away"))

        books.store.ask = ask  # type: ignore[assignment,method-assign]
        await books.reconciler.begin()

    asyncio.run(story(made()))
    assert [record.getMessage().partition(":")[0] for record in caplog.records] == [
        "Budgets were not compared with the ledger"
    ] * 2
