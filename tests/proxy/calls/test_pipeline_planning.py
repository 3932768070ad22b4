"""Tests of what planning hears of a call, and what becomes of a prompt it changed."""

import asyncio
from contextlib import suppress
from dataclasses import replace
from typing import Any

import msgspec
import pytest

from proxy.calls.deadlines import ClientDisconnected
from proxy.catalog.entries import Route
from proxy.errors import ProxyError
from proxy.prefix.planned import Passthrough
from proxy.records.call import Call
from proxy.records.receipt import Outcome, Receipt
from proxy.records.timeline import Timeline
from tests.fakes import planned_calls
from tests.fakes.answers import ASKED, BEAT, COMPLETION, STREAM, failed_answer, stream
from tests.fakes.call_dependencies import NoPlanning, call, fake_dependencies, route, serve_call
from tests.fakes.caller import FakeCaller
from tests.fakes.clock import run_in_instant_time, ticks
from tests.fakes.upstream import SILENCE, FakeTransport, Piece, ScriptedAnswer
from tests.proxy.api.served_calls import ONE, TWO, serve_one_call, streaming_call
from tests.proxy.prefix.sent_calls import ANTHROPIC, users

pytestmark = pytest.mark.instant_time


def test_planning_hears_when_an_answer_begins_and_when_each_attempt_is_over():
    done = serve_one_call(
        failed_answer(503), stream(STREAM), sent_call=streaming_call(), routes=(ONE, TWO)
    )

    assert done.told == ["planned", "ended", "planned", "begun", "ended"]


@pytest.mark.parametrize("first", [stream(SILENCE), stream(BEAT, SILENCE)])
def test_planning_hears_of_an_attempt_whose_caller_left_before_it_began(first):
    done = serve_one_call(first, sent_call=streaming_call(), leaves_after=3.0)

    assert done.told == ["planned", "ended"]


async def test_a_caller_that_leaves_while_its_call_is_held_back_pays_nothing():
    class Holding(NoPlanning):
        async def plan(self, call: Call, route: Route) -> Passthrough:
            await asyncio.sleep(5.0)
            return await super().plan(call, route)

    table, ledger = fake_dependencies(FakeTransport([]))
    holding, before = Holding(), ticks()
    holding_table = replace(table, planning=holding)
    with pytest.raises(ClientDisconnected):
        await serve_call(
            streaming_call(), FakeCaller(leaves_after=1.0), holding_table, Timeline(ticks)
        )
    (receipt,), events, took = ledger.receipts, holding.told, ticks() - before
    assert (receipt.outcome, receipt.usage, receipt.final) == (Outcome.HUNG_UP, None, True)
    assert events == []
    assert took < 2.0


def test_planning_hears_of_an_attempt_that_cannot_be_said_on_its_route():
    many = call(ASKED[:-1] + b',"n":3}')
    done = serve_one_call(sent_call=many, routes=(route("claude", kind="anthropic"),))

    assert done.told == ["planned", "ended"]


class PromptChangingPlanning(NoPlanning):
    """Changes every prompt, to something that an upstream may not take."""

    async def plan(self, call: Call, route: Route) -> Any:
        self.told.append("planned")
        planned = planned_calls.planned_call(users(ANTHROPIC, ("rules", 10)))
        return msgspec.structs.replace(planned, body=call.body + b" ")


def serve_changed_prompt(
    *scripts: ScriptedAnswer | Piece, planning: NoPlanning | None = None
) -> tuple[list[Receipt], FakeTransport, list[str]]:
    """Serve a call whose prompt is changed."""
    planning = planning or PromptChangingPlanning()

    async def work() -> tuple[list[Receipt], FakeTransport, list[str]]:
        transport = FakeTransport(scripts)
        table, ledger = fake_dependencies(transport)
        with suppress(ProxyError):
            await serve_call(
                call(ASKED), FakeCaller(), replace(table, planning=planning), Timeline(ticks)
            )
        return ledger.receipts, transport, planning.told

    return run_in_instant_time(work())


def test_a_planned_prompt_that_is_refused_goes_again_unmodified():
    receipts, transport, events = serve_changed_prompt(
        failed_answer(400), ScriptedAnswer([COMPLETION])
    )

    assert [prepared.body for _, prepared in transport.sent] == [ASKED + b" ", ASKED]
    assert [(receipt.outcome, receipt.final) for receipt in receipts] == [
        (Outcome.FAILED, False),
        (Outcome.ANSWERED, True),
    ]
    assert "unmodified" in receipts[1].notes[0]
    assert events == ["planned", "ended", "begun", "ended", "refused"]


def test_a_prompt_that_is_refused_either_way_is_not_plannings_fault():
    receipts, transport, events = serve_changed_prompt(failed_answer(400), failed_answer(400))

    assert len(transport.sent) == 2
    assert [(receipt.outcome, receipt.final) for receipt in receipts] == [
        (Outcome.FAILED, False),
        (Outcome.FAILED, True),
    ]
    assert "refused" not in events


def test_a_planned_prompt_is_not_sent_again_where_its_key_may_not_use_the_model():
    _, transport, events = serve_changed_prompt(failed_answer(403))

    assert len(transport.sent) == 1
    assert "refused" not in events
