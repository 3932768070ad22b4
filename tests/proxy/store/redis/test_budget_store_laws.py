"""Counters of any store agree with a naive account, whatever happens."""

import asyncio
from collections.abc import Callable
from secrets import token_hex
from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from proxy.store.ports import BudgetStore, CountersCondition
from proxy.store.redis.budget_store import RedisBudgetStore
from proxy.store.redis.local_budget_store import LocalBudgetStore
from slo.budgets.counter import CounterClaim
from slo.budgets.reservations import Reservations
from tests.examples import examples
from tests.fakes.redis_keys import SERVER
from tests.fakes.reservation_model import ReservationModel

NOW = 1_000_000.0

Make = Callable[[], BudgetStore]


@pytest.fixture(params=["private", "redis"])
def make(request: pytest.FixtureRequest) -> Make:
    """Makes a store nobody has used yet, of each kind in turn."""
    if request.param == "private":
        return LocalBudgetStore
    prefix: str = request.getfixturevalue("redis_prefix")
    return lambda: RedisBudgetStore(
        SERVER, token_hex(4), prefix=prefix, deadline=30.0, trusts_callers=True
    )


COUNTERS = ("organization", "team", "user")

LIMITS = {"organization": 100, "team": 70, "user": 40}

NAMES = st.sampled_from([f"call-{number}" for number in range(8)])

AMOUNTS = st.dictionaries(st.sampled_from(COUNTERS), st.integers(0, 60), min_size=1)

CONDITIONS = st.sampled_from(list(CountersCondition))


async def empty(store: BudgetStore) -> None:
    """Let a store lose everything, as it does when it starts again."""
    if isinstance(store, RedisBudgetStore):
        names = [f"{part}:{counter}" for part in ("counter", "holds") for counter in COUNTERS]
        await store._redis.delete(*(f"{store._keys}{name}" for name in (*names, "settled", "mark")))
    else:
        assert isinstance(store, LocalBudgetStore)
        store._reservations, store._condition = Reservations(), CountersCondition.EMPTY


class LifeOfCounters(RuleBasedStateMachine):
    """Calls reserve, settle late or never, say things twice, and die; a naive account agrees.

    Now and then the counters lose everything, or somebody turns their mark.

    The user's counter is soft. What holds for the hard ones: spent and held together are never
    over the limit, but for what was settled beyond its hold.
    """

    def __init__(self, make: Make) -> None:
        super().__init__()
        self._make = make
        self._runner = asyncio.Runner()
        self.now = NOW
        self.books = ReservationModel()
        self.condition = CountersCondition.EMPTY

    def ask(self, work: Any) -> Any:
        return self._runner.run(work)

    @initialize()
    def open(self) -> None:
        self.store = self._make()

    @rule(name=NAMES, amounts=AMOUNTS, seconds=st.integers(1, 50), only_whole=st.booleans())
    def reserve(
        self, name: str, amounts: dict[str, int], seconds: int, *, only_whole: bool
    ) -> None:
        claims = [
            CounterClaim(counter, amount, LIMITS[counter], hard=counter != "user", ends=NOW + 1e6)
            for counter, amount in amounts.items()
        ]
        until = self.now + seconds
        asking = self.store.reserve(name, claims, self.now, until, only_whole=only_whole)
        if only_whole and self.condition is not CountersCondition.WHOLE:
            assert self.ask(asking) is None
            return
        answer = self.ask(asking)
        assert answer == self.books.reserve(name, claims, self.now, until)

    @rule(name=NAMES, amounts=AMOUNTS)
    def settle(self, name: str, amounts: dict[str, int]) -> None:
        answer = self.ask(self.store.settle(name, amounts, self.now))
        assert answer == self.books.settle(name, amounts, self.now)

    @rule(name=NAMES, seconds=st.integers(0, 50))
    def extend(self, name: str, seconds: int) -> None:
        counters = self.books.held_by(name, self.now) or ["team"]
        answer = self.ask(self.store.extend(name, counters, self.now, self.now + seconds))
        assert answer == self.books.extend(name, counters, self.now, self.now + seconds)

    @rule(seconds=st.integers(1, 40))
    def wait(self, seconds: int) -> None:
        self.now += seconds

    @rule(
        before=CONDITIONS,
        after=st.sampled_from([CountersCondition.REPAIRING, CountersCondition.WHOLE]),
    )
    def turn(self, before: CountersCondition, after: CountersCondition) -> None:
        is_so = self.condition is before
        assert self.ask(self.store.change_condition(before, after, self.now)) is is_so
        self.condition = after if is_so else self.condition

    @rule()
    def lose_everything(self) -> None:
        self.ask(empty(self.store))
        self.books, self.condition = ReservationModel(), CountersCondition.EMPTY

    @precondition(lambda self: self.books.holds)
    @rule()
    def die_and_be_waited_for(self) -> None:
        self.now = max(until for _, until in self.books.holds.values())
        levels = self.ask(self.store.levels(COUNTERS, self.now))
        assert [level.held for level in levels] == [0, 0, 0]

    @invariant()
    def the_levels_are_those_of_the_books(self) -> None:
        levels = self.ask(self.store.levels(COUNTERS, self.now))
        assert levels == [self.books.level(name, self.now) for name in COUNTERS]
        assert self.ask(self.store.condition(self.now)) is self.condition
        for counter, level in zip(COUNTERS[:2], levels, strict=False):
            excess = self.books.excess[counter]
            assert level.spent + level.held <= LIMITS[counter] + excess

    def teardown(self) -> None:
        self.ask(self.store.aclose())
        self._runner.close()


def test_whatever_happens_the_counters_agree_with_a_naive_account(make: Make) -> None:
    class CounterMachine(LifeOfCounters):
        def __init__(self) -> None:
            super().__init__(make)

    run_state_machine_as_test(CounterMachine, settings=examples(20, stateful_step_count=25))
