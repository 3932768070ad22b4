"""Calls whose streams are continued, served by scripts, and what became of them."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

from proxy.calls.eligibility.retry_policy import RetryPolicy
from proxy.catalog.entries import Route
from proxy.errors import ProxyError
from proxy.records.receipt import Outcome, Receipt
from proxy.records.timeline import Timeline
from slo.policies.stream_continuation import StreamContinuation
from tests.fakes.answers import STREAMED
from tests.fakes.call_dependencies import FakeEstimator, call, fake_dependencies, route, serve_call
from tests.fakes.caller import FakeCaller
from tests.fakes.upstream import FakeTransport, Piece, ScriptedAnswer

ONE = route("one")
#: Routes that go on by a word in the body, and because Claude of old always does.
TWO = replace(route("two"), upstream=replace(route("two").upstream, continues="last_message"))
THREE = replace(
    route("three"), upstream=replace(route("three").upstream, continues="continue_final_message")
)
TWICE = StreamContinuation(name="all", max_continuations=2)


@dataclass
class ServedStream:
    """A stream that was served.

    Attributes:
        error: What serving it raised; None for nothing.
    """

    caller: FakeCaller
    receipts: list[Receipt]
    transport: FakeTransport
    estimator: FakeEstimator
    error: ProxyError | None = None

    @property
    def outcomes(self) -> list[tuple[Outcome, bool]]:
        return [(receipt.outcome, receipt.final) for receipt in self.receipts]

    @property
    def upstreams(self) -> list[str]:
        return [name for name, _ in self.transport.sent]


def serve_stream(
    *scripts: ScriptedAnswer | Piece,
    rules: tuple[StreamContinuation, ...] = (TWICE,),
    body: bytes = STREAMED,
    caller: FakeCaller | None = None,
    ports: Mapping[str, Any] = MappingProxyType({}),
    two: Route = TWO,
    **fields: Any,
) -> ServedStream:
    """Serve a stream from routes ``one``, ``two`` and ``three``, of which the last two go on.

    Args:
        ports: More of the dependencies.
        two: Another second route.
    """

    async def work() -> ServedStream:
        estimator, patience = FakeEstimator(), RetryPolicy(retries=0, stall_s=5.0)
        transport = FakeTransport(scripts)
        table, ledger = fake_dependencies(
            transport, ONE, two, THREE, patience=patience, estimator=estimator
        )
        table = replace(table, stream_continuation=rules, **ports)
        ticks = asyncio.get_running_loop().time
        taker = caller or FakeCaller()
        served = ServedStream(taker, ledger.receipts, transport, estimator)
        try:
            await serve_call(call(body, **fields), taker, table, Timeline(ticks))
        except ProxyError as error:
            served.error = error
        return served

    return asyncio.run(work())
