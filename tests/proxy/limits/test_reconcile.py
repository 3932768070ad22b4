import asyncio
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry, generate_latest
from sqlalchemy.exc import OperationalError

from proxy.limits.reconcile import Reconciler
from proxy.receipt import Receipt
from proxy.store.inserts import inserter
from proxy.store.store import Store
from slo.budget import Budget, Unit
from slo.reservations import Level
from slo.window import Window
from tests.fakes.limited import NOW, Losable, budget
from tests.fakes.receipts import a_receipt

COUNTER = "b/team/usd/2026-09-21/acme"


class Books:
    """A ledger, counters, and who compares them."""

    def __init__(self, folder: Path, *budgets: Budget) -> None:
        self.store = Store.open(f"sqlite:///{folder}/thriftgate.db", folder / "journal")
        self.team = self.store.teams.create("acme", now=NOW).id
        self.counters = Losable()
        self.now = NOW
        self.reconciler = Reconciler(
            budgets or (budget(),), self.counters, self.store, lambda: self.now
        )

    def keep(self, *costs: int) -> None:
        inserter(self.store._engine)(
            [self.receipt(number, cost) for number, cost in enumerate(costs)]
        )

    def receipt(self, number: int, cost: int) -> Receipt:
        return a_receipt(number, team=self.team, cost_nanos=cost, feature="chat")

    async def level(self, counter: str = COUNTER) -> Level:
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
        assert await books.level() == Level(7, 0)

    asyncio.run(story(made()))


def test_what_is_still_lacking_a_minute_later_is_added_once(made):
    async def story(books: Books) -> None:
        books.keep(1_000_000_000, 500_000_000)
        await books.reconciler.look()
        assert await books.level() == Level(0, 0)
        assert 'thriftgate_budget_drift{budget="b",unit="usd"} 1.5' in books.page()
        books.now += 60
        await books.reconciler.look()
        books.now += 60
        await books.reconciler.look()
        assert await books.level() == Level(1_500_000_000, 0)
        assert 'thriftgate_budget_drift{budget="b",unit="usd"} 0.0' in books.page()

    asyncio.run(story(made()))


def test_what_is_settled_in_between_is_not_added_again(made):
    async def story(books: Books) -> None:
        books.keep(7)
        await books.reconciler.look()
        await books.counters.settle("call_1/0", {COUNTER: 7}, NOW)
        books.now += 60
        await books.reconciler.look()
        assert await books.level() == Level(7, 0)

    asyncio.run(story(made()))


def test_nothing_is_ever_taken_off(made):
    async def story(books: Books) -> None:
        await books.counters.settle("call_1/0", {COUNTER: 70}, NOW)
        books.keep(7)
        for _ in range(3):
            await books.reconciler.look()
            books.now += 60
        assert await books.level() == Level(70, 0)
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
def test_every_scope_that_rollups_know_is_compared(made, fields: dict[str, Any], counter: str):
    async def story(books: Books) -> None:
        books.keep(7)
        await books.reconciler.begin()
        assert await books.level(counter) == Level(7, 0)

    asyncio.run(story(made(budget(**fields))))


def test_tokens_are_compared_too(made):
    async def story(books: Books) -> None:
        books.keep(7)
        usage = books.receipt(0, 7).usage
        assert usage is not None
        await books.reconciler.begin()
        assert await books.level("b/team/tokens/2026-09-21/acme") == Level(
            usage.prompt + usage.generated, 0
        )

    asyncio.run(story(made(budget(unit=Unit.TOKENS))))


@pytest.mark.parametrize(
    "fields", [{"unit": Unit.REQUESTS}, {"window": Window.MINUTE}, {"scope": "user"}]
)
def test_what_rollups_do_not_know_is_left_alone(made, fields):
    async def story(books: Books) -> None:
        books.keep(7)
        await books.reconciler.begin()
        assert not books.reconciler.drifts

    asyncio.run(story(made(budget(**fields))))


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
