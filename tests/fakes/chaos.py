"""Many calls at once through dependencies where anything may fail at any time."""

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from proxy.calls.eligibility.retry_policy import RetryPolicy
from proxy.calls.metering.settlement import AttemptInfo
from proxy.calls.ports import Admitted, CheaperRoute, Dependencies
from proxy.calls.route_health import RouteHealthRegistry
from proxy.catalog.catalog import Catalog
from proxy.catalog.entries import Model, Route, Upstream
from proxy.errors import CallerError, ProxyError
from proxy.prefix.explain.reasons import ProviderReason
from proxy.prefix.planned import Passthrough, Planned
from proxy.prefix.prompts.fingerprints import Pseudonymizer
from proxy.providers.port import PreparedRequest
from proxy.records.call import Call
from proxy.records.receipt import Receipt
from proxy.records.timeline import Timeline
from proxy.services.objectives.router import ObjectiveRouter
from slo.concurrency import ConcurrencyLimit
from slo.usage import Usage
from tests.fakes.answers import STREAM, chunk, failed_answer, stream
from tests.fakes.call_dependencies import (
    FakeEstimator,
    FreeCalls,
    LoopTasks,
    call,
    route,
    serve_call,
)
from tests.fakes.caller import FakeCaller
from tests.fakes.clock import ticks
from tests.fakes.upstream import (
    SILENCE,
    After,
    FakeExchange,
    ScriptedAnswer,
    broken_connection,
    unreachable,
)

#: When the loop's clock says 1000; calls arrive in seconds since 1970.
EPOCH = 1_790_000_000.0 - 1000.0
HURRIED = RetryPolicy(first_byte_s=20.0, stall_s=10.0, retries=1, max_pause_s=4.0)

ANSWERS: Mapping[str, Callable[[float], ScriptedAnswer]] = {
    "answers": lambda wait: stream(After(wait, STREAM)),
    "chats": lambda wait: stream(After(wait, chunk("a")), After(wait, STREAM)),
    "breaks": lambda wait: stream(After(wait, chunk("a")), broken_connection()),
    "ends early": lambda wait: stream(After(wait, b": beat\n\n")),
    "is silent": lambda wait: stream(After(wait, b": beat\n\n"), SILENCE),
    "is busy": lambda _: failed_answer(503),
    "limits": lambda _: failed_answer(429, {"retry-after": "1"}),
    "refuses": lambda _: failed_answer(400),
    "is too small": lambda _: failed_answer(400, text="the prompt is too long"),
}
NEVER, UNREACHABLE = "never", "unreachable"
PLAYS = (*ANSWERS, NEVER, UNREACHABLE)


@dataclass(frozen=True)
class ScriptedAttempt:
    """The fate of one attempt, with the seconds that each step of it takes.

    Attributes:
        play: What its upstream does, of ``PLAYS``.
        answers_in: Seconds until it does.
        opens_in: Seconds to its headers.
        planned_in: Seconds that planning takes.
        admitted_in: Seconds that admission takes.
        admission: "" for yes; else ``no``, ``small`` for another model, or ``mistake``.
    """

    play: str = "answers"
    answers_in: float = 0.0
    opens_in: float = 0.0
    planned_in: float = 0.0
    admitted_in: float = 0.0
    admission: str = ""


@dataclass
class ChaosCall:
    """One call, and what became of it."""

    call: Call
    fates: list[ScriptedAttempt]
    caller: FakeCaller
    task: "asyncio.Task[None]"
    began: float
    over: float | None = None
    receipts: list[Receipt] = field(default_factory=list)

    def fate(self, number: int) -> ScriptedAttempt:
        return self.fates[min(number, len(self.fates) - 1)]


class ChaosHarness(FreeCalls):
    """The dependencies of all calls, and the calls; it is every port but the caller."""

    def __init__(
        self, router: ObjectiveRouter, catalog: Catalog, *, room: int | None = None
    ) -> None:
        self.router = router
        self.calls: dict[str, ChaosCall] = {}
        self.exchanges: list[FakeExchange] = []
        self.planned_ended: Counter[int] = Counter()
        self._plans: list[Passthrough] = []
        self._sent: Counter[str] = Counter()
        self._planned: Counter[str] = Counter()
        self.tasks = LoopTasks()
        self.lanes = RouteHealthRegistry()
        if room is not None:
            for known_route in routes(catalog):
                self.lanes.health_of(known_route).limit = ConcurrencyLimit(room, room, room)
        self.dependencies = Dependencies(
            catalog=catalog,
            transport=self,
            ledger=self,
            estimator=FakeEstimator(takes=1.0),
            planning=self,
            pseudonymizer=Pseudonymizer(b"secret"),
            retry_policy=HURRIED,
            tasks=self.tasks,
            route_health=self.lanes,
            limits=self,
            router=router,
        )

    def begin(self, fates: list[ScriptedAttempt], body: str, **caller: float | None) -> ChaosCall:
        """A call comes."""
        number = f"call_{len(self.calls)}"
        text = f'{{"model":"m","stream":true,"user":"{number}","messages":[{body}]}}'.encode()
        taker = FakeCaller(**caller)  # type: ignore[arg-type]
        started_call = call(text, id=number, arrived=EPOCH + ticks())
        line = serve_call(started_call, taker, self.dependencies, Timeline(ticks))
        task = asyncio.get_running_loop().create_task(self._note_end(number, line))
        self.calls[number] = ChaosCall(started_call, fates, taker, task, ticks())
        return self.calls[number]

    async def _note_end(self, number: str, line: object) -> None:
        try:
            await line  # type: ignore[misc]
        finally:
            self.calls[number].over = ticks()

    def keep(self, receipt: Receipt) -> None:
        self.calls[receipt.call_id].receipts.append(receipt)
        self.router.record_receipt(receipt)
        if receipt.final:
            self.lanes.record_call(receipt.cost_nanos, ticks())

    async def plan(self, call: Call, route: Route) -> Passthrough:
        number = self._planned[call.id]
        self._planned[call.id] += 1
        await asyncio.sleep(self.calls[call.id].fate(number).planned_in)
        self._plans.append(Passthrough(f"{call.id}/{number}"))
        return self._plans[-1]

    def note_answer_started(self, planned: Planned | Passthrough) -> None:
        assert not self.planned_ended[id(planned)]

    def note_attempt_ended(self, planned: Planned | Passthrough) -> None:
        self.planned_ended[id(planned)] += 1

    def note_refusal(self, planned: Planned) -> None:
        raise AssertionError("nothing was planned")

    async def wait_until_stored(self, planned: Planned | Passthrough) -> None:
        await asyncio.sleep(0.5)

    def settle(
        self, planned: Planned | Passthrough, usage: Usage | None, reason: ProviderReason | None
    ) -> None:
        assert not self.planned_ended[id(planned)]

    @property
    def plans_left(self) -> list[str]:
        """Reasons of the plans that did not end exactly once."""
        return [plan.why for plan in self._plans if self.planned_ended[id(plan)] != 1]

    async def admit(
        self, attempt: AttemptInfo, prepared: PreparedRequest, fits: Callable[[str], bool]
    ) -> Admitted | CheaperRoute:
        fate = self.calls[attempt.call.id].fate(attempt.number)
        await asyncio.sleep(fate.admitted_in)
        if fate.admission == "no":
            raise CallerError("It does not fit.", code="budget_exceeded")
        if fate.admission == "mistake":
            raise ZeroDivisionError
        if fate.admission == "small" and fits("small"):
            return CheaperRoute("small", "it is cheaper there")
        return Admitted(prepared, headers={"x-thriftgate-left": "1"})

    async def open(self, upstream: Upstream, prepared: PreparedRequest) -> FakeExchange:
        number = next(call_id for call_id in self.calls if f'"{call_id}"'.encode() in prepared.body)
        fate = self.calls[number].fate(self._sent[number])
        self._sent[number] += 1
        await asyncio.sleep(fate.opens_in)
        if fate.play == UNREACHABLE:
            raise unreachable()
        if fate.play == NEVER:
            await asyncio.get_running_loop().create_future()
        self.exchanges.append(FakeExchange(ANSWERS[fate.play](fate.answers_in)))
        return self.exchanges[-1]


def two_model_catalog() -> Catalog:
    """Two routes to the model that is asked for, one to a smaller one."""
    offered: dict[str, Any] = {"window": 100_000, "max_output": 10_000, "can": frozenset()}
    here = (route("one", **offered), route("two", **offered))
    small = (route("small", **offered),)
    return Catalog(
        models={
            "m": Model(id="m", routes=here, fallbacks=("small",), when_too_long=("small",)),
            "small": Model(id="small", routes=small),
        },
        upstreams={route.upstream.name: route.upstream for route in (*here, *small)},
        default=route("default", tariff=None),
    )


def routes(catalog: Catalog) -> list[Route]:
    return [route for model in catalog.models.values() for route in model.routes]


def is_reportable(error: BaseException | None) -> bool:
    """True if the call ended in a way that its front knows how to tell."""
    return error is None or isinstance(error, ProxyError | ZeroDivisionError)
