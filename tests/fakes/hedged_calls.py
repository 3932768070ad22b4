"""Races of attempts over fake routes."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from proxy.calls.eligibility.retry_policy import RetryPolicy
from proxy.calls.ports import Dependencies, SpendingLimits
from proxy.calls.route_choice import RouteChoice, RoutingDecision
from proxy.catalog.entries import Route
from proxy.errors import ProxyError
from proxy.prefix.planned import Passthrough
from proxy.records.call import Call
from proxy.records.receipt import Receipt
from proxy.records.timeline import Timeline
from tests.fakes.answers import STREAM, stream
from tests.fakes.call_dependencies import (
    NoPlanning,
    fake_dependencies,
    serve_call,
)
from tests.fakes.caller import FakeCaller
from tests.fakes.clock import run_in_instant_time, ticks
from tests.fakes.upstream import After, FakeTransport, Piece, ScriptedAnswer
from tests.proxy.api.served_calls import ONE, TWO, streaming_call

#: Deadline of the races here, in seconds.
DEADLINE = 10.0
LONG = RetryPolicy(first_byte_s=100.0, retries=0)


class FixedDecision:
    """Decides the same of every call."""

    def __init__(self, decision: RoutingDecision) -> None:
        self.decision = decision

    def decide(self, call: object, requested: object) -> RoutingDecision:
        return self.decision


class SlowPlanning(NoPlanning):
    """Takes its time."""

    def __init__(self, takes: float) -> None:
        super().__init__()
        self._takes = takes

    async def plan(self, call: Call, route: Route) -> Passthrough:
        await asyncio.sleep(self._takes)
        return await super().plan(call, route)


@dataclass
class HedgedCall:
    """The results of a race."""

    caller: FakeCaller
    transport: FakeTransport
    receipts: list[Receipt]
    error: ProxyError | None
    took: float
    table: Dependencies

    @property
    def summary(self) -> list[tuple[int, str, str, bool]]:
        return sorted(
            (receipt.attempt, receipt.outcome.value, receipt.error, receipt.final)
            for receipt in self.receipts
        )


def race(
    *scripts: ScriptedAnswer | Piece,
    choices: tuple[RouteChoice, ...] = (RouteChoice(ONE, "m"), RouteChoice(TWO, "m")),
    calls_before: int = 1000,
    patience: RetryPolicy = LONG,
    limits: SpendingLimits | None = None,
    before: Callable[[Dependencies], None] = lambda _: None,
    planned_in: float = 0.0,
    asking: Call | None = None,
    **caller: Any,
) -> HedgedCall:
    async def work() -> HedgedCall:
        transport = FakeTransport(scripts)
        table, ledger = fake_dependencies(
            transport, *(choice.route for choice in choices), patience=patience
        )
        table = replace(
            table, router=FixedDecision(RoutingDecision(choices=choices, deadline=DEADLINE))
        )
        table = replace(table, limits=limits, planning=SlowPlanning(planned_in))
        before(table)
        for _ in range(calls_before):
            table.route_health.record_call(1_000_000, ticks())
        taker = FakeCaller(**caller)
        error, began = None, ticks()
        try:
            await serve_call(asking or streaming_call(), taker, table, Timeline(ticks))
        except ProxyError as raised:
            error = raised
        took = ticks() - began
        await asyncio.sleep(1)
        assert asyncio.current_task().cancelling() == 0  # type: ignore[union-attr]
        assert isinstance(table.planning, NoPlanning)
        notices = table.planning.told
        assert notices.count("planned") == notices.count("ended")
        return HedgedCall(taker, transport, ledger.receipts, error, took, table)

    done = run_in_instant_time(work())
    assert sum(receipt.final for receipt in done.receipts) == 1
    assert len({receipt.attempt for receipt in done.receipts}) == len(done.receipts)
    assert all(exchange.closed for exchange in done.transport.exchanges)
    return done


def late(seconds: float) -> ScriptedAnswer:
    """A stream that begins after so many seconds."""
    return stream(After(seconds, STREAM))
