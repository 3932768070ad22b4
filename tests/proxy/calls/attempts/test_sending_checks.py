"""A small model's answer that fails a check is billed, and the other model's is given."""

from contextlib import suppress
from dataclasses import replace
from typing import Any

import msgspec
import orjson

from proxy.calls.deadlines import ClientDisconnected
from proxy.calls.route_choice import RouteChoice, RoutingDecision
from proxy.fast_path.small_first.answer_checks import AnswerWebhook, CheckRules
from proxy.records.call import Call
from proxy.records.receipt import Outcome, Receipt, ServedBy
from proxy.records.timeline import Timeline
from slo.usage import Usage
from tests.fakes.call_dependencies import call as a_call
from tests.fakes.call_dependencies import fake_dependencies, route, serve_call
from tests.fakes.caller import FakeCaller
from tests.fakes.clock import run_in_instant_time, ticks
from tests.fakes.upstream import EVENTS, FakeTransport, ScriptedAnswer, Silence

SMALL, LARGE = route("small"), route("large")
SCHEMA = {"type": "object", "required": ["city"]}
FORMAT = {"type": "json_schema", "json_schema": {"name": "a", "schema": SCHEMA}}
ALL_CHECKS = CheckRules()
MESSAGES = [{"role": "user", "content": "Which city?"}]


class SmallBeforeLarge:
    """Sends every call to the small model first, with checks."""

    def __init__(self, checks: CheckRules) -> None:
        self._checks = checks

    def decide(self, call: Call, decision: RoutingDecision) -> RoutingDecision:
        small = RouteChoice(
            SMALL,
            "s",
            "first: small model first",
            served_by=ServedBy.SMALL,
            instead_of=LARGE,
            checks=self._checks,
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


def serve(
    *scripts: ScriptedAnswer,
    checks: CheckRules = ALL_CHECKS,
    leaves_after: float | None = None,
    **fields: Any,
) -> tuple[FakeCaller, list[Receipt]]:
    """The caller and the receipts of a call that is served by these answers."""
    caller = FakeCaller(leaves_after=leaves_after)

    async def run() -> list[Receipt]:
        deps, ledger = fake_dependencies(FakeTransport(scripts), LARGE)
        body = {"model": "m", "messages": MESSAGES, "response_format": FORMAT, **fields}
        with suppress(ClientDisconnected):
            await serve_call(
                a_call(orjson.dumps(body)),
                caller,
                replace(deps, small_first=SmallBeforeLarge(checks)),
                Timeline(ticks),
            )
        return ledger.receipts

    return caller, run_in_instant_time(run())


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


ASKING = CheckRules(webhook=AnswerWebhook("https://checks.test/", 1.0))


def verdict(*, accept: bool) -> ScriptedAnswer:
    return ScriptedAnswer([orjson.dumps({"accept": accept})])


def test_small_answer_that_the_teams_service_accepts_is_given():
    given = answer('{"city": "Rome"}')

    caller, (receipt,) = serve(given, verdict(accept=True), checks=ASKING)

    assert caller.body == given.pieces[0]
    assert receipt.served_by is ServedBy.SMALL


def test_small_answer_that_the_teams_service_refuses_is_billed_and_the_large_one_is_given():
    large = answer('{"city": "Bonn"}')
    scripts = (answer('{"city": "Rome"}'), verdict(accept=False), large)

    caller, (rejected, receipt) = serve(*scripts, checks=ASKING)

    assert caller.body == large.pieces[0]
    assert (rejected.error, rejected.served_by) == ("small_answer_rejected", ServedBy.SMALL)
    assert rejected.cost_nanos
    assert receipt.served_by is ServedBy.LARGE


def test_small_answer_is_billed_exactly_where_the_caller_leaves_while_the_service_is_asked():
    silent = ScriptedAnswer([Silence()])

    caller, (receipt,) = serve(answer('{"city": "Rome"}'), silent, checks=ASKING, leaves_after=0.5)

    assert caller.body == b""
    assert (receipt.outcome, receipt.estimated) == (Outcome.HUNG_UP, False)
    assert receipt.usage == Usage(input=10, output=5)


def test_the_teams_service_is_not_asked_about_an_answer_that_fails_another_check():
    caller, receipts = serve(answer('{"town": "Rome"}'), answer('{"city": "Bonn"}'), checks=ASKING)

    assert b"Bonn" in caller.body
    assert len(receipts) == 2
