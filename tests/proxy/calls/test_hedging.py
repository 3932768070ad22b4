"""Attempts at once while an answer is late: hedges, deadlines, and what each of them leaves."""

import asyncio

import pytest

from proxy.calls.ports import Dependencies
from proxy.calls.route_choice import RouteChoice
from slo.usage import Usage
from tests.fakes.answers import SHOWN, STREAM, failed_answer, stream
from tests.fakes.clock import ticks
from tests.fakes.hedged_calls import DEADLINE, late, race
from tests.fakes.upstream import After
from tests.proxy.api.served_calls import ONE, TWO


def test_an_answer_in_time_runs_alone():
    done = race(late(5.0))

    assert done.caller.body == SHOWN
    assert done.summary == [(0, "answered", "", True)]
    assert done.receipts[0].ttft == pytest.approx(5.0)


def test_a_late_answer_is_hedged_and_the_first_to_begin_is_the_calls():
    done = race(late(30.0), late(1.0))

    assert done.caller.body == SHOWN
    assert done.took == pytest.approx(7.0)  # 0.6 of the deadline, and a second
    assert done.summary == [(0, "failed", "hedge_lost", False), (1, "answered", "", True)]
    assert [receipt.route for receipt in done.receipts if receipt.final] == ["two/m"]


def test_superseded_attempts_are_billed_on_the_calls_receipts():
    lost = next(receipt for receipt in race(late(30.0), late(1.0)).receipts if not receipt.final)

    assert lost.usage == Usage(input=18)  # a fourth of the body's bytes
    assert lost.cost_nanos
    assert lost.estimated


def test_the_first_may_win_after_all():
    done = race(late(7.0), late(9.0))

    assert done.took == pytest.approx(7.0)
    assert done.summary == [(0, "answered", "", True), (1, "failed", "hedge_lost", False)]


def test_a_role_alone_and_keep_alives_are_no_content():
    role = b'data: {"choices":[{"index":0,"delta":{"role":"assistant","content":""}}]}\n\n'
    done = race(stream(role, b": keep-alive\n\n", After(50.0, STREAM)), late(1.0))

    assert done.took == pytest.approx(7.0)
    assert done.caller.body == SHOWN


def test_without_a_hedge_in_the_budget_the_deadline_gives_the_late_one_up():
    done = race(late(50.0), late(2.0), calls_before=0)

    assert done.took == pytest.approx(12.0)
    assert done.summary == [(0, "failed", "ttft_deadline", False), (1, "answered", "", True)]


def test_going_on_to_another_route_is_no_retry():
    done = race(late(50.0), late(1.0), calls_before=0, before=_spend_retries)

    assert done.took == pytest.approx(11.0)
    assert done.summary == [(0, "failed", "ttft_deadline", False), (1, "answered", "", True)]


def test_the_last_route_has_no_deadline():
    done = race(late(50.0), late(40.0), calls_before=0)

    assert done.took == pytest.approx(50.0)
    assert done.caller.body == SHOWN


def test_a_route_of_another_model_is_no_hedge_and_follows_at_the_deadline():
    small = RouteChoice(TWO, "small", "chat-ttft: in its place")
    done = race(late(50.0), late(1.0), choices=(RouteChoice(ONE, "m"), small))

    assert done.took == pytest.approx(11.0)
    assert [receipt.reroute_reason for receipt in done.receipts if receipt.final] == [
        "chat-ttft: in its place"
    ]
    assert done.caller.head is not None
    assert done.caller.head.headers["x-thriftgate-fallback"] == "chat-ttft: in its place"


def test_a_last_resort_is_not_taken_because_others_are_late():
    small = RouteChoice(TWO, "small", "chat-ttft: in its place", is_last_resort=True)
    done = race(late(50.0), choices=(RouteChoice(ONE, "m"), small))

    assert done.took == pytest.approx(50.0)
    assert done.summary == [(0, "answered", "", True)]


def test_a_last_resort_is_taken_where_the_others_fail():
    small = RouteChoice(TWO, "small", "chat-ttft: in its place", is_last_resort=True)
    done = race(failed_answer(503), late(1.0), choices=(RouteChoice(ONE, "m"), small))

    assert done.caller.body == SHOWN


def _spend_retries(table: Dependencies) -> None:
    """So many that none is left in the ten seconds that a deadline takes."""

    def spend() -> None:
        while table.route_health.retries.try_acquire(ticks()):
            pass

    asyncio.get_running_loop().call_later(DEADLINE - 0.1, spend)
