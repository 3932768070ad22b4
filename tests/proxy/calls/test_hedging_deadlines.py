"""Calls with a deadline are not slower than the same calls without, whatever their routes do."""

import asyncio
import random
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import product
from math import inf
from statistics import quantiles

import pytest

from proxy.calls.eligibility.retry_policy import RetryPolicy
from proxy.calls.route_choice import RouteChoice, RoutingDecision
from proxy.catalog.entries import Route, Upstream
from proxy.errors import ProxyError
from proxy.providers.port import PreparedRequest
from proxy.records.receipt import Receipt
from proxy.records.timeline import Timeline
from slo.breaker import BASE_EJECTION_S, CONSECUTIVE_FAILURES
from tests.fakes.answers import SHOWN, STREAM, stream
from tests.fakes.call_dependencies import fake_dependencies, route, serve_call
from tests.fakes.caller import FakeCaller
from tests.fakes.clock import run_in_instant_time, ticks
from tests.fakes.hedged_calls import FixedDecision
from tests.fakes.upstream import SILENCE, After, FakeExchange, FakeTransport, broken_connection
from tests.proxy.api.served_calls import ONE, TWO, streaming_call

THREE = route("three")
DEADLINE = 0.66
CALLS = 80
PATIENCE = RetryPolicy(first_byte_s=20.0, retries=0)

#: Seconds to the first content, by the call's own luck; ``inf`` for never, None for a failure.
Pace = Callable[[random.Random], float | None]
PACES: dict[str, Pace] = {
    "quick": lambda luck: luck.uniform(0.15, 0.25),
    "slow": lambda luck: luck.uniform(0.7, 0.9),
    "very slow": lambda luck: luck.uniform(2.0, 4.0),
    "now and then slow": lambda luck: 5.0 if luck.random() < 0.1 else luck.uniform(0.15, 0.25),
    "dead": lambda _: inf,
    "refusing": lambda _: None,
}


class TimedTransport(FakeTransport):
    """Answers each call on each route after a time of its own, whichever other was asked."""

    def __init__(self, paces: dict[str, Pace]) -> None:
        super().__init__([])
        self._paces = paces
        self.call = 0

    async def open(self, upstream: Upstream, prepared: PreparedRequest) -> FakeExchange:
        luck = random.Random(f"{self.call} {upstream.name}")  # noqa: S311 - repeatable, not secret
        seconds = self._paces[upstream.name](luck)
        if seconds is None:
            self._scripts = [broken_connection()]
        elif seconds == inf:
            self._scripts = [SILENCE]
        else:
            self._scripts = [stream(After(seconds, STREAM))]
        return await super().open(upstream, prepared)


@dataclass
class CallDurations:
    """Seconds that each call took, and the receipts of all."""

    seconds: list[float]
    failed: int
    receipts: list[Receipt]

    @property
    def p50(self) -> float:
        return quantiles(self.seconds, n=20, method="inclusive")[9]

    @property
    def p95(self) -> float:
        return quantiles(self.seconds, n=20, method="inclusive")[18]


def calls(
    *paces: str,
    deadline: float | None,
    routes: tuple[Route, ...] = (ONE, TWO),
    failed_s: float | None = None,
) -> CallDurations:
    """So many calls, one after the other, on routes with these paces.

    Args:
        paces: One of ``PACES`` for each route.
        deadline: Seconds to the first content; None for none.
        routes: What the model may be served by.
        failed_s: Seconds since the first route's breaker opened; None where it is closed.
    """

    async def work() -> CallDurations:
        transport = TimedTransport(
            {
                candidate.upstream.name: PACES[pace]
                for candidate, pace in zip(routes, paces, strict=True)
            }
        )
        table, ledger = fake_dependencies(transport, *routes, patience=PATIENCE)
        choices = tuple(RouteChoice(candidate, "m") for candidate in routes)
        table = replace(
            table, router=FixedDecision(RoutingDecision(choices=choices, deadline=deadline))
        )
        for _ in range(100):
            table.route_health.record_call(1_000_000, ticks())
        for _ in range(0 if failed_s is None else CONSECUTIVE_FAILURES):
            breaker = table.route_health.health_of(routes[0]).breaker
            breaker.record_outcome(ticks() - (failed_s or 0.0), ok=False)
        took = CallDurations([], 0, ledger.receipts)
        for number in range(CALLS):
            transport.call, began, caller = number, ticks(), FakeCaller()
            try:
                await serve_call(streaming_call(), caller, table, Timeline(ticks))
                assert caller.body == SHOWN
            except ProxyError:
                took.failed += 1
            took.seconds.append(ticks() - began)
            await asyncio.sleep(0.5)
        return took

    return run_in_instant_time(work())


@pytest.mark.slow
@pytest.mark.parametrize(("first", "second"), list(product(PACES, PACES)))
def test_calls_with_a_deadline_are_not_slower_than_without(first, second):
    direct = calls(first, second, deadline=None)
    hurried = calls(first, second, deadline=DEADLINE)

    assert hurried.p50 <= direct.p50 + 0.01
    assert hurried.p95 <= direct.p95 + 0.01
    assert hurried.failed <= direct.failed


def test_each_call_with_a_deadline_begins_no_later_where_both_routes_are_slow():
    direct = calls("slow", "slow", deadline=None)
    hurried = calls("slow", "slow", deadline=DEADLINE)

    pairs = zip(hurried.seconds, direct.seconds, strict=True)
    assert all(with_it <= without + 0.01 for with_it, without in pairs)


def test_a_dead_route_costs_a_call_its_deadline_and_what_the_next_route_takes():
    assert calls("dead", "quick", deadline=DEADLINE).p95 <= DEADLINE + 0.25 + 0.01


def test_a_route_that_is_known_to_be_as_slow_is_sent_few_second_attempts():
    hurried = calls("slow", "slow", deadline=DEADLINE)

    second = [receipt for receipt in hurried.receipts if receipt.attempt]
    assert len(second) <= CALLS // 4


def test_a_route_known_to_be_slow_is_passed_over_for_a_quick_one():
    hurried = calls("dead", "dead", "quick", deadline=DEADLINE, routes=(ONE, TWO, THREE))

    assert hurried.p50 <= DEADLINE + 0.25 + 0.01


def test_a_route_that_failed_and_hangs_when_it_is_tried_again_is_left_alone_at_once():
    hurried = calls("dead", "quick", deadline=DEADLINE, failed_s=BASE_EJECTION_S)

    late = [seconds for seconds in hurried.seconds if seconds > 0.25 + 0.01]
    assert len(late) == 1
    assert late[0] <= DEADLINE + 0.25 + 0.01
