"""Dependencies of a call, all of them fakes, and calls that use them."""

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import replace
from typing import Any, cast

from proxy.calls.deadlines import CallWatchdog, WatchdogTimer
from proxy.calls.eligibility.retry_policy import RetryPolicy
from proxy.calls.metering.metering import Meter
from proxy.calls.metering.settlement import AttemptInfo
from proxy.calls.pipeline import serve
from proxy.calls.ports import CallContext, Caller, Dependencies
from proxy.catalog.catalog import Catalog
from proxy.catalog.entries import Kind, Model, Route, Upstream
from proxy.prefix.explain.reasons import ProviderReason
from proxy.prefix.planned import Passthrough, Planned
from proxy.prefix.prompts.fingerprints import Pseudonymizer
from proxy.records.call import Call, Key
from proxy.records.receipt import Receipt
from proxy.records.request_fields import parse_request_fields
from proxy.records.timeline import Timeline
from proxy.upstream.port import Transport
from slo.price import PricePeriod, PriceSheet, Tariff, TokenRates
from slo.usage import Usage

KEY = Key(id="key_1", team="team_1", team_name="acme", feature="chat")
#: One dollar per million prompt tokens, a tenth of it cached, four for generated ones.
RATES = TokenRates(input=1_000_000_000, cache_read=100_000_000, output=4_000_000_000)
TARIFF = Tariff(periods=(PricePeriod(sheets={"": PriceSheet(rates=RATES)}),))
ESTIMATE = Usage(input=11, output=7)


def route(
    name: str = "one", kind: str = "openai", *, bills_abandoned: bool = False, **fields: Any
) -> Route:
    """A route to an upstream that stops when it is left, unless told otherwise."""
    upstream = Upstream(
        name=name,
        kind=cast("Kind", kind),
        base_url=f"http://{name}/v1",
        provider=name,
        bills_abandoned=bills_abandoned,
    )
    return Route(**{"name": f"{name}/m", "upstream": upstream, "tariff": TARIFF, **fields})


def chat_alone(served: Route) -> Route:
    """The route with an upstream that has no Responses API."""
    return replace(served, upstream=replace(served.upstream, serves_responses=False))


def catalog(*routes: Route) -> Catalog:
    served = routes or (route(),)
    return Catalog(
        models={"m": Model(id="m", routes=served)},
        upstreams={route.upstream.name: route.upstream for route in served},
        default=route("default", tariff=None),
    )


def call(body: bytes, endpoint: str = "chat/completions", **fields: Any) -> Call:
    return Call(
        **{
            "id": "call_1",
            "key": KEY,
            "method": "POST",
            "endpoint": endpoint,
            "headers": {"content-type": "application/json"},
            "body": body,
            "fields": fields["fields"] if "fields" in fields else parse_request_fields(body),
            "feature": "chat",
            "arrived": 1_790_000_000.0,
            **fields,
        }
    )


class FakeLedger:
    def __init__(self) -> None:
        self.receipts: list[Receipt] = []

    def keep(self, receipt: Receipt) -> None:
        self.receipts.append(receipt)


class FakeEstimator:
    """Estimates the same for every call, and remembers what it could learn from.

    Attributes:
        usual: Output tokens that most answers stay below; None where nothing is learned.
        average: Output tokens that answers have on average; None where nothing is learned.
    """

    def __init__(
        self, *, takes: float = 0.0, usual: int | None = None, average: int | None = None
    ) -> None:
        self._takes = takes
        self.usual = usual
        self.average = average
        self.learnt: list[Usage] = []
        self.delivered: list[str] = []

    async def usage(self, call: Call, route: Route, meter: Meter | None) -> Usage:
        await asyncio.sleep(self._takes)
        self.delivered.append(meter.delivered_text() if meter is not None else "")
        return ESTIMATE

    def learn(self, call: Call, route: Route, usage: Usage) -> None:
        self.learnt.append(usage)

    def usual_output(self, call: Call, route: Route) -> int | None:
        return self.usual

    def average_output(self, call: Call, route: Route) -> int | None:
        return self.average


class NoPlanning:
    """Sends every call unmodified.

    Attributes:
        told: What it was told of attempts, in order.
    """

    def __init__(self) -> None:
        self.told: list[str] = []

    async def plan(self, call: Call, route: Route) -> Passthrough:
        self.told.append("planned")
        return Passthrough()

    def note_answer_started(self, planned: Planned | Passthrough) -> None:
        self.told.append("begun")

    def note_attempt_ended(self, planned: Planned | Passthrough) -> None:
        self.told.append("ended")

    def note_refusal(self, planned: Planned) -> None:
        self.told.append("refused")

    async def wait_until_stored(self, planned: Planned | Passthrough) -> None:
        pass

    def settle(
        self, planned: Planned | Passthrough, usage: Usage | None, reason: ProviderReason | None
    ) -> None:
        return None


class FreeCalls:
    """Limits that every call fits into which costs nothing."""

    async def admit_free(self, attempt: AttemptInfo) -> Mapping[str, str]:
        return {}


class LoopTasks:
    """Tasks of the running loop, held until the test ends."""

    def __init__(self) -> None:
        self._tasks: list[asyncio.Task[None]] = []

    def start(self, work: Callable[[], Coroutine[Any, Any, None]]) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(work())
        self._tasks.append(task)
        return task

    keep = start

    def end(self, *tasks: asyncio.Task[None]) -> None:
        for task in tasks:
            task.cancel()


def fake_dependencies(
    transport: Transport,
    *routes: Route,
    patience: RetryPolicy | None = None,
    estimator: FakeEstimator | None = None,
) -> tuple[Dependencies, FakeLedger]:
    ledger = FakeLedger()
    dependencies = Dependencies(
        catalog=catalog(*routes),
        transport=transport,
        ledger=ledger,
        estimator=estimator or FakeEstimator(),
        planning=NoPlanning(),
        pseudonymizer=Pseudonymizer(b"secret"),
        retry_policy=patience or RetryPolicy(retries=0),
        tasks=LoopTasks(),
    )
    return dependencies, ledger


async def serve_call(
    incoming: Call, caller: Caller, table: Dependencies, timeline: Timeline
) -> None:
    """Serve a call as the front does once it has read its body."""
    with CallWatchdog(WatchdogTimer(table.tasks.start)) as watch:
        watch.watch_caller(caller.wait_until_gone)
        await serve(CallContext(incoming, caller, table, watch, timeline))
