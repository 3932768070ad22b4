"""One call served by an upstream that keeps to its script, and what came of it."""

import asyncio
from dataclasses import dataclass
from typing import Any

from proxy.calls.deadlines import ClientDisconnected
from proxy.calls.eligibility.retry_policy import RetryPolicy
from proxy.catalog.entries import Route
from proxy.errors import ProxyError
from proxy.records.call import Call
from proxy.records.receipt import Outcome, Receipt
from proxy.records.timeline import Timeline
from slo.usage import Usage
from tests.fakes.answers import ASKED, STREAMED
from tests.fakes.call_dependencies import (
    FakeEstimator,
    NoPlanning,
    call,
    fake_dependencies,
    route,
    serve_call,
)
from tests.fakes.caller import FakeCaller
from tests.fakes.clock import run_in_instant_time, ticks
from tests.fakes.upstream import FakeTransport, Piece, ScriptedAnswer

EXACT = Usage(input=36, cache_read=64, output=10)
ONE, TWO = route("one"), route("two")
QUICK = RetryPolicy(first_byte_s=10.0, stall_s=5.0, retries=1, max_pause_s=8.0)


@dataclass
class ServedCall:
    """The results of one call."""

    caller: FakeCaller
    transport: FakeTransport
    receipts: list[Receipt]
    error: ProxyError | None
    took: float
    told: list[str]

    @property
    def outcomes(self) -> list[tuple[Outcome, bool]]:
        return [(receipt.outcome, receipt.final) for receipt in self.receipts]

    @property
    def last(self) -> Receipt:
        return self.receipts[-1]


def serve_one_call(
    *scripts: ScriptedAnswer | Piece,
    sent_call: Call | None = None,
    routes: tuple[Route, ...] = (ONE,),
    patience: RetryPolicy = QUICK,
    estimator: FakeEstimator | None = None,
    **caller: Any,
) -> ServedCall:
    """Serve one call; the law that holds for every call is checked here."""

    async def work() -> ServedCall:
        transport = FakeTransport(scripts)
        table, ledger = fake_dependencies(
            transport, *routes, patience=patience, estimator=estimator
        )
        taker = FakeCaller(observe=lambda: len(ledger.receipts), **caller)
        error, before = None, ticks()
        try:
            await serve_call(sent_call or call(ASKED), taker, table, Timeline(ticks))
        except ProxyError as raised:
            error = raised
        assert asyncio.current_task().cancelling() == 0  # type: ignore[union-attr]
        assert isinstance(table.planning, NoPlanning)
        outcomes = table.planning.told
        return ServedCall(taker, transport, ledger.receipts, error, ticks() - before, outcomes)

    done = run_in_instant_time(work())
    assert done.told.count("planned") == done.told.count("ended")
    assert sum(receipt.final for receipt in done.receipts) == 1
    assert done.last.final
    assert [receipt.attempt for receipt in done.receipts] == list(range(len(done.receipts)))
    assert all(exchange.closed for exchange in done.transport.exchanges)
    assert b"verysecret" not in done.caller.body
    assert b"inner.host" not in done.caller.body
    if not isinstance(done.error, ClientDisconnected):
        assert (done.error is None) == (done.caller.head is not None)
    return done


def streaming_call(**fields: Any) -> Call:
    return call(STREAMED, **fields)
