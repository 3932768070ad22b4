"""The contract of every store of counters; the private and the shared one pass the same tests."""

import asyncio

import pytest

from slo.budgets.counter import MAX_AMOUNT, CounterLevel, ReservationRefused
from slo.budgets.reservations import ReservationGranted
from tests.proxy.store.redis.counter_claims import LATER, NONE, NOW, claim

pytestmark = pytest.mark.anyio
DAY_S = 86_400.0


async def test_a_thousand_reservations_of_ten_cents_against_five_dollars_admit_exactly_fifty(store):
    dime = claim(100_000_000, limit=5_000_000_000)

    answers = await asyncio.gather(
        *(store.reserve(f"call-{number}", [dime], NOW, LATER) for number in range(1000))
    )

    granted = [
        number for number, answer in enumerate(answers) if isinstance(answer, ReservationGranted)
    ]
    full = CounterLevel(0, 5_000_000_000)
    assert len(granted) == 50
    assert [answer for answer in answers if isinstance(answer, ReservationRefused)] == [
        ReservationRefused(0, full, LATER, 50)
    ] * 950
    for number in granted:
        assert await store.settle(f"call-{number}", {"team": 100_000_000}, NOW)
    spent = CounterLevel(5_000_000_000, 0)
    assert await store.levels(["team"], NOW) == [spent]
    assert await store.reserve("late", [dime], NOW, LATER) == ReservationRefused(0, spent, None)


async def test_settling_releases_the_hold_and_counts_the_usage(store):
    assert await store.levels(["team"], NOW) == [NONE]
    assert await store.reserve("a", [claim(60)], NOW, LATER) == ReservationGranted(
        (CounterLevel(0, 60),), (1,)
    )
    assert await store.settle("a", {"team": 25}, NOW)
    assert await store.levels(["team"], NOW) == [CounterLevel(25, 0)]


async def test_all_claims_are_held_or_none(store):
    both = [claim(60, "team"), claim(60, "user", limit=50)]
    assert await store.reserve("a", both, NOW, LATER) == ReservationRefused(1, NONE, None)
    assert await store.levels(["team", "user"], NOW) == [NONE, NONE]


async def test_reservation_without_claims_asks_no_counter(store):
    assert await store.reserve("a", [], NOW, LATER) == ReservationGranted(())
    assert await store.settle("a", {}, NOW)
    assert await store.extend("a", [], NOW, LATER)
    assert await store.levels([], NOW) == []


async def test_one_that_is_used_up_is_named_before_one_that_others_hold(store):
    await store.reserve("a", [claim(60, "team")], NOW, NOW + 5)
    await store.settle("b", {"user": 90}, NOW)

    claims = [claim(60, "team"), claim(20, "user")]
    assert await store.reserve("c", claims, NOW, LATER) == ReservationRefused(
        1, CounterLevel(90, 0), None
    )


async def test_of_several_that_others_hold_the_first_is_named_whichever_frees_first(store):
    await store.reserve("a", [claim(60, "team")], NOW, NOW + 20)
    await store.reserve("b", [claim(70, "user")], NOW, NOW + 10)

    claims = [claim(60, "team"), claim(60, "user")]
    refused = await store.reserve("c", claims, NOW, LATER)
    assert refused == ReservationRefused(0, CounterLevel(0, 60), NOW + 20, 1)


async def test_of_several_that_are_used_up_the_first_is_named(store):
    await store.settle("a", {"team": 90, "user": 95}, NOW)

    claims = [claim(20, "free"), claim(20, "team"), claim(20, "user")]
    assert await store.reserve("b", claims, NOW, LATER) == ReservationRefused(
        1, CounterLevel(90, 0), None
    )


async def test_a_refusal_for_holds_alone_says_when_the_first_of_them_ends(store):
    await store.reserve("a", [claim(40)], NOW, NOW + 20)
    await store.reserve("b", [claim(40)], NOW, NOW + 10)

    refused = await store.reserve("c", [claim(40)], NOW + 1, LATER)
    assert refused == ReservationRefused(0, CounterLevel(0, 80), NOW + 10, 2)


async def test_a_soft_claim_is_counted_and_never_refused(store):
    for name in "ab":
        await store.reserve(name, [claim(80, hard=False)], NOW, LATER)

    assert await store.levels(["team"], NOW) == [CounterLevel(0, 160)]


async def test_a_hold_ends_by_itself_and_what_it_cost_is_added_all_the_same(store):
    await store.reserve("a", [claim(60)], NOW, NOW + 10)
    assert await store.levels(["team"], NOW + 9.999) == [CounterLevel(0, 60)]
    assert await store.levels(["team"], NOW + 10) == [NONE]

    assert await store.settle("a", {"team": 70}, NOW + 11)
    assert await store.levels(["team"], NOW + 11) == [CounterLevel(70, 0)]


async def test_the_number_of_holds_of_each_counter_is_reported(store):
    await store.reserve("a", [claim(40, "team")], NOW, LATER)
    await store.reserve("b", [claim(0, "team")], NOW, NOW + 5)
    both = [claim(9, "user"), claim(9, "team")]

    granted = await store.reserve("c", both, NOW, LATER)
    assert granted == ReservationGranted((CounterLevel(0, 9), CounterLevel(0, 49)), (1, 3))
    assert await store.settle("a", {"team": 95}, NOW)
    refused = await store.reserve("d", both, NOW + 5, LATER)
    assert refused == ReservationRefused(1, CounterLevel(95, 9), None, 1)


async def test_holds_that_have_ended_make_room_at_once_however_many_they_are(store):
    for number in range(250):
        await store.reserve(f"dead-{number}", [claim(1, limit=250)], NOW, NOW + 10)

    assert await store.reserve("a", [claim(250, limit=250)], NOW + 10, LATER) == ReservationGranted(
        (CounterLevel(0, 250),), (1,)
    )


async def test_reserving_twice_under_one_name_holds_once(store):
    await store.reserve("a", [claim(60)], NOW, LATER)

    assert await store.reserve("a", [claim(60)], NOW, LATER) == ReservationGranted(
        (CounterLevel(0, 60),), (1,)
    )


async def test_a_name_that_is_held_in_the_next_window_too_is_held_once_in_the_long_one(store):
    await store.reserve("a", [claim(9, "minute-1"), claim(9, "month")], NOW, LATER)
    await store.reserve("a", [claim(9, "minute-2"), claim(9, "month")], NOW, LATER)

    held = await store.levels(["minute-1", "minute-2", "month"], NOW)
    assert held == [CounterLevel(0, 9), NONE, CounterLevel(0, 9)]


async def test_settling_twice_adds_once(store):
    assert await store.settle("a", {"team": 30}, NOW)
    assert not await store.settle("a", {"team": 30}, NOW)
    assert await store.levels(["team"], NOW) == [CounterLevel(30, 0)]


async def test_a_reservation_that_arrives_after_it_was_settled_holds_nothing(store):
    await store.settle("a", {"team": 30}, NOW)

    assert await store.reserve("a", [claim(60)], NOW, LATER) == ReservationGranted(
        (CounterLevel(30, 0),), (0,)
    )


async def test_after_a_day_a_settled_name_is_forgotten(store):
    await store.settle("a", {"team": 30}, NOW)

    nearly = NOW + DAY_S - 1
    assert not await store.settle("a", {"team": 30}, nearly)
    assert await store.settle("a", {"team": 30}, nearly + 1)
    again = await store.reserve("a", [claim(1)], nearly + 1 + DAY_S, NOW + 3 * DAY_S)
    assert again == ReservationGranted((CounterLevel(60, 1),), (1,))


@pytest.mark.parametrize("leap", [-5 * DAY_S, -180.0, 180.0, 5 * DAY_S])
async def test_a_clock_that_leaps_and_comes_back_forgets_nothing_that_was_spent(store, leap):
    claims = [claim(60, ends=NOW + 30 * DAY_S)]

    await store.reserve("a", claims, NOW, NOW + 60)
    await store.settle("a", {"team": 60}, NOW)

    for number in range(4):
        now = NOW + leap * (number % 2)
        refused = await store.reserve(f"more-{number}", claims, now, now + 60)
        assert refused == ReservationRefused(0, CounterLevel(60, 0), None, 0)
        assert not await store.settle("a", {"team": 60}, NOW)
        assert await store.levels(["team"], now) == [CounterLevel(60, 0)]


async def test_a_counter_that_settling_leaves_out_keeps_its_hold(store):
    await store.reserve("a", [claim(60, "team"), claim(60, "user")], NOW, LATER)
    await store.settle("a", {"team": 5}, NOW)

    assert await store.levels(["team", "user"], NOW) == [
        CounterLevel(5, 0),
        CounterLevel(0, 60),
    ]


async def test_a_heartbeat_lets_a_hold_end_later_and_never_earlier(store):
    await store.reserve("a", [claim(60)], NOW, NOW + 10)
    assert await store.extend("a", ["team"], NOW + 5, NOW + 20)
    assert await store.extend("a", ["team"], NOW + 6, NOW + 7)

    assert await store.levels(["team"], NOW + 19) == [CounterLevel(0, 60)]
    assert await store.levels(["team"], NOW + 20) == [NONE]


async def test_a_heartbeat_that_comes_too_late_says_so(store):
    await store.reserve("a", [claim(60)], NOW, NOW + 10)

    assert not await store.extend("a", ["team"], NOW + 10, LATER)
    assert not await store.extend("a", ["team", "nobody's"], NOW + 10, LATER)
    assert await store.levels(["team"], NOW + 10) == [NONE]


async def test_a_heartbeat_extends_what_there_is_even_where_a_part_has_gone(store):
    await store.reserve("a", [claim(60)], NOW, NOW + 10)

    assert not await store.extend("a", ["gone", "team"], NOW, NOW + 20)
    assert await store.levels(["team"], NOW + 19) == [CounterLevel(0, 60)]


async def test_the_largest_amounts_are_exact(store):
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


async def test_an_amount_of_nothing_is_held_and_freed_like_any_other(store):
    await store.reserve("a", [claim(0)], NOW, NOW + 10)
    await store.reserve("b", [claim(0)], NOW, NOW + 10)
    assert await store.settle("a", {"team": 0}, NOW)
    assert await store.levels(["team"], NOW + 10) == [NONE]


async def test_invalid_amounts_are_refused_with_a_message(store):
    with pytest.raises(ValueError, match="same counter"):
        await store.reserve("a", [claim(1), claim(2)], NOW, LATER)
    with pytest.raises(ValueError, match="not between 0 and"):
        await store.settle("a", {"team": -1}, NOW)
    with pytest.raises(ValueError, match="not between 0 and"):
        await store.raise_spent({"team": MAX_AMOUNT + 1}, NOW)
    with pytest.raises(ValueError, match="not between 0 and"):
        await store.restore({"team": -1}, 1, NOW)
