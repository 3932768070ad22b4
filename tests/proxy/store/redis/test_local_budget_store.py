"""What every store of counters promises; the private one and the shared one pass the same tests."""

import asyncio
from collections.abc import Awaitable, Callable
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

from proxy.store.redis.budget_store import RedisBudgetStore
from proxy.store.redis.local_budget_store import (
    BudgetStore,
    CountersCondition,
    LocalBudgetStore,
)
from slo.reservations import (
    MAX_AMOUNT,
    SETTLED_MEMORY_S,
    CounterClaim,
    CounterLevel,
    ReservationGranted,
    ReservationRefused,
    Reservations,
)
from tests.examples import examples
from tests.fakes.redis_keys import SERVER
from tests.fakes.reservation_model import ReservationModel

NOW = 1_000_000.0
LATER = NOW + 30
NONE = CounterLevel(0, 0)

Make = Callable[[], BudgetStore]
Story = Callable[[BudgetStore], Awaitable[None]]


@pytest.fixture(params=["private", "redis"])
def make(request: pytest.FixtureRequest) -> Make:
    """Makes a store nobody has used yet, of each kind in turn."""
    if request.param == "private":
        return LocalBudgetStore
    prefix: str = request.getfixturevalue("redis_prefix")
    return lambda: RedisBudgetStore(
        SERVER, token_hex(4), prefix=prefix, deadline=30.0, trusts_callers=True
    )


@pytest.fixture
def played(make: Make) -> Callable[[Story], None]:
    """Plays a story with a store of its own."""

    async def play(story: Story) -> None:
        store = make()
        try:
            await story(store)
        finally:
            await store.aclose()

    return lambda story: asyncio.run(play(story))


def claim(
    amount: int, counter: str = "team", limit: int = 100, *, hard: bool = True, ends: float = LATER
) -> CounterClaim:
    return CounterClaim(counter, amount, limit, hard, ends)


def test_a_thousand_reservations_of_ten_cents_against_five_dollars_admit_exactly_fifty(played):
    dime = claim(100_000_000, limit=5_000_000_000)

    async def story(store: BudgetStore) -> None:
        answers = await asyncio.gather(
            *(store.reserve(f"call-{number}", [dime], NOW, LATER) for number in range(1000))
        )

        granted = [
            number for number, each in enumerate(answers) if isinstance(each, ReservationGranted)
        ]
        full = CounterLevel(0, 5_000_000_000)
        assert len(granted) == 50
        assert [each for each in answers if isinstance(each, ReservationRefused)] == [
            ReservationRefused(0, full, LATER, 50)
        ] * 950
        for number in granted:
            assert await store.settle(f"call-{number}", {"team": 100_000_000}, NOW)
        spent = CounterLevel(5_000_000_000, 0)
        assert await store.levels(["team"], NOW) == [spent]
        assert await store.reserve("late", [dime], NOW, LATER) == ReservationRefused(0, spent, None)

    played(story)


def test_settling_releases_the_hold_and_counts_the_usage(played):
    async def story(store: BudgetStore) -> None:
        assert await store.levels(["team"], NOW) == [NONE]
        assert await store.reserve("a", [claim(60)], NOW, LATER) == ReservationGranted(
            (CounterLevel(0, 60),), (1,)
        )
        assert await store.settle("a", {"team": 25}, NOW)
        assert await store.levels(["team"], NOW) == [CounterLevel(25, 0)]

    played(story)


def test_all_claims_are_held_or_none(played):
    async def story(store: BudgetStore) -> None:
        both = [claim(60, "team"), claim(60, "user", limit=50)]
        assert await store.reserve("a", both, NOW, LATER) == ReservationRefused(1, NONE, None)
        assert await store.levels(["team", "user"], NOW) == [NONE, NONE]

    played(story)


def test_nothing_is_asked_of_nobody(played):
    async def story(store: BudgetStore) -> None:
        assert await store.reserve("a", [], NOW, LATER) == ReservationGranted(())
        assert await store.settle("a", {}, NOW)
        assert await store.extend("a", [], NOW, LATER)
        assert await store.levels([], NOW) == []

    played(story)


def test_one_that_is_used_up_is_named_before_one_that_others_hold(played):
    async def story(store: BudgetStore) -> None:
        await store.reserve("a", [claim(60, "team")], NOW, NOW + 5)
        await store.settle("b", {"user": 90}, NOW)

        claims = [claim(60, "team"), claim(20, "user")]
        assert await store.reserve("c", claims, NOW, LATER) == ReservationRefused(
            1, CounterLevel(90, 0), None
        )

    played(story)


def test_of_several_that_others_hold_the_first_is_named_whichever_frees_first(played):
    async def story(store: BudgetStore) -> None:
        await store.reserve("a", [claim(60, "team")], NOW, NOW + 20)
        await store.reserve("b", [claim(70, "user")], NOW, NOW + 10)

        claims = [claim(60, "team"), claim(60, "user")]
        refused = await store.reserve("c", claims, NOW, LATER)
        assert refused == ReservationRefused(0, CounterLevel(0, 60), NOW + 20, 1)

    played(story)


def test_of_several_that_are_used_up_the_first_is_named(played):
    async def story(store: BudgetStore) -> None:
        await store.settle("a", {"team": 90, "user": 95}, NOW)

        claims = [claim(20, "free"), claim(20, "team"), claim(20, "user")]
        assert await store.reserve("b", claims, NOW, LATER) == ReservationRefused(
            1, CounterLevel(90, 0), None
        )

    played(story)


def test_a_refusal_for_holds_alone_says_when_the_first_of_them_ends(played):
    async def story(store: BudgetStore) -> None:
        await store.reserve("a", [claim(40)], NOW, NOW + 20)
        await store.reserve("b", [claim(40)], NOW, NOW + 10)

        refused = await store.reserve("c", [claim(40)], NOW + 1, LATER)
        assert refused == ReservationRefused(0, CounterLevel(0, 80), NOW + 10, 2)

    played(story)


def test_a_soft_claim_is_counted_and_never_refused(played):
    async def story(store: BudgetStore) -> None:
        for name in "ab":
            await store.reserve(name, [claim(80, hard=False)], NOW, LATER)

        assert await store.levels(["team"], NOW) == [CounterLevel(0, 160)]

    played(story)


def test_a_hold_ends_by_itself_and_what_it_cost_is_added_all_the_same(played):
    async def story(store: BudgetStore) -> None:
        await store.reserve("a", [claim(60)], NOW, NOW + 10)
        assert await store.levels(["team"], NOW + 9.999) == [CounterLevel(0, 60)]
        assert await store.levels(["team"], NOW + 10) == [NONE]

        assert await store.settle("a", {"team": 70}, NOW + 11)
        assert await store.levels(["team"], NOW + 11) == [CounterLevel(70, 0)]

    played(story)


def test_the_number_of_holds_of_each_counter_is_reported(played):
    async def story(store: BudgetStore) -> None:
        await store.reserve("a", [claim(40, "team")], NOW, LATER)
        await store.reserve("b", [claim(0, "team")], NOW, NOW + 5)
        both = [claim(9, "user"), claim(9, "team")]

        said = await store.reserve("c", both, NOW, LATER)
        assert said == ReservationGranted((CounterLevel(0, 9), CounterLevel(0, 49)), (1, 3))
        assert await store.settle("a", {"team": 95}, NOW)
        refused = await store.reserve("d", both, NOW + 5, LATER)
        assert refused == ReservationRefused(1, CounterLevel(95, 9), None, 1)

    played(story)


def test_holds_that_have_ended_make_room_at_once_however_many_they_are(played):
    async def story(store: BudgetStore) -> None:
        for number in range(250):
            await store.reserve(f"dead-{number}", [claim(1, limit=250)], NOW, NOW + 10)

        assert await store.reserve(
            "a", [claim(250, limit=250)], NOW + 10, LATER
        ) == ReservationGranted((CounterLevel(0, 250),), (1,))

    played(story)


def test_reserving_twice_under_one_name_holds_once(played):
    async def story(store: BudgetStore) -> None:
        await store.reserve("a", [claim(60)], NOW, LATER)

        assert await store.reserve("a", [claim(60)], NOW, LATER) == ReservationGranted(
            (CounterLevel(0, 60),), (1,)
        )

    played(story)


def test_a_name_that_is_held_in_the_next_window_too_is_held_once_in_the_long_one(played):
    async def story(store: BudgetStore) -> None:
        await store.reserve("a", [claim(9, "minute-1"), claim(9, "month")], NOW, LATER)
        await store.reserve("a", [claim(9, "minute-2"), claim(9, "month")], NOW, LATER)

        held = await store.levels(["minute-1", "minute-2", "month"], NOW)
        assert held == [CounterLevel(0, 9), NONE, CounterLevel(0, 9)]

    played(story)


def test_settling_twice_adds_once(played):
    async def story(store: BudgetStore) -> None:
        assert await store.settle("a", {"team": 30}, NOW)
        assert not await store.settle("a", {"team": 30}, NOW)
        assert await store.levels(["team"], NOW) == [CounterLevel(30, 0)]

    played(story)


def test_a_reservation_that_arrives_after_it_was_settled_holds_nothing(played):
    async def story(store: BudgetStore) -> None:
        await store.settle("a", {"team": 30}, NOW)

        assert await store.reserve("a", [claim(60)], NOW, LATER) == ReservationGranted(
            (CounterLevel(30, 0),), (0,)
        )

    played(story)


def test_after_a_day_a_settled_name_is_forgotten(played):
    async def story(store: BudgetStore) -> None:
        await store.settle("a", {"team": 30}, NOW)

        nearly = NOW + SETTLED_MEMORY_S - 1
        assert not await store.settle("a", {"team": 30}, nearly)
        assert await store.settle("a", {"team": 30}, nearly + 1)
        again = await store.reserve(
            "a", [claim(1)], nearly + 1 + SETTLED_MEMORY_S, NOW + 3 * SETTLED_MEMORY_S
        )
        assert again == ReservationGranted((CounterLevel(60, 1),), (1,))

    played(story)


def test_a_counter_that_settling_leaves_out_keeps_its_hold(played):
    async def story(store: BudgetStore) -> None:
        await store.reserve("a", [claim(60, "team"), claim(60, "user")], NOW, LATER)
        await store.settle("a", {"team": 5}, NOW)

        assert await store.levels(["team", "user"], NOW) == [
            CounterLevel(5, 0),
            CounterLevel(0, 60),
        ]

    played(story)


def test_a_heartbeat_lets_a_hold_end_later_and_never_earlier(played):
    async def story(store: BudgetStore) -> None:
        await store.reserve("a", [claim(60)], NOW, NOW + 10)
        assert await store.extend("a", ["team"], NOW + 5, NOW + 20)
        assert await store.extend("a", ["team"], NOW + 6, NOW + 7)

        assert await store.levels(["team"], NOW + 19) == [CounterLevel(0, 60)]
        assert await store.levels(["team"], NOW + 20) == [NONE]

    played(story)


def test_a_heartbeat_that_comes_too_late_says_so(played):
    async def story(store: BudgetStore) -> None:
        await store.reserve("a", [claim(60)], NOW, NOW + 10)

        assert not await store.extend("a", ["team"], NOW + 10, LATER)
        assert not await store.extend("a", ["team", "nobody's"], NOW + 10, LATER)
        assert await store.levels(["team"], NOW + 10) == [NONE]

    played(story)


def test_a_heartbeat_extends_what_there_is_even_where_a_part_has_gone(played):
    async def story(store: BudgetStore) -> None:
        await store.reserve("a", [claim(60)], NOW, NOW + 10)

        assert not await store.extend("a", ["gone", "team"], NOW, NOW + 20)
        assert await store.levels(["team"], NOW + 19) == [CounterLevel(0, 60)]

    played(story)


def test_restoring_raises_spending_never_lowers_it_and_keeps_holds(played):
    async def story(store: BudgetStore) -> None:
        await store.reserve("a", [claim(60)], NOW, LATER)
        assert await store.raise_spent({"team": 40, "user": 0}, NOW) == [0, 0]
        assert await store.raise_spent({"team": 30, "user": 7}, NOW) == [40, 0]
        assert await store.levels(["team", "user"], NOW) == [
            CounterLevel(40, 60),
            CounterLevel(7, 0),
        ]
        assert await store.raise_spent({}, NOW) == []

    played(story)


def test_lifting_twice_at_once_is_lifting_once_and_what_is_settled_later_is_added(played):
    async def story(store: BudgetStore) -> None:
        await asyncio.gather(*(store.raise_spent({"team": 40}, NOW) for _ in range(20)))
        await store.settle("a", {"team": 2}, NOW)
        assert await store.levels(["team"], NOW) == [CounterLevel(42, 0)]

    played(story)


def test_the_largest_amounts_are_exact(played):
    async def story(store: BudgetStore) -> None:
        most = claim(MAX_AMOUNT, limit=MAX_AMOUNT)
        assert await store.reserve("a", [most], NOW, LATER) == ReservationGranted(
            (CounterLevel(0, MAX_AMOUNT),), (1,)
        )
        over = await store.reserve("b", [claim(1, limit=MAX_AMOUNT)], NOW, LATER)
        assert over == ReservationRefused(0, CounterLevel(0, MAX_AMOUNT), LATER, 1)
        for name in ("a", "c", "d"):
            await store.settle(name, {"team": MAX_AMOUNT}, NOW)
        assert await store.levels(["team"], NOW) == [CounterLevel(3 * MAX_AMOUNT, 0)]
        spent = await store.reserve("e", [claim(0, limit=MAX_AMOUNT)], NOW, LATER)
        assert spent == ReservationRefused(0, CounterLevel(3 * MAX_AMOUNT, 0), None)

    played(story)


def test_an_amount_of_nothing_is_held_and_freed_like_any_other(played):
    async def story(store: BudgetStore) -> None:
        await store.reserve("a", [claim(0)], NOW, NOW + 10)
        await store.reserve("b", [claim(0)], NOW, NOW + 10)
        assert await store.settle("a", {"team": 0}, NOW)
        assert await store.levels(["team"], NOW + 10) == [NONE]

    played(story)


def test_invalid_amounts_are_refused_with_a_message(played):
    async def story(store: BudgetStore) -> None:
        with pytest.raises(ValueError, match="same counter"):
            await store.reserve("a", [claim(1), claim(2)], NOW, LATER)
        with pytest.raises(ValueError, match="not between 0 and"):
            await store.settle("a", {"team": -1}, NOW)
        with pytest.raises(ValueError, match="not between 0 and"):
            await store.raise_spent({"team": MAX_AMOUNT + 1}, NOW)
        with pytest.raises(ValueError, match="not between 0 and"):
            await store.restore({"team": -1}, 1, NOW)

    played(story)


def test_counters_that_have_just_begun_are_not_whole_until_somebody_says_so(played):
    async def story(store: BudgetStore) -> None:
        assert await store.condition(NOW) is CountersCondition.EMPTY
        assert await store.reserve("a", [claim(60)], NOW, LATER, only_whole=True) is None
        assert await store.levels(["team"], NOW) == [NONE]

        assert await store.change_condition(
            CountersCondition.EMPTY, CountersCondition.REPAIRING, NOW
        )
        await store.raise_spent({"team": 40}, NOW)
        assert await store.reserve("a", [claim(60)], NOW, LATER, only_whole=True) is None

        assert await store.change_condition(
            CountersCondition.REPAIRING, CountersCondition.WHOLE, NOW
        )
        assert await store.condition(NOW) is CountersCondition.WHOLE
        said = await store.reserve("a", [claim(60)], NOW, LATER, only_whole=True)
        assert said == ReservationGranted((CounterLevel(40, 60),), (1,))

    played(story)


def test_a_claim_that_accepts_partial_counters_is_counted_by_any(played):
    async def story(store: BudgetStore) -> None:
        assert await store.reserve("a", [claim(60)], NOW, LATER) == ReservationGranted(
            (CounterLevel(0, 60),), (1,)
        )
        assert await store.reserve("b", [], NOW, LATER, only_whole=True) == ReservationGranted(())

    played(story)


def test_a_mark_that_says_another_thing_is_not_turned(played):
    async def story(store: BudgetStore) -> None:
        for before in (CountersCondition.REPAIRING, CountersCondition.WHOLE):
            assert not await store.change_condition(before, CountersCondition.WHOLE, NOW)
        assert await store.condition(NOW) is CountersCondition.EMPTY
        once = await asyncio.gather(
            *(
                store.change_condition(CountersCondition.EMPTY, CountersCondition.REPAIRING, NOW)
                for _ in range(20)
            )
        )
        assert sum(once) == 1
        assert await store.change_condition(
            CountersCondition.REPAIRING, CountersCondition.WHOLE, NOW
        )
        assert not await store.change_condition(
            CountersCondition.EMPTY, CountersCondition.REPAIRING, NOW
        )
        assert await store.change_condition(CountersCondition.WHOLE, CountersCondition.WHOLE, NOW)
        assert await store.condition(NOW) is CountersCondition.WHOLE

    played(story)


def test_restoring_counts_what_ended_before_the_checkpoint_and_what_was_settled_later(played):
    async def story(store: BudgetStore) -> None:
        point = await store.begin_checkpoint(NOW + 0.5, 5)
        assert point == NOW + 1
        await store.settle("before", {"team": 3}, NOW + 1, NOW + 0.999)
        await store.settle("after", {"team": 10}, NOW + 2, NOW + 1)
        assert await store.levels(["team"], NOW + 2) == [CounterLevel(13, 0)]

        assert await store.restore({"team": 40, "user": 5}, point, NOW + 12) == [13, 0]
        assert await store.levels(["team", "user"], NOW + 12) == [
            CounterLevel(50, 0),
            CounterLevel(5, 0),
        ]
        await store.settle("late", {"team": 4, "user": 1}, NOW + 13, NOW + 0.5)
        await store.settle("now", {"team": 20, "user": 2}, NOW + 13)
        assert await store.levels(["team", "user"], NOW + 13) == [
            CounterLevel(70, 0),
            CounterLevel(7, 0),
        ]

    played(story)


def test_restoring_twice_is_restoring_once_and_the_ledger_may_know_more_by_then(played):
    async def story(store: BudgetStore) -> None:
        point = await store.begin_checkpoint(NOW, 5)
        await store.settle("a", {"team": 2}, NOW + 3)
        for amount in (40, 40, 47, 40):
            await store.restore({"team": amount}, point, NOW + 12)
        assert await store.levels(["team"], NOW + 12) == [CounterLevel(49, 0)]

    played(story)


def test_restoring_lowers_counters_that_are_not_whole_and_never_those_that_are(played):
    async def story(store: BudgetStore) -> None:
        await store.raise_spent({"team": 70}, NOW)
        point = await store.begin_checkpoint(NOW, 5)
        await store.change_condition(CountersCondition.EMPTY, CountersCondition.REPAIRING, NOW)
        await store.restore({"team": 60}, point, NOW + 12)
        assert await store.levels(["team"], NOW) == [CounterLevel(60, 0)]

        await store.change_condition(CountersCondition.REPAIRING, CountersCondition.WHOLE, NOW + 12)
        await store.raise_spent({"team": 80}, NOW + 12)
        assert await store.restore({"team": 60}, point, NOW + 12) == [80]
        assert await store.levels(["team"], NOW + 12) == [CounterLevel(80, 0)]
        await store.restore({"team": 90}, point, NOW + 12)
        assert await store.levels(["team"], NOW + 12) == [CounterLevel(90, 0)]

    played(story)


def test_a_checkpoint_is_shared_for_a_moment_and_then_another_begins(played):
    async def story(store: BudgetStore) -> None:
        first = await store.begin_checkpoint(NOW, 5)
        assert await store.begin_checkpoint(NOW + 6, 5) == first
        await store.settle("a", {"team": 5}, NOW + 6)
        second = await store.begin_checkpoint(NOW + 7, 5)
        assert second == NOW + 8
        assert await store.begin_checkpoint(NOW + 400, 900) == second

        await store.settle("b", {"team": 2}, NOW + 8)
        assert await store.restore({"team": 50}, first, NOW + 20) == [7]
        assert await store.levels(["team"], NOW + 20) == [CounterLevel(7, 0)]
        await store.restore({"team": 50}, second, NOW + 20)
        assert await store.levels(["team"], NOW + 20) == [CounterLevel(52, 0)]

    played(story)


COUNTERS = ("organization", "team", "user")
LIMITS = {"organization": 100, "team": 70, "user": 40}
NAMES = st.sampled_from([f"call-{number}" for number in range(8)])
AMOUNTS = st.dictionaries(st.sampled_from(COUNTERS), st.integers(0, 60), min_size=1)


CONDITIONS = st.sampled_from(list(CountersCondition))


async def emptied(store: BudgetStore) -> None:
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
            CounterClaim(each, amount, LIMITS[each], hard=each != "user", ends=NOW + 1e6)
            for each, amount in amounts.items()
        ]
        until = self.now + seconds
        asking = self.store.reserve(name, claims, self.now, until, only_whole=only_whole)
        if only_whole and self.condition is not CountersCondition.WHOLE:
            assert self.ask(asking) is None
            return
        said = self.ask(asking)
        assert said == self.books.reserve(name, claims, self.now, until)

    @rule(name=NAMES, amounts=AMOUNTS)
    def settle(self, name: str, amounts: dict[str, int]) -> None:
        said = self.ask(self.store.settle(name, amounts, self.now))
        assert said == self.books.settle(name, amounts, self.now)

    @rule(name=NAMES, seconds=st.integers(0, 50))
    def extend(self, name: str, seconds: int) -> None:
        counters = self.books.held_by(name, self.now) or ["team"]
        said = self.ask(self.store.extend(name, counters, self.now, self.now + seconds))
        assert said == self.books.extend(name, counters, self.now, self.now + seconds)

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
        self.ask(emptied(self.store))
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
        assert levels == [self.books.level(each, self.now) for each in COUNTERS]
        assert self.ask(self.store.condition(self.now)) is self.condition
        for counter, level in zip(COUNTERS[:2], levels, strict=False):
            excess = self.books.excess[counter]
            assert level.spent + level.held <= LIMITS[counter] + excess

    def teardown(self) -> None:
        self.ask(self.store.aclose())
        self._runner.close()


def test_whatever_happens_the_counters_agree_with_a_naive_account(make: Make) -> None:
    class Life(LifeOfCounters):
        def __init__(self) -> None:
            super().__init__(make)

    run_state_machine_as_test(Life, settings=examples(20, stateful_step_count=25))
