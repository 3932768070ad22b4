"""A small model's answer that fails a check is billed, and the other model's is given."""

import asyncio
from dataclasses import replace
from typing import Any

import msgspec
import orjson

from proxy.calls.route_choice import RouteChoice, RoutingDecision
from proxy.fast_path.small_first.answer_checks import CheckRules
from proxy.records.call import Call
from proxy.records.receipt import Outcome, Receipt, ServedBy
from proxy.records.timeline import Timeline
from tests.fakes.call_dependencies import call as a_call
from tests.fakes.call_dependencies import fake_dependencies, route, serve_call
from tests.fakes.caller import FakeCaller
from tests.fakes.clock import ticks
from tests.fakes.upstream import EVENTS, FakeTransport, ScriptedAnswer

SMALL, LARGE = route("small"), route("large")
SCHEMA = {"type": "object", "required": ["city"]}
FORMAT = {"type": "json_schema", "json_schema": {"name": "a", "schema": SCHEMA}}
MESSAGES = [{"role": "user", "content": "Which city?"}]


class SmallBeforeLarge:
    """Sends every call to the small model first, with checks."""

    def decide(self, call: Call, decision: RoutingDecision) -> RoutingDecision:
        small = RouteChoice(
            SMALL,
            "s",
            "first: small model first",
            served_by=ServedBy.SMALL,
            instead_of=LARGE,
            checks=CheckRules(),
        )
        large = RouteChoice(LARGE, "m", served_by=ServedBy.LARGE)
        return msgspec.structs.replace(decision, choices=(small, large))

    def note_answer(self, call: Call, meter: Any) -> None:
        """Do nothing."""


def answer(text: str) -> ScriptedAnswer:
    choice = {
        "index": 0,
        "message": {"role": "assistant", "content": text},
        "finish_reason": "stop",
    }
    usage = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}
    return ScriptedAnswer([orjson.dumps({"id": "a", "choices": [choice], "usage": usage})])


def stream(text: str) -> ScriptedAnswer:
    chunk = {
        "id": "a",
        "object": "chat.completion.chunk",
        "choices": [{"index": 0, "delta": {"content": text}, "finish_reason": "stop"}],
    }
    return ScriptedAnswer(
        [b"data: " + orjson.dumps(chunk) + b"\n\n", b"data: [DONE]\n\n"], headers=EVENTS
    )


def serve(*scripts: ScriptedAnswer, **fields: Any) -> tuple[FakeCaller, list[Receipt]]:
    """The caller and the receipts of a call that is served by these answers."""
    caller = FakeCaller()

    async def run() -> list[Receipt]:
        deps, ledger = fake_dependencies(FakeTransport(scripts), LARGE)
        body = {"model": "m", "messages": MESSAGES, "response_format": FORMAT, **fields}
        await serve_call(
            a_call(orjson.dumps(body)),
            caller,
            replace(deps, small_first=SmallBeforeLarge()),
            Timeline(ticks),
        )
        return ledger.receipts

    return caller, asyncio.run(run())


def test_small_answer_that_passes_its_checks_is_given():
    given = answer('{"city": "Rome"}')

    caller, (receipt,) = serve(given)

    assert caller.body == given.pieces[0]
    assert receipt.served_by is ServedBy.SMALL
    assert receipt.fast_path_nanos == 0  # both routes have one price here


def test_small_answer_that_fails_a_check_is_billed_and_the_large_one_is_given():
    large = answer('{"city": "Rome"}')

    caller, (rejected, receipt) = serve(answer('{"town": "Rome"}'), large)

    assert caller.body == large.pieces[0]
    assert (rejected.outcome, rejected.error) == (Outcome.FAILED, "small_answer_rejected")
    assert not rejected.final
    assert rejected.served_by is ServedBy.SMALL
    assert rejected.usage == receipt.usage
    assert not rejected.estimated
    assert rejected.cost_nanos
    assert rejected.fast_path_nanos == -rejected.cost_nanos
    assert (receipt.outcome, receipt.served_by) == (Outcome.ANSWERED, ServedBy.LARGE)
    assert receipt.final


def test_stream_is_given_as_it_comes():
    caller, (receipt,) = serve(stream("Rome"), stream=True)

    assert b"Rome" in caller.body
    assert receipt.served_by is ServedBy.SMALL
