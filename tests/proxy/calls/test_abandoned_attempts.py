"""Attempts that are left while their upstream may go on, and what they are settled at."""

import asyncio
from dataclasses import replace
from typing import Any

import orjson
import pytest

from proxy.calls.abandoned_attempts import (
    DEFAULT_ABANDONED_OUTPUT_TOKENS,
    may_be_billed,
    output_limit,
    settle_abandoned,
)
from proxy.calls.deadlines import (
    AwaitedEvent,
    ClientDisconnected,
    NoWatchdog,
    _UpstreamTimeout,
    gateway_interrupted,
)
from proxy.calls.lost_attempts import late_error, stalled_error, superseded_error
from proxy.calls.metering import Meter
from proxy.calls.ports import CallContext
from proxy.calls.retry_policy import BILLED_ENDPOINTS
from proxy.calls.settlement import AttemptInfo
from proxy.providers.usage import openai_usage
from proxy.records.receipt import Outcome
from proxy.records.timeline import Timeline
from proxy.services.budgets.clamps import clamp_note
from slo.usage import Usage
from tests.fakes.answers import DONE, chunk, event, failed_answer, stream, usage_chunk
from tests.fakes.call_dependencies import (
    ESTIMATE,
    FakeEstimator,
    HoldsNothing,
    call,
    fake_dependencies,
    route,
)
from tests.fakes.caller import FakeCaller
from tests.fakes.clock import ticks
from tests.fakes.upstream import SILENCE, FakeTransport, Piece, ScriptedAnswer, broken_connection
from tests.proxy.api.served_calls import serve_one_call

BILLS = route("bills", bills_abandoned=True, max_output=4096)
STOPS = route("stops", max_output=4096)
LEFT = [
    ClientDisconnected(),
    _UpstreamTimeout(AwaitedEvent.NEXT_BYTE),
    gateway_interrupted(),
    late_error(),
    stalled_error(),
    superseded_error(),
]
COUNTED = Usage(input=11, output=7)


def body(**fields: Any) -> bytes:
    return orjson.dumps({"model": "m", "messages": [], **fields})


def attempt(over: Any = BILLS, notes: tuple[str, ...] = (), **fields: Any) -> AttemptInfo:
    return AttemptInfo(call=call(body(**fields)), route=over, notes=notes)


def settle(
    made: AttemptInfo,
    *,
    usual: int | None = None,
    held: int | None = None,
    reason: Any = LEFT[0],
    usage: Usage = COUNTED,
) -> tuple[AttemptInfo, Usage]:
    """The attempt, settled where budgets hold this much and such answers are this long."""

    async def work() -> tuple[AttemptInfo, Usage]:
        limits = HoldsBack(held) if held is not None else None
        table, _ = fake_dependencies(FakeTransport([]), estimator=FakeEstimator(usual=usual))
        line = CallContext(
            made.call, FakeCaller(), replace(table, limits=limits), NoWatchdog(), Timeline(ticks)
        )
        return settle_abandoned(line, made, reason, usage, None)

    return asyncio.run(work())


class HoldsBack(HoldsNothing):
    """Limits that admit nobody and hold this much."""

    def __init__(self, held: int) -> None:
        self.held = held

    async def admit(self, *_: object) -> Any:
        raise NotImplementedError


@pytest.mark.parametrize("reason", LEFT, ids=lambda each: type(each).__name__)
def test_an_attempt_that_the_gateway_leaves_may_be_billed(reason):
    assert may_be_billed(attempt(), reason, None)
    assert not may_be_billed(attempt(STOPS), reason, None)


@pytest.mark.parametrize("reason", [None, broken_connection()])
def test_an_attempt_that_ended_at_the_upstream_is_not(reason):
    assert not may_be_billed(attempt(), reason, None)


def test_an_answer_that_was_complete_when_its_caller_left_does_not_go_on():
    meter = Meter(openai_usage, streamed=True)
    meter.feed(chunk("a"))
    assert may_be_billed(attempt(), ClientDisconnected(), meter)
    meter.feed(ENDS)
    assert may_be_billed(attempt(), ClientDisconnected(), meter), "its reasoning is not known yet"
    meter.feed(usage_chunk())
    assert not may_be_billed(attempt(), ClientDisconnected(), meter)
    assert may_be_billed(attempt(n=2), ClientDisconnected(), meter), "another choice goes on"


def test_a_text_completion_of_several_prompts_goes_on_until_it_says_that_it_is_done():
    made = AttemptInfo(call=call(b'{"prompt":["a","b"]}', "completions"), route=BILLS)
    meter = Meter(openai_usage, streamed=True)
    for piece in (event({"choices": [{"text": "a"}]}), ENDS, usage_chunk()):
        meter.feed(piece)
    assert may_be_billed(made, ClientDisconnected(), meter)
    meter.feed(DONE)
    assert not may_be_billed(made, ClientDisconnected(), meter)


def test_an_abandoned_attempt_that_generates_nothing_does_not_go_on():
    read = AttemptInfo(call=call(body(), "files", method="GET"), route=BILLS)
    posted = AttemptInfo(call=call(body(), "images/generations"), route=BILLS)

    assert not may_be_billed(read, ClientDisconnected(), None)
    assert not may_be_billed(posted, ClientDisconnected(), None)
    assert output_limit(AttemptInfo(call=call(body(), "embeddings"), route=BILLS)) == 0


@pytest.mark.parametrize(
    ("fields", "notes", "limit"),
    [
        ({}, (), 4096),
        ({"max_completion_tokens": 1000}, (), 1000),
        ({"max_completion_tokens": 1000, "n": 3}, (), 3000),
        ({"max_completion_tokens": 1000}, (clamp_note("max_tokens", 300, "c"),), 300),
    ],
)
def test_the_output_limit_is_what_was_asked_lowered_by_ceilings(fields, notes, limit):
    assert output_limit(attempt(notes=notes, **fields)) == limit


@pytest.mark.parametrize(
    ("held", "usual", "tokens"),
    [(None, None, 1000), (None, 200, 200), (None, 5000, 1000), (640, 200, 640), (1000, 20, 1000)],
)
def test_it_is_settled_at_what_is_held_else_usual_else_the_limit(held, usual, tokens):
    made, usage = settle(attempt(max_completion_tokens=1000), held=held, usual=usual)

    assert usage == Usage(input=11, output=tokens)
    assert made.notes == (
        f"abandoned: {tokens} output tokens are counted, for its upstream may have gone on",
    )


@pytest.mark.parametrize(
    ("limit", "tokens"), [(128_000, DEFAULT_ABANDONED_OUTPUT_TOKENS), (1_000, 1_000)]
)
def test_without_a_stated_limit_or_any_answer_it_is_settled_at_a_guess(limit, tokens):
    wide = route("wide", bills_abandoned=True, max_output=limit)

    assert settle(attempt(wide))[1] == Usage(input=11, output=tokens)


def test_more_than_expected_that_was_delivered_is_what_counts():
    made = attempt(max_completion_tokens=1000)
    usage = Usage(input=11, output=300, reasoning=100)

    assert settle(made, usual=400, usage=usage) == (made, usage)
    assert settle(made, usual=500, usage=usage)[1] == Usage(input=11, output=400, reasoning=100)


ENDS = event({"id": "c", "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]})
SECOND = event({"choices": [{"index": 1, "delta": {"content": "b"}, "finish_reason": None}]})
HANGS = {
    "before the headers": [SILENCE],
    "before the whole body": [ScriptedAnswer([SILENCE])],
    "before the first event": [stream(SILENCE)],
    "midway": [stream(chunk("a"), SILENCE)],
    "midway, with more than is kept": [stream(*[chunk("x" * 200_000)] * 22, SILENCE)],
    "before its usage": [stream(chunk("a"), ENDS, SILENCE)],
}


@pytest.mark.parametrize("scripts", HANGS.values(), ids=HANGS)
@pytest.mark.parametrize(
    ("leaves", "outcome"), [(3.0, Outcome.HUNG_UP), (None, None)], ids=["caller", "deadline"]
)
def test_a_call_that_is_abandoned_is_settled_at_its_output_limit(
    scripts: list[ScriptedAnswer | Piece], leaves: float | None, outcome: Outcome | None
) -> None:
    asked = call(body(stream=True, max_completion_tokens=1000))
    caller: dict[str, Any] = {"leaves_after": leaves} if leaves is not None else {}

    done = serve_one_call(*scripts, asked=asked, routes=(BILLS,), **caller)

    assert outcome in (None, done.last.outcome)
    assert (done.last.usage, done.last.estimated) == (
        Usage(input=ESTIMATE.input, output=1000),
        True,
    )
    assert done.last.cost_nanos == ESTIMATE.input * 1_000 + 1000 * 4_000


def test_a_call_whose_second_choice_goes_on_is_settled_at_the_limit_of_both():
    asked = call(body(stream=True, max_completion_tokens=1000, n=2))
    pieces = (chunk("a"), ENDS, SECOND, usage_chunk(), SILENCE)

    done = serve_one_call(stream(*pieces), asked=asked, routes=(BILLS,), leaves_after=3.0)

    assert done.last.usage is not None
    assert done.last.usage.generated_tokens == 2000


@pytest.mark.parametrize(
    "script",
    [SILENCE, ScriptedAnswer([SILENCE]), stream(b": hi\n\n", b'data: {"a":1}\n\n', SILENCE)],
)
@pytest.mark.parametrize("endpoint", sorted(BILLED_ENDPOINTS - {"embeddings", "completions"}))
def test_an_abandoned_call_of_any_endpoint_is_settled_at_its_reservation(endpoint, script):
    words = "x" * 4000
    said = {"stream": True, "max_tokens": 4096, "messages": [{"role": "user", "content": words}]}
    prompt = said if endpoint == "messages" else {"input": words}
    asked = call(orjson.dumps({"model": "m", **prompt}), endpoint)

    done = serve_one_call(script, asked=asked, routes=(BILLS,), leaves_after=3.0)

    assert done.last.usage is not None
    assert done.last.usage.generated_tokens == 4096


@pytest.mark.parametrize("scripts", HANGS.values(), ids=HANGS)
def test_an_engine_that_stops_when_it_is_left_bills_what_it_did(scripts):
    asked = call(body(stream=True, max_completion_tokens=1000))

    done = serve_one_call(*scripts, asked=asked, routes=(STOPS,), leaves_after=3.0)

    assert (done.last.usage, done.last.estimated) == (ESTIMATE, True)


def test_an_attempt_that_the_upstream_refused_or_ended_is_not_settled_at_its_limit():
    asked = call(body(stream=True))

    assert serve_one_call(failed_answer(400), asked=asked, routes=(BILLS,)).last.usage is None
    assert (
        serve_one_call(stream(chunk("a"), DONE), asked=asked, routes=(BILLS,)).last.usage
        == ESTIMATE
    )


def test_a_call_that_left_while_it_was_counted_is_settled_at_its_limit_too():
    slow = FakeEstimator(takes=30.0)
    asked = call(body(stream=True, max_completion_tokens=1000))

    done = serve_one_call(SILENCE, asked=asked, routes=(BILLS,), estimator=slow, leaves_after=12.0)

    assert done.last.usage == Usage(input=len(asked.body) // 4, output=1000)
