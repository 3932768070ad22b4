"""Attempts that are left while their upstream may go on, and what they are settled at."""

import asyncio
import dataclasses
from typing import Any

import msgspec
import orjson
import pytest

from proxy.calls.attempts.abandoned_attempts import (
    UNLEARNED_AVERAGE_OUTPUT_TOKENS,
    is_abandoned,
    may_be_billed,
    note_sent,
    settle_abandoned,
)
from proxy.calls.attempts.lost_attempts import late_error, stalled_error, superseded_error
from proxy.calls.deadlines import (
    AwaitedEvent,
    ClientDisconnected,
    NoWatchdog,
    _UpstreamTimeout,
    gateway_interrupted,
)
from proxy.calls.eligibility.retry_policy import BILLED_ENDPOINTS
from proxy.calls.metering.metering import Meter
from proxy.calls.metering.settlement import AttemptInfo
from proxy.calls.ports import CallContext
from proxy.providers.answers.usage import openai_usage
from proxy.records.receipt import Outcome, PendingAttempt
from proxy.records.timeline import Timeline
from proxy.services.budgets.cost_bounds.clamps import clamp_note
from slo.usage import Usage
from tests.fakes.answers import DONE, chunk, event, failed_answer, stream, usage_chunk
from tests.fakes.call_dependencies import (
    ESTIMATE,
    FakeEstimator,
    call,
    fake_dependencies,
    route,
)
from tests.fakes.caller import FakeCaller
from tests.fakes.clock import ticks
from tests.fakes.receipts import a_receipt
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
    return orjson.dumps({"model": "m", "messages": []} | fields)


def attempt(over: Any = BILLS, notes: tuple[str, ...] = (), **fields: Any) -> AttemptInfo:
    return AttemptInfo(call=call(body(**fields)), route=over, notes=notes)


def settle(
    info: AttemptInfo,
    *,
    average: int | None = None,
    reason: Any = LEFT[0],
    usage: Usage = COUNTED,
) -> tuple[AttemptInfo, Usage]:
    """The attempt, settled where such answers are so long on average."""

    async def work() -> tuple[AttemptInfo, Usage]:
        table, _ = fake_dependencies(FakeTransport([]), estimator=FakeEstimator(average=average))
        line = CallContext(info.call, FakeCaller(), table, NoWatchdog(), Timeline(ticks))
        return settle_abandoned(line, info, reason, usage, None)

    return asyncio.run(work())


class SentNotes:
    """Remembers the attempts that are noted against a kill."""

    def __init__(self) -> None:
        self.noted: list[PendingAttempt] = []

    def begin(self, pending: PendingAttempt) -> None:
        self.noted.append(pending)

    def end(self, call_id: str, attempt: int) -> None:
        raise AssertionError


def note_of(info: AttemptInfo, average: int | None = None) -> PendingAttempt:
    """The note of the attempt, where such answers are so long on average."""

    async def work() -> PendingAttempt:
        notes = SentNotes()
        table, _ = fake_dependencies(FakeTransport([]), estimator=FakeEstimator(average=average))
        table = dataclasses.replace(table, sent=notes)
        note_sent(CallContext(info.call, FakeCaller(), table, NoWatchdog(), Timeline(ticks)), info)
        return notes.noted[0]

    return asyncio.run(work())


@pytest.mark.parametrize(
    ("average", "fields", "notes", "tokens"),
    [
        (None, {}, (), UNLEARNED_AVERAGE_OUTPUT_TOKENS),
        (None, {"max_tokens": 100}, (), 100),
        (None, {"max_tokens": -7}, (), UNLEARNED_AVERAGE_OUTPUT_TOKENS),
        (None, {"max_tokens": 100, "n": 3}, (), 300),
        (None, {"max_tokens": 100}, (clamp_note("max_tokens", 30, "c"),), 30),
        (200, {"max_tokens": 1000}, (), 200),
        (5000, {"max_tokens": 1000}, (), 1000),
        (5000, {}, (), 4096),
    ],
)
def test_note_against_a_kill_has_no_more_output_than_the_call_asks_for(
    average, fields, notes, tokens
):
    assert note_of(attempt(notes=notes, **fields), average).output == tokens


def test_note_against_a_kill_leaves_encoded_pictures_out_of_the_prompt():
    url = {"url": f"data:image/png;base64,{'A' * 20_000_000}"}
    turn = {"role": "user", "content": [{"type": "image_url", "image_url": url}]}

    assert note_of(attempt(messages=[turn])).prompt_bytes < 400


@pytest.mark.parametrize("reason", LEFT, ids=lambda reason: type(reason).__name__)
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
    info = AttemptInfo(call=call(b'{"prompt":["a","b"]}', "completions"), route=BILLS)
    meter = Meter(openai_usage, streamed=True)
    for piece in (event({"choices": [{"text": "a"}]}), ENDS, usage_chunk()):
        meter.feed(piece)
    assert may_be_billed(info, ClientDisconnected(), meter)
    meter.feed(DONE)
    assert not may_be_billed(info, ClientDisconnected(), meter)


def test_an_abandoned_attempt_that_generates_nothing_does_not_go_on():
    read = AttemptInfo(call=call(body(), "files", method="GET"), route=BILLS)
    posted = AttemptInfo(call=call(body(), "images/generations"), route=BILLS)

    assert not may_be_billed(read, ClientDisconnected(), None)
    assert not may_be_billed(posted, ClientDisconnected(), None)


@pytest.mark.parametrize(
    ("average", "fields", "notes", "tokens"),
    [
        (None, {}, (), UNLEARNED_AVERAGE_OUTPUT_TOKENS),
        (None, {"n": 3}, (), 3 * UNLEARNED_AVERAGE_OUTPUT_TOKENS),
        (None, {"n": 10**9}, (), 128 * UNLEARNED_AVERAGE_OUTPUT_TOKENS),
        (None, {"max_completion_tokens": 128_000}, (), UNLEARNED_AVERAGE_OUTPUT_TOKENS),
        (None, {"max_completion_tokens": 100}, (), 100),
        (None, {"max_completion_tokens": 100, "n": 3}, (), 300),
        (None, {"max_completion_tokens": 100}, (clamp_note("max_tokens", 30, "c"),), 30),
        (200, {"max_completion_tokens": 1000}, (), 200),
        (5000, {"max_completion_tokens": 1000}, (), 1000),
    ],
)
def test_an_abandoned_attempt_is_settled_at_the_average_answer_within_its_limit(
    average, fields, notes, tokens
):
    info, usage = settle(attempt(notes=notes, **fields), average=average)

    assert usage == Usage(input=11, output=tokens)
    assert info.notes == (
        *notes,
        f"abandoned: {tokens} output tokens are counted, for its upstream may have gone on",
    )


def test_more_than_expected_that_was_delivered_is_what_counts():
    info = attempt(max_completion_tokens=1000)
    usage = Usage(input=11, output=300, reasoning=100)
    note = "abandoned: 400 output tokens are counted, for its upstream may have gone on"

    assert settle(info, average=350, usage=usage) == (attempt_with_notes(info, note), usage)
    assert settle(info, average=500, usage=usage)[1] == Usage(input=11, output=400, reasoning=100)


def attempt_with_notes(info: AttemptInfo, *notes: str) -> AttemptInfo:
    return msgspec.structs.replace(info, notes=notes)


@pytest.mark.parametrize("over", [BILLS, STOPS], ids=["goes on", "stops"])
@pytest.mark.parametrize(
    ("fields", "output", "reasoning"),
    [
        ({"max_tokens": 5}, 3, 2),
        ({"max_tokens": 2, "n": 2}, 2, 2),
        ({"max_completion_tokens": 1}, 0, 1),
        ({"max_tokens": 9}, 7, 2),
        ({}, 7, 2),
    ],
)
def test_no_count_of_ours_is_above_the_limit_that_the_call_asks_for(
    over, fields, output, reasoning
):
    usage = Usage(input=11, output=7, reasoning=2)
    settled = settle(attempt(over, **fields), average=1, usage=usage)[1]

    assert (settled.output, settled.reasoning) == (output, reasoning)


def test_only_estimated_receipts_with_the_note_are_of_abandoned_attempts():
    info, _ = settle(attempt())

    assert is_abandoned(a_receipt(1, estimated=True, notes=info.notes))
    assert not is_abandoned(a_receipt(1, notes=info.notes))
    assert not is_abandoned(a_receipt(1, estimated=True, notes=("lowered",)))


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
def test_a_call_that_is_abandoned_is_settled_at_a_likely_length(
    scripts: list[ScriptedAnswer | Piece], leaves: float | None, outcome: Outcome | None
) -> None:
    request = call(body(stream=True, max_completion_tokens=1000))
    caller: dict[str, Any] = {"leaves_after": leaves} if leaves is not None else {}

    done = serve_one_call(*scripts, sent_call=request, routes=(BILLS,), **caller)

    assert outcome in (None, done.last.outcome)
    assert (done.last.usage, done.last.estimated) == (
        Usage(input=ESTIMATE.input, output=UNLEARNED_AVERAGE_OUTPUT_TOKENS),
        True,
    )
    assert done.last.cost_nanos == ESTIMATE.input * 1_000 + UNLEARNED_AVERAGE_OUTPUT_TOKENS * 4_000


def test_a_call_whose_second_choice_goes_on_is_settled_at_the_length_of_both():
    request = call(body(stream=True, max_completion_tokens=1000, n=2))
    pieces = (chunk("a"), ENDS, SECOND, usage_chunk(), SILENCE)

    done = serve_one_call(stream(*pieces), sent_call=request, routes=(BILLS,), leaves_after=3.0)

    assert done.last.usage is not None
    assert done.last.usage.generated_tokens == 2 * UNLEARNED_AVERAGE_OUTPUT_TOKENS


@pytest.mark.parametrize(
    ("pieces", "choices"),
    [((), 1), ((chunk("a"),), 1), ((chunk("a"), SECOND), 2), ((chunk("a"), ENDS, SECOND), 2)],
    ids=["none seen", "one", "two", "one ended"],
)
def test_choices_of_a_stream_that_never_began_are_not_booked(pieces, choices):
    request = call(body(stream=True, n=128))

    done = serve_one_call(
        stream(*pieces, SILENCE), sent_call=request, routes=(BILLS,), leaves_after=3.0
    )

    assert done.last.usage is not None
    assert done.last.usage.generated_tokens == choices * UNLEARNED_AVERAGE_OUTPUT_TOKENS
    dollars = ESTIMATE.input * 1_000 + choices * UNLEARNED_AVERAGE_OUTPUT_TOKENS * 4_000
    assert done.last.cost_nanos == dollars


@pytest.mark.parametrize(
    "script",
    [SILENCE, ScriptedAnswer([SILENCE]), stream(b": hi\n\n", b'data: {"a":1}\n\n', SILENCE)],
)
@pytest.mark.parametrize("endpoint", sorted(BILLED_ENDPOINTS - {"embeddings", "completions"}))
def test_an_abandoned_call_of_any_endpoint_is_settled_at_a_likely_length(endpoint, script):
    words = "x" * 4000
    message_fields = {
        "stream": True,
        "max_tokens": 4096,
        "messages": [{"role": "user", "content": words}],
    }
    prompt = message_fields if endpoint == "messages" else {"input": words}
    request = call(orjson.dumps({"model": "m", **prompt}), endpoint)

    done = serve_one_call(script, sent_call=request, routes=(BILLS,), leaves_after=3.0)

    assert done.last.usage is not None
    assert done.last.usage.generated_tokens == UNLEARNED_AVERAGE_OUTPUT_TOKENS


@pytest.mark.parametrize("scripts", HANGS.values(), ids=HANGS)
def test_an_engine_that_stops_when_it_is_left_bills_what_it_did(scripts):
    request = call(body(stream=True, max_completion_tokens=1000))

    done = serve_one_call(*scripts, sent_call=request, routes=(STOPS,), leaves_after=3.0)

    assert (done.last.usage, done.last.estimated) == (ESTIMATE, True)


def test_an_attempt_that_the_upstream_refused_or_ended_is_not_settled_at_its_limit():
    request = call(body(stream=True))

    assert serve_one_call(failed_answer(400), sent_call=request, routes=(BILLS,)).last.usage is None
    assert (
        serve_one_call(stream(chunk("a"), DONE), sent_call=request, routes=(BILLS,)).last.usage
        == ESTIMATE
    )


def test_a_call_that_left_while_it_was_counted_is_settled_at_a_likely_length_too():
    slow = FakeEstimator(takes=30.0)
    request = call(body(stream=True, max_completion_tokens=1000))

    done = serve_one_call(
        SILENCE, sent_call=request, routes=(BILLS,), estimator=slow, leaves_after=12.0
    )

    assert done.last.usage == Usage(
        input=len(request.body) // 4, output=UNLEARNED_AVERAGE_OUTPUT_TOKENS
    )


FIGURES = [b"128000", b"1e11", b"1e308", b"1e999", b"9" * 4_299, b"9" * 9_000, b"-7", b'"1e30"']


@pytest.mark.parametrize("choices", FIGURES, ids=lambda figures: figures[:8].decode())
@pytest.mark.parametrize("limit", FIGURES, ids=lambda figures: figures[:8].decode())
def test_no_figure_of_a_caller_that_leaves_becomes_an_amount(limit: bytes, choices: bytes) -> None:
    written = b'{"model":"m","stream":true,"max_completion_tokens":%b,"n":%b}' % (limit, choices)
    unlimited = route("bills", bills_abandoned=True)

    done = serve_one_call(SILENCE, sent_call=call(written), routes=(unlimited,), leaves_after=3.0)

    assert done.last.usage is not None
    assert 1 <= done.last.usage.generated_tokens <= 128 * UNLEARNED_AVERAGE_OUTPUT_TOKENS
    assert done.last.cost_nanos is not None
    assert done.last.cost_nanos <= 1_000_000_000
