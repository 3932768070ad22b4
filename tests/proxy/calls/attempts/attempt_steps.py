"""Attempts, run or brought to a step without the steps before."""

from collections.abc import Callable, Coroutine
from dataclasses import replace
from typing import Any

import msgspec

from proxy.calls.attempts.attempt import Attempt, AttemptOptions
from proxy.calls.attempts.steps import AnsweredAttempt, SentAttempt
from proxy.calls.deadlines import NoWatchdog
from proxy.calls.hedging import Opening
from proxy.calls.metering.settlement import AttemptInfo
from proxy.calls.pipeline import begin
from proxy.calls.ports import Admitted, CallContext, CheaperRoute, Dependencies
from proxy.calls.route_choice import RouteChoice
from proxy.calls.upstream_answer import UpstreamAnswer
from proxy.errors import UpstreamError
from proxy.prefix.planned import Passthrough
from proxy.providers.kinds import WIRES
from proxy.providers.port import PreparedRequest
from proxy.records.call import Call
from proxy.records.timeline import Timeline
from slo.concurrency import ConcurrencyLimit
from tests.fakes.call_dependencies import FreeCalls, NoPlanning, fake_dependencies, route
from tests.fakes.caller import FakeCaller
from tests.fakes.chaos import two_model_catalog
from tests.fakes.clock import ManualClock, run_in_instant_time, ticks
from tests.fakes.upstream import (
    FakeExchange,
    FakeTransport,
    Piece,
    ScriptedAnswer,
)
from tests.proxy.api.served_calls import streaming_call

ONE = route("one")
CHOICE = RouteChoice(ONE, "m")
_REQUEST = PreparedRequest(method="POST", path="/v1/chat/completions", headers={}, body=b"{}")


def sent_attempt(attempt: Attempt, **fields: Any) -> SentAttempt:
    """The attempt once it was sent."""
    step: dict[str, Any] = {
        "info": attempt.info,
        "plan": Passthrough(),
        "request": _REQUEST,
        "sent_at": 0.0,
    }
    return SentAttempt(**step | fields)


def answered_attempt(attempt: Attempt, ttft: float) -> AnsweredAttempt:
    """The attempt at its commit point."""
    timeline = Timeline(ManualClock(1000.0))
    answer = UpstreamAnswer(
        FakeExchange(ScriptedAnswer([])), WIRES["openai"], timeline, generates=True
    )
    step = msgspec.structs.asdict(sent_attempt(attempt))
    return AnsweredAttempt(**step, answer=answer, ttft=ttft)


class Admits(FreeCalls):
    """Answers every attempt the same."""

    def __init__(self, answer: Callable[[PreparedRequest], Admitted | CheaperRoute]) -> None:
        self._answer = answer
        self.fits: list[bool] = []

    async def admit(
        self, attempt: AttemptInfo, prepared: PreparedRequest, fits: Callable[[str], bool]
    ) -> Admitted | CheaperRoute:
        self.fits = [fits(name) for name in ("small", "gone")]
        return self._answer(prepared)


def planning_events(table: Dependencies) -> list[str]:
    assert isinstance(table.planning, NoPlanning)
    return table.planning.told


def open_attempt(
    *scripts: ScriptedAnswer | Piece,
    then: Callable[[Attempt, FakeTransport], Coroutine[Any, Any, Any]],
    limits: Admits | None = None,
    choice: RouteChoice = CHOICE,
    options: AttemptOptions | None = None,
    sent_call: Call | None = None,
) -> Any:
    """Return what ``then`` finds; no attempt leaves a receipt, and each plan is ended once."""

    async def work() -> Any:
        transport = FakeTransport(scripts)
        table, ledger = fake_dependencies(transport, ONE)
        table = replace(table, limits=limits, catalog=two_model_catalog())
        line = CallContext(
            sent_call or streaming_call(), FakeCaller(), table, NoWatchdog(), Timeline(ticks)
        )
        attempt = Attempt(line, choice, 0, options)
        table.route_health.health_of(ONE).limit = ConcurrencyLimit(1, 1, 1)
        result = await then(attempt, transport)
        assert ledger.receipts == []
        assert planning_events(table).count("ended") == 1
        limit = table.route_health.health_of(ONE).limit
        assert limit is not None
        assert limit.in_flight == 0
        assert all(exchange.closed for exchange in transport.exchanges)
        return result

    return run_in_instant_time(work())


async def run(attempt: Attempt, _: FakeTransport) -> tuple[Attempt, Opening]:
    """Run it to its end, as the pipeline does."""
    opening = await begin(attempt)
    attempt.close(opening if isinstance(opening, UpstreamError) else None)
    return attempt, opening
