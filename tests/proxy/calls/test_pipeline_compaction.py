"""Calls whose prompt is compacted, and calls whose compaction fails or is refused."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec
import pytest

from proxy.catalog.entries import Route
from proxy.errors import ProxyError
from proxy.prefix.planned import Passthrough
from proxy.records.call import Call, UncompactedConversation
from proxy.records.compaction_result import NO_COMPACTION, CompactionResult, passthrough_result
from proxy.records.receipt import Outcome, Receipt
from proxy.records.timeline import Timeline
from slo.usage import Usage
from tests.fakes import planned_calls
from tests.fakes.answers import ASKED, COMPLETION, failed_answer
from tests.fakes.call_dependencies import (
    FakeEstimator,
    NoPlanning,
    call,
    fake_dependencies,
    serve_call,
)
from tests.fakes.caller import FakeCaller
from tests.fakes.clock import run_in_instant_time, ticks
from tests.fakes.upstream import FakeTransport, Piece, ScriptedAnswer
from tests.proxy.api.served_calls import ONE, TWO
from tests.proxy.prefix.sent_calls import ANTHROPIC, users

pytestmark = pytest.mark.instant_time


SHORT = b'{"model":"m","messages":[{"role":"user","content":"In short."}]}'


@dataclass
class FakeCompaction:
    """Compacts every call, or leaves it unmodified."""

    kept: CompactionResult | None = None
    routes: list[str] = field(default_factory=list)
    refusals: int = 0

    def has_part(self, call: Call) -> bool:
        return True

    async def compact(self, call: Call, route: Route) -> CompactionResult:
        assert call.body == ASKED  # each attempt starts from the caller's own bytes
        self.routes.append(route.name)
        if self.kept is not None:
            return self.kept
        sent_call = msgspec.structs.replace(
            call, body=SHORT, origin=UncompactedConversation(messages=(b"{}",), turns=3)
        )
        return CompactionResult(
            mode="facts",
            why="pays",
            sent=sent_call,
            is_compacted=True,
            before=900,
            after=90,
            needed=2,
        )

    async def track_unmodified(self, call: Call, compaction: CompactionResult) -> CompactionResult:
        origin = UncompactedConversation(messages=(b"{}",), turns=3, reset=True)
        return msgspec.structs.replace(
            compaction, sent=msgspec.structs.replace(call, origin=origin)
        )

    def record_refusal(self, call: Call, compaction: CompactionResult) -> None:
        assert compaction.is_compacted
        self.refusals += 1


class RecordingPlanner(NoPlanning):
    """Remembers the calls it was to plan, and changes them if it is to."""

    def __init__(self, *, changes: bool = False) -> None:
        super().__init__()
        self.heard: list[Call] = []
        self._changes = changes

    async def plan(self, call: Call, route: Route) -> Any:
        self.told.append("planned")
        self.heard.append(call)
        if not self._changes:
            return Passthrough()
        planned = planned_calls.planned_call(users(ANTHROPIC, ("rules", 10)))
        return msgspec.structs.replace(planned, body=call.body + b" ")


@dataclass
class FinishedCall:
    receipts: list[Receipt]
    sent: Sequence[bytes]
    caller: FakeCaller
    estimator: FakeEstimator


def serve(
    compacts: FakeCompaction,
    *scripts: ScriptedAnswer | Piece,
    planning: NoPlanning | None = None,
    **fields: Any,
) -> FinishedCall:
    async def work() -> FinishedCall:
        transport, caller, estimator = FakeTransport(scripts), FakeCaller(), FakeEstimator()
        table, ledger = fake_dependencies(
            transport, *fields.get("routes", (ONE,)), estimator=estimator
        )
        table = replace(table, compaction=compacts, planning=planning or NoPlanning())
        with suppress(ProxyError):
            await serve_call(call(ASKED), caller, table, Timeline(ticks))
        bodies = [prepared.body for _, prepared in transport.sent]
        return FinishedCall(ledger.receipts, bodies, caller, estimator)

    return run_in_instant_time(work())


def test_the_shorter_prompt_is_planned_sent_and_told():
    planning = RecordingPlanner()
    done = serve(FakeCompaction(), ScriptedAnswer([COMPLETION]), planning=planning)
    (receipt,) = done.receipts

    assert done.sent == [SHORT]
    assert [request.body for request in planning.heard] == [SHORT]
    assert planning.heard[0].origin == UncompactedConversation(messages=(b"{}",), turns=3)
    assert (receipt.compaction, receipt.compaction_why, receipt.compacted) == (
        "facts",
        "pays",
        True,
    )
    assert (receipt.tokens_before, receipt.tokens_after, receipt.needed) == (900, 90, 2)
    assert receipt.compaction_nanos is not None
    assert done.caller.head is not None
    assert done.caller.head.headers["x-thriftgate-compaction"] == (
        "compacted; reason=pays; tokens=900->90; reset=no"
    )


async def test_token_ratios_are_learned_from_the_compacted_prompt():
    bodies: list[bytes] = []

    class Learns(FakeEstimator):
        def learn(self, call: Call, route: Route, usage: Usage) -> None:
            bodies.append(call.body)

    table, _ = fake_dependencies(
        FakeTransport([ScriptedAnswer([COMPLETION])]), ONE, estimator=Learns()
    )
    await serve_call(
        call(ASKED), FakeCaller(), replace(table, compaction=FakeCompaction()), Timeline(ticks)
    )
    assert bodies == [SHORT]


@pytest.mark.parametrize("why", ["failed", "late", "signed", "invalid"])
def test_where_compaction_fails_the_callers_bytes_go_out_with_a_reason(why):
    done = serve(FakeCompaction(passthrough_result("facts", why)), ScriptedAnswer([COMPLETION]))
    (receipt,) = done.receipts

    assert done.sent == [ASKED]
    assert (receipt.compaction, receipt.compaction_why, receipt.compacted) == ("facts", why, False)
    assert (receipt.compaction_nanos, receipt.reset) == (None, False)
    assert done.caller.head is not None
    assert done.caller.head.headers["x-thriftgate-compaction"] == f"unmodified; reason={why}"


def test_trouble_is_noted():
    done = serve(
        FakeCompaction(passthrough_result("facts", "failed")), ScriptedAnswer([COMPLETION])
    )

    assert done.receipts[0].notes == ("compaction failed, so the conversation was sent unmodified",)


def test_a_call_that_compaction_has_no_part_in_says_nothing_of_it():
    done = serve(FakeCompaction(NO_COMPACTION), ScriptedAnswer([COMPLETION]))

    assert done.receipts[0].compaction == ""
    assert done.caller.head is not None
    assert "x-thriftgate-compaction" not in done.caller.head.headers


@pytest.mark.parametrize("status", [400, 422])
def test_a_compacted_prompt_that_is_refused_is_sent_again_unmodified_and_the_refusal_recorded(
    status,
):
    compacts, planning = FakeCompaction(), RecordingPlanner(changes=True)
    done = serve(compacts, failed_answer(status), ScriptedAnswer([COMPLETION]), planning=planning)

    assert done.sent == [SHORT + b" ", ASKED + b" "]
    assert [(receipt.outcome, receipt.final) for receipt in done.receipts] == [
        (Outcome.FAILED, False),
        (Outcome.ANSWERED, True),
    ]
    assert [receipt.compaction_why for receipt in done.receipts] == ["pays", "refused"]
    assert compacts.refusals == 1
    assert planning.told[-1] != "refused"
    assert planning.heard[-1].origin == UncompactedConversation(
        messages=(b"{}",), turns=3, reset=True
    )


def test_where_planning_was_at_fault_compaction_is_not_blamed():
    compacts, planning = FakeCompaction(), RecordingPlanner(changes=True)
    done = serve(
        compacts,
        failed_answer(400),
        failed_answer(400),
        ScriptedAnswer([COMPLETION]),
        planning=planning,
    )

    assert done.sent == [SHORT + b" ", ASKED + b" ", ASKED]
    assert compacts.refusals == 0
    assert planning.told[-1] == "refused"


def test_a_prompt_that_is_refused_either_way_is_nobodys_fault():
    compacts = FakeCompaction()
    done = serve(compacts, failed_answer(400), failed_answer(400))

    assert done.sent == [SHORT, ASKED]
    assert compacts.refusals == 0


def test_a_compacted_prompt_that_is_too_long_is_not_sent_uncompacted():
    message = "This model's maximum context length is 4096 tokens."
    done = serve(FakeCompaction(), failed_answer(400, text=message))

    assert done.sent == [SHORT]


def test_a_fallback_route_compacts_again_from_the_callers_bytes():
    compacts = FakeCompaction()
    done = serve(compacts, failed_answer(503), ScriptedAnswer([COMPLETION]), routes=(ONE, TWO))

    assert compacts.routes == ["one/m", "two/m"]
    assert done.sent == [SHORT, SHORT]
