"""Streams with a draft, served by scripts, and what became of them."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from proxy.calls.eligibility.retry_policy import RetryPolicy
from proxy.catalog.entries import Model, Route, Upstream
from proxy.errors import ProxyError
from proxy.providers.port import PreparedRequest
from proxy.providers.sse import parse_events
from proxy.records.receipt import Receipt, ServedBy
from proxy.records.timeline import Timeline
from slo.policies.drafts import DraftRule
from tests.fakes.answers import STREAMED
from tests.fakes.call_dependencies import FakeEstimator, call, fake_dependencies, route, serve_call
from tests.fakes.caller import FakeCaller
from tests.fakes.clock import run_in_instant_time
from tests.fakes.upstream import FakeExchange, FakeTransport, ScriptedAnswer

Script = ScriptedAnswer | Any
ROOM: dict[str, Any] = {"window": 128_000, "max_output": 4_096}
ASKED_ROUTE, DRAFT_ROUTE = route("large"), route("small", **ROOM)


class TransportByUpstream:
    """Answers by the upstream's name, each with its scripts in order."""

    def __init__(self, scripts: Mapping[str, tuple[Script, ...]]) -> None:
        self.by_name = {name: FakeTransport(pieces) for name, pieces in scripts.items()}

    async def open(self, upstream: Upstream, prepared: PreparedRequest) -> FakeExchange:
        return await self.by_name[upstream.name].open(upstream, prepared)


@dataclass
class DraftedCall:
    """A call that was served.

    Attributes:
        at: Seconds at which each piece reached the caller.
        error: What serving it raised; None for nothing.
    """

    caller: FakeCaller
    receipts: list[Receipt]
    transport: TransportByUpstream
    error: ProxyError | None = None

    @property
    def at(self) -> list[float]:
        return [float(seconds) for seconds in self.caller.observed]  # type: ignore[arg-type]

    @property
    def draft(self) -> Receipt:
        (receipt,) = (one for one in self.receipts if one.served_by is ServedBy.DRAFT)
        return receipt

    @property
    def answer(self) -> Receipt:
        (receipt,) = (one for one in self.receipts if one.final)
        return receipt

    @property
    def draft_events(self) -> list[bytes]:
        events = parse_events(self.caller.body)
        return [event.data for event in events if event.name == "thriftgate.draft"]


def serve_drafted(
    answer: Script,
    draft: Script,
    /,
    *,
    rules: tuple[DraftRule, ...] = (),
    body: bytes = STREAMED,
    caller: Mapping[str, Any] | None = None,
    draft_route: Route = DRAFT_ROUTE,
    estimator: FakeEstimator | None = None,
    **fields: Any,
) -> DraftedCall:
    """Serve a stream of the model ``m`` at ``large``, for which ``s`` at ``small`` may draft."""
    fields = {"draft": "" if rules else "s"} | fields

    async def work() -> DraftedCall:
        transport = TransportByUpstream({"large": (answer,), "small": (draft,)})
        patience = RetryPolicy(retries=0, stall_s=50.0)
        table, ledger = fake_dependencies(
            transport, ASKED_ROUTE, patience=patience, estimator=estimator
        )
        models = {**table.catalog.models, "s": Model(id="s", routes=(draft_route,))}
        upstreams = {**table.catalog.upstreams, "small": draft_route.upstream}
        catalog = replace(table.catalog, models=models, upstreams=upstreams)
        table = replace(table, catalog=catalog, drafts=rules)
        ticks = asyncio.get_running_loop().time
        started = ticks()
        taker = FakeCaller(observe=lambda: ticks() - started, **(caller or {}))
        served = DraftedCall(taker, ledger.receipts, transport)
        try:
            await serve_call(call(body, **fields), taker, table, Timeline(ticks))
        except ProxyError as error:
            served.error = error
        exchanges = [one for fake in transport.by_name.values() for one in fake.exchanges]
        assert all(exchange.closed for exchange in exchanges)
        return served

    return run_in_instant_time(work())
