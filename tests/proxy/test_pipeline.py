import asyncio
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import msgspec
import pytest

from proxy.call import Call
from proxy.catalog.entries import Route
from proxy.decide import Patience
from proxy.errors import InvalidCall, NotFound, ProxyError, UpstreamError
from proxy.prefix.planned import Unplanned
from proxy.receipt import Outcome, Receipt
from proxy.timeline import Timeline
from proxy.watch import HungUp, Late
from slo.usage import Usage
from tests.fakes import ready
from tests.fakes.answers import (
    ASKED,
    BEAT,
    COMPLETION,
    DONE,
    SHOWN,
    STREAM,
    STREAMED,
    chunk,
    failing,
    stream,
)
from tests.fakes.caller import FakeCaller
from tests.fakes.clock import played, ticks
from tests.fakes.desk import (
    ESTIMATE,
    FakeEstimator,
    FakeLedger,
    NoPlanning,
    call,
    desk,
    route,
    served,
)
from tests.fakes.upstream import (
    CONNECTING,
    EVENTS,
    SILENCE,
    After,
    FakeExchange,
    FakeTransport,
    Piece,
    Scripted,
    broken,
    unreachable,
)
from tests.proxy.prefix.sendings import ANTHROPIC, users

EXACT = Usage(input=36, cache_read=64, output=10)
ONE, TWO = route("one"), route("two")
QUICK = Patience(first_byte=10.0, stall=5.0, retries=1, longest_pause=8.0)


@dataclass
class Played:
    """What came of a call."""

    caller: FakeCaller
    transport: FakeTransport
    receipts: list[Receipt]
    error: ProxyError | None
    took: float
    told: list[str]

    @property
    def outcomes(self) -> list[tuple[Outcome, bool]]:
        return [(each.outcome, each.final) for each in self.receipts]

    @property
    def last(self) -> Receipt:
        return self.receipts[-1]


def play(
    *scripts: Scripted | Piece,
    asked: Call | None = None,
    routes: tuple[Route, ...] = (ONE,),
    patience: Patience = QUICK,
    estimator: FakeEstimator | None = None,
    **caller: Any,
) -> Played:
    """Serve one call; the law that holds for every call is checked here."""

    async def work() -> Played:
        transport = FakeTransport(scripts)
        table, ledger = desk(transport, *routes, patience=patience, estimator=estimator)
        taker = FakeCaller(seen=lambda: len(ledger.receipts), **caller)
        error, before = None, ticks()
        try:
            await served(asked or call(ASKED), taker, table, Timeline(ticks))
        except ProxyError as raised:
            error = raised
        assert asyncio.current_task().cancelling() == 0  # type: ignore[union-attr]
        assert isinstance(table.planning, NoPlanning)
        told = table.planning.told
        return Played(taker, transport, ledger.receipts, error, ticks() - before, told)

    done = played(work())
    assert done.told.count("planned") == done.told.count("ended")
    assert sum(each.final for each in done.receipts) == 1
    assert done.last.final
    assert [each.attempt for each in done.receipts] == list(range(len(done.receipts)))
    assert all(exchange.closed for exchange in done.transport.exchanges)
    assert b"verysecret" not in done.caller.body
    assert b"inner.host" not in done.caller.body
    if not isinstance(done.error, HungUp):
        assert (done.error is None) == (done.caller.head is not None)
    return done


def streamed(**fields: Any) -> Call:
    return call(STREAMED, **fields)


def test_a_whole_answer_reaches_the_caller_byte_for_byte_with_its_price():
    done = play(Scripted([COMPLETION]))

    assert done.caller.body == COMPLETION
    assert done.caller.receipt is done.last
    assert done.caller.head is not None
    assert done.caller.head.model == "m"
    assert done.last.usage == EXACT
    assert not done.last.estimated
    assert done.last.cost_nanos == 36_000 + 6_400 + 40_000
    assert (done.last.status, done.last.error, done.last.upstream_id) == (200, "", "chatcmpl-1")


def test_a_whole_answer_in_pieces_is_one_answer():
    assert play(Scripted([COMPLETION[:7], COMPLETION[7:]])).caller.pieces == [COMPLETION]


def test_the_receipt_of_a_whole_answer_is_kept_before_the_caller_has_it():
    assert play(Scripted([COMPLETION])).caller.observed == [1]


def test_the_receipt_of_a_stream_is_kept_before_the_caller_has_its_end():
    done = play(stream(chunk("a"), chunk("b"), DONE), asked=streamed())

    assert done.caller.observed == [0, 0, 1]


def test_the_receipt_of_a_stream_without_an_ending_event_is_kept_before_its_end():
    last = chunk("a", reason="stop")
    done = play(stream(last), asked=streamed(), trailer=b": cost\n\n")

    assert done.caller.pieces == [last, b": cost\n\n"]
    assert done.caller.observed == [0, 1]
    assert done.outcomes == [(Outcome.ANSWERED, True)]


def test_a_stream_reaches_the_caller_without_the_usage_it_did_not_ask_for():
    done = play(stream(STREAM), asked=streamed())

    assert done.caller.body == SHOWN
    assert done.last.usage == EXACT
    assert done.caller.is_ended


def test_the_answers_first_byte_is_timed_from_the_calls_arrival():
    done = play(stream(BEAT, chunk("a"), DONE), asked=streamed())

    assert done.last.ttft == 0.0
    assert done.last.overhead == 0.0


def test_planning_hears_when_an_answer_begins_and_when_each_attempt_is_over():
    done = play(failing(503), stream(STREAM), asked=streamed(), routes=(ONE, TWO))

    assert done.told == ["planned", "ended", "planned", "begun", "ended"]


@pytest.mark.parametrize("first", [stream(SILENCE), stream(BEAT, SILENCE)])
def test_planning_hears_of_an_attempt_whose_caller_left_before_it_began(first):
    done = play(first, asked=streamed(), leaves_after=3.0)

    assert done.told == ["planned", "ended"]


def test_a_caller_that_leaves_while_its_call_is_held_back_pays_nothing():
    class Holding(NoPlanning):
        async def planned(self, call: Call, route: Route) -> Unplanned:
            await asyncio.sleep(5.0)
            return await super().planned(call, route)

    async def work() -> tuple[list[Receipt], list[str], float]:
        table, ledger = desk(FakeTransport([]))
        holding, before = Holding(), ticks()
        held = replace(table, planning=holding)
        with pytest.raises(HungUp):
            await served(streamed(), FakeCaller(leaves_after=1.0), held, Timeline(ticks))
        return ledger.receipts, holding.told, ticks() - before

    (kept,), told, took = played(work())
    assert (kept.outcome, kept.usage, kept.final) == (Outcome.HUNG_UP, None, True)
    assert told == []
    assert took < 2.0


def test_planning_hears_of_an_attempt_that_cannot_be_said_on_its_route():
    many = call(ASKED[:-1] + b',"n":3}')
    done = play(asked=many, routes=(route("claude", kind="anthropic"),))

    assert done.told == ["planned", "ended"]


class Arranging(NoPlanning):
    """Changes every prompt, to something that an upstream may not take."""

    async def planned(self, call: Call, route: Route) -> Any:
        self.told.append("planned")
        found = ready.planned(users(ANTHROPIC, ("rules", 10)))
        return msgspec.structs.replace(found, body=call.body + b" ")


def arranged(*scripts: Scripted | Piece) -> tuple[list[Receipt], FakeTransport, list[str]]:
    """Serve a call whose prompt is changed."""

    async def work() -> tuple[list[Receipt], FakeTransport, list[str]]:
        transport = FakeTransport(scripts)
        table, ledger = desk(transport)
        planning = Arranging()
        with suppress(ProxyError):
            await served(
                call(ASKED), FakeCaller(), replace(table, planning=planning), Timeline(ticks)
            )
        return ledger.receipts, transport, planning.told

    return played(work())


def test_a_planned_prompt_that_is_refused_goes_again_as_it_came():
    kept, transport, told = arranged(failing(400), Scripted([COMPLETION]))

    assert [sent.body for _, sent in transport.sent] == [ASKED + b" ", ASKED]
    assert [(each.outcome, each.final) for each in kept] == [
        (Outcome.FAILED, False),
        (Outcome.ANSWERED, True),
    ]
    assert "as it came" in kept[1].notes[0]
    assert told == ["planned", "ended", "begun", "ended", "refused"]


def test_a_prompt_that_is_refused_either_way_is_not_plannings_fault():
    kept, transport, told = arranged(failing(400), failing(400))

    assert len(transport.sent) == 2
    assert [(each.outcome, each.final) for each in kept] == [
        (Outcome.FAILED, False),
        (Outcome.FAILED, True),
    ]
    assert "refused" not in told


def test_a_trailer_stands_before_the_end_of_a_stream():
    done = play(stream(chunk("a"), DONE), asked=streamed(), trailer=b": cost\n\n")

    assert done.caller.body == chunk("a") + b": cost\n\n" + DONE


def test_an_answer_of_another_kind_is_passed_on_as_it_comes_and_gets_no_trailer():
    sound = Scripted([b"\x00\x01", b"\x02"], headers={"content-type": "audio/mpeg"})
    done = play(sound, asked=call(ASKED, endpoint="audio/speech"), trailer=b": cost\n\n")

    assert done.caller.pieces == [b"\x00\x01", b"\x02"]
    assert done.last.outcome is Outcome.ANSWERED
    assert (done.last.usage, done.last.cost_nanos) == (None, None)


def test_an_answer_of_another_kind_that_breaks_stops_short():
    sound = Scripted([b"\x00", broken()], headers={"content-type": "audio/mpeg"})
    done = play(sound, asked=call(ASKED, endpoint="audio/speech"))

    assert done.caller.body == b"\x00"
    assert not done.caller.is_ended
    assert done.last.outcome is Outcome.BROKEN


def test_an_answer_without_a_body_is_an_answer():
    done = play(Scripted([], status=204, headers={}), asked=call(ASKED, endpoint="files/f"))

    assert (done.caller.body, done.caller.is_ended, done.last.status) == (b"", True, 204)


# Another route, only before the first content byte


@pytest.mark.parametrize(
    "first",
    [
        unreachable(),
        failing(503),
        failing(429),
        stream(),
        stream(BEAT),
        stream(BEAT, broken()),
        stream(b'data: {"error":{"message":"no"}}\n\n', SILENCE),
        stream(b"event: error\ndata: {}\n\n"),
        stream(DONE),
        Scripted([COMPLETION[:9], broken()]),
        SILENCE,
        stream(SILENCE),
        stream(BEAT, SILENCE),
        stream(b'event: ping\ndata: {"type":"ping"}\n\n', SILENCE),
    ],
)
def test_a_route_that_does_not_begin_leaves_the_call_to_the_next_one(first):
    done = play(first, stream(STREAM), asked=streamed(), routes=(ONE, TWO))

    assert done.outcomes == [(Outcome.FAILED, False), (Outcome.ANSWERED, True)]
    assert done.caller.body == SHOWN
    assert [name for name, _ in done.transport.sent] == ["one", "two"]
    assert [each.route for each in done.receipts] == ["one/m", "two/m"]


def test_each_attempt_starts_from_the_callers_own_bytes():
    other = route("two", model="their-name")
    done = play(failing(500), Scripted([COMPLETION]), routes=(ONE, other))

    first, second = (prepared.body for _, prepared in done.transport.sent)
    assert first == ASKED
    assert second == ASKED.replace(b'"m"', b'"their-name"')


def test_no_other_route_is_tried_after_the_first_content_byte():
    done = play(stream(chunk("a"), broken()), asked=streamed(), routes=(ONE, TWO))

    assert len(done.transport.sent) == 1


def test_a_failure_that_would_repeat_everywhere_is_told_at_once():
    done = play(failing(400, said="no such tool"), routes=(ONE, TWO))

    assert done.outcomes == [(Outcome.FAILED, True)]
    assert done.error is not None
    assert "no such tool" in done.error.message
    assert "verysecret" not in done.error.message


def test_the_last_failure_is_told_when_no_route_begins():
    done = play(unreachable(), failing(503), routes=(ONE, TWO), patience=Patience(retries=0))

    assert done.outcomes == [(Outcome.FAILED, False), (Outcome.FAILED, True)]
    assert isinstance(done.error, UpstreamError)
    assert (done.error.status, done.error.code) == (503, "upstream_overloaded")
    assert done.last.status == 503
    assert all(each.usage is None and not each.estimated for each in done.receipts)


def test_what_an_upstream_says_of_its_own_failure_stays_here():
    done = play(failing(500), patience=Patience(retries=0))

    assert done.error is not None
    assert "verysecret" not in done.error.message
    assert "inner" not in done.error.message


@pytest.mark.parametrize("pieces", [[b"x" * 70_000], [b'{"error"', broken()]])
def test_a_failure_whose_body_cannot_be_read_is_known_by_its_status(pieces):
    done = play(Scripted(pieces, status=503, headers={}), patience=Patience(retries=0))

    assert done.error is not None
    assert done.error.code == "upstream_overloaded"


@pytest.mark.parametrize(
    ("first", "usage"),
    [
        (unreachable(), None),
        (failing(503), None),
        (stream(b'data: {"error":{"message":"no"}}\n\n'), None),
        (stream(BEAT, broken()), ESTIMATE),
        (Scripted([COMPLETION[:9], broken()]), ESTIMATE),
    ],
)
def test_what_an_upstream_had_begun_to_work_on_is_billed(first, usage):
    failed = play(first, Scripted([COMPLETION]), routes=(ONE, TWO)).receipts[0]

    assert (failed.usage, failed.estimated) == (usage, usage is not None)


def test_counting_a_prompt_may_take_longer_than_the_first_byte():
    slow = FakeEstimator(takes=30.0)
    done = play(stream(BEAT, broken()), Scripted([COMPLETION]), estimator=slow)

    assert done.outcomes == [(Outcome.FAILED, False), (Outcome.ANSWERED, True)]
    assert done.receipts[0].usage == ESTIMATE


# Waiting and retrying


def test_a_short_retry_after_is_waited_for():
    done = play(failing(429, {"retry-after": "7"}), Scripted([COMPLETION]))

    assert done.outcomes == [(Outcome.FAILED, False), (Outcome.ANSWERED, True)]
    assert done.took == pytest.approx(7.0)
    assert done.last.overhead == pytest.approx(0.0)


def test_a_long_retry_after_is_passed_on():
    done = play(failing(429, {"retry-after": "9"}))

    assert done.error is not None
    assert done.error.retry_after == 9.0
    assert done.took == pytest.approx(0.0)


def test_a_first_byte_that_does_not_come_is_told_as_a_timeout_and_billed():
    done = play(stream(BEAT, SILENCE), asked=streamed())

    assert isinstance(done.error, Late)
    assert (done.error.status, done.error.code) == (504, "upstream_timeout")
    assert done.outcomes == [(Outcome.FAILED, True)]
    assert (done.last.usage, done.last.estimated) == (ESTIMATE, True)
    assert 10.0 <= done.took <= 11.0


def test_keep_alives_do_not_put_the_first_byte_off():
    done = play(stream(*[BEAT] * 50, SILENCE), asked=streamed())

    assert isinstance(done.error, Late)


def test_a_timeout_the_upstream_itself_reports_is_not_billed():
    done = play(failing(504), patience=Patience(retries=0))

    assert done.error is not None
    assert done.error.code == "upstream_timeout"
    assert (done.last.usage, done.last.estimated) == (None, False)


def test_each_route_has_its_own_time_for_the_first_byte():
    done = play(SILENCE, SILENCE, routes=(ONE, TWO))

    assert done.outcomes == [(Outcome.FAILED, False), (Outcome.FAILED, True)]
    assert 20.0 <= done.took <= 22.0


# Broken midway


@pytest.mark.parametrize("end", [broken(), SILENCE])
@pytest.mark.parametrize(
    ("endpoint", "starts"),
    [
        ("chat/completions", b'data: {"error":{"message":'),
        ("completions", b'data: {"error":{"message":'),
        ("responses", b'event: error\ndata: {"error":{"message":'),
    ],
)
def test_a_stream_that_cannot_go_on_says_so_in_the_words_of_its_endpoint(end, endpoint, starts):
    done = play(stream(chunk("a"), end), asked=streamed(endpoint=endpoint))

    assert done.caller.pieces[0] == chunk("a")
    assert done.caller.pieces[1].startswith(starts)
    assert done.caller.is_ended
    assert done.outcomes == [(Outcome.BROKEN, True)]
    assert (done.last.usage, done.last.estimated) == (ESTIMATE, True)
    assert done.last.status == 200
    assert done.last.error in {"upstream_connection_broken", "upstream_timeout"}
    assert done.caller.observed == [0, 1]


def test_a_stream_that_ends_before_its_answer_does_is_broken():
    done = play(stream(chunk("a")), asked=streamed())

    assert b'"code":"upstream_cut_off"' in done.caller.pieces[1]
    assert done.outcomes == [(Outcome.BROKEN, True)]
    assert done.last.estimated


@pytest.mark.parametrize("body", [b"{", b"", b"<html>"])
def test_a_whole_answer_that_is_none_is_told_as_a_failure(body):
    done = play(Scripted([body]))

    assert done.error is not None
    assert (done.error.status, done.last.status) == (502, 502)
    assert done.outcomes == [(Outcome.BROKEN, True)]


def test_what_was_delivered_before_the_break_is_what_is_counted():
    estimator = FakeEstimator()
    play(stream(chunk("Hel"), chunk("lo"), broken()), asked=streamed(), estimator=estimator)

    assert estimator.delivered == ["Hello"]


def test_an_upstream_that_stalls_midway_is_waited_for_so_long_and_no_longer():
    assert 5.0 <= play(stream(chunk("a"), SILENCE), asked=streamed()).took <= 6.0


def test_keep_alives_midway_do_not_put_a_stall_off():
    beats = [After(2.0, b": ping\n\n")] * 9
    done = play(stream(chunk("a"), *beats), asked=streamed())

    assert 5.0 <= done.took <= 6.0
    assert done.last.error == "upstream_timeout"


def test_content_midway_does():
    words = [After(2.0, chunk("b"))] * 9
    done = play(stream(chunk("a"), *words, STREAM), asked=streamed())

    assert done.took >= 18.0
    assert done.outcomes == [(Outcome.ANSWERED, True)]


def test_an_error_event_of_the_upstream_makes_the_answer_a_broken_one():
    error = b'data: {"error":{"message":"overloaded"}}\n\n'
    done = play(stream(chunk("a"), error), asked=streamed())

    assert done.outcomes == [(Outcome.BROKEN, True)]
    assert done.last.error == "upstream_failed_midway"
    assert done.last.estimated


def test_an_upstream_is_let_go_before_its_caller_is_told_of_the_break():
    exchange = FakeExchange(stream(chunk("a"), broken()))

    class Only(FakeTransport):
        async def open(self, *_: Any) -> FakeExchange:
            return exchange

    async def work() -> list[object]:
        table, _ = desk(Only([]))
        caller = FakeCaller(seen=lambda: exchange.closed)
        await served(streamed(), caller, table, Timeline(ticks))
        return caller.observed

    assert played(work()) == [0, 1]


@pytest.mark.parametrize("end", [broken(), SILENCE])
def test_what_happens_after_the_closing_event_changes_nothing(end):
    done = play(stream(STREAM, end), asked=streamed())

    assert done.caller.body == SHOWN
    assert done.caller.is_ended
    assert (done.last.outcome, done.last.usage, done.last.estimated) == (
        Outcome.ANSWERED,
        EXACT,
        False,
    )
    assert done.took <= 3.0


def test_usage_that_never_came_is_estimated():
    done = play(stream(chunk("a"), DONE), asked=streamed())

    assert (done.last.outcome, done.last.usage, done.last.estimated) == (
        Outcome.ANSWERED,
        ESTIMATE,
        True,
    )


def test_usage_that_cannot_be_true_is_estimated():
    zero = COMPLETION.replace(b": 10,", b": 0,").replace(b": 110,", b": 100,")

    assert play(Scripted([zero])).last.usage == ESTIMATE


def test_only_exact_usage_teaches_the_estimator():
    learner = FakeEstimator()
    play(Scripted([COMPLETION]), estimator=learner)
    play(stream(chunk("a"), broken()), asked=streamed(), estimator=learner)

    assert learner.learnt == [EXACT]


# The caller leaves

HANGS = {
    "before the headers": [SILENCE],
    "before the whole body": [Scripted([SILENCE])],
    "before the first event": [stream(SILENCE)],
    "among keep-alives": [stream(BEAT, SILENCE)],
    "midway": [stream(chunk("a"), SILENCE)],
}


@pytest.mark.parametrize("scripts", HANGS.values(), ids=HANGS)
@pytest.mark.parametrize("routes", [(ONE,), (ONE, TWO)])
def test_a_caller_that_leaves_closes_the_exchange_and_pays_for_what_was_done(scripts, routes):
    done = play(*scripts, asked=streamed(), routes=routes, leaves_after=3.0)

    assert isinstance(done.error, HungUp)
    assert done.outcomes == [(Outcome.HUNG_UP, True)]
    assert (done.last.usage, done.last.estimated) == (ESTIMATE, True)
    assert (done.last.status, done.last.error) == (499, "caller_hung_up")
    assert 3.0 <= done.took <= 3.5


def test_a_caller_that_leaves_in_a_pause_pays_nothing_for_what_was_not_sent():
    done = play(failing(429, {"retry-after": "7"}), leaves_after=3.0)

    assert isinstance(done.error, HungUp)
    assert done.outcomes == [(Outcome.FAILED, False), (Outcome.HUNG_UP, True)]
    assert (done.last.usage, done.last.estimated, done.last.route) == (None, False, "")
    assert len(done.transport.sent) == 1


def test_a_caller_that_stops_reading_is_given_up():
    done = play(stream(chunk("a"), chunk("b"), DONE), asked=streamed(), reads=1)

    assert isinstance(done.error, HungUp)
    assert done.outcomes == [(Outcome.HUNG_UP, True)]
    assert 5.0 <= done.took <= 6.0


@pytest.mark.parametrize(
    "script", [stream(chunk("a"), broken()), stream(chunk("a"), DONE), Scripted([COMPLETION])]
)
def test_a_caller_that_does_not_take_the_end_is_given_up(script):
    done = play(script, asked=streamed(), reads=0 if script.headers is not EVENTS else 1)

    assert isinstance(done.error, HungUp)
    assert 5.0 <= done.took <= 6.0


@pytest.mark.parametrize("first", [SILENCE, stream(chunk("a"), broken())])
def test_a_caller_that_leaves_while_tokens_are_counted_leaves_one_receipt(first):
    slow = FakeEstimator(takes=30.0)
    done = play(first, asked=streamed(), estimator=slow, leaves_after=12.0)

    assert isinstance(done.error, HungUp)
    assert len(done.receipts) == 1
    assert done.last.estimated
    assert done.last.usage == Usage(input=len(STREAMED) // 4)


# Refusals


def test_an_unknown_model_leaves_a_receipt_of_the_refusal():
    done = play(asked=call(ASKED.replace(b'"m"', b'"n"')))

    assert isinstance(done.error, NotFound)
    assert done.outcomes == [(Outcome.REFUSED, True)]
    assert (done.last.status, done.last.error, done.last.route) == (404, "model_not_found", "")


@pytest.mark.parametrize("before", [0, 1])
def test_a_call_that_cannot_be_said_to_an_upstream_is_refused(before):
    routes = (*[ONE] * before, route("claude", kind="anthropic"))
    body = b'{"model":"m","messages":[{"role":"user","content":"Hi"}],"n":3}'
    done = play(*[failing(503)] * before, asked=call(body), routes=routes)

    assert isinstance(done.error, InvalidCall)
    assert done.outcomes == [(Outcome.FAILED, False)] * before + [(Outcome.REFUSED, True)]
    assert (done.last.attempt, done.last.route) == (before, "claude/m")


# The process stops


def stopped(script: Scripted | Piece, *, after: float) -> FakeLedger:
    """What the ledger holds when the task of a call is cancelled by others."""

    async def work() -> FakeLedger:
        transport = FakeTransport([script])
        table, ledger = desk(transport, patience=QUICK, estimator=FakeEstimator(takes=60.0))
        calls = served(streamed(), FakeCaller(), table, Timeline(ticks))
        task = asyncio.ensure_future(calls)
        await asyncio.sleep(after)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert all(exchange.closed for exchange in transport.exchanges)
        return ledger

    return played(work())


@pytest.mark.parametrize(
    ("script", "outcome"),
    [
        (SILENCE, Outcome.FAILED),
        (stream(SILENCE), Outcome.FAILED),
        (failing(429, {"retry-after": "7"}), Outcome.FAILED),
        (stream(chunk("a" * 40), SILENCE), Outcome.BROKEN),
    ],
)
def test_a_process_that_is_stopped_keeps_a_receipt_of_what_it_was_doing(script, outcome):
    last = stopped(script, after=2.0).receipts[-1]

    assert (last.final, last.outcome, last.error) == (True, outcome, "gateway_interrupted")
    if outcome is Outcome.BROKEN:
        assert last.usage == Usage(input=len(STREAMED) // 4, output=10)


def test_a_process_that_is_stopped_while_counting_keeps_a_receipt():
    last = stopped(SILENCE, after=20.0).receipts[-1]

    assert (last.final, last.error) == (True, "upstream_timeout")


def test_our_own_mistake_leaves_a_receipt_too():
    class Clumsy(FakeTransport):
        async def open(self, *_: Any) -> Any:
            raise KeyError("a bug")

    async def work() -> list[Receipt]:
        table, ledger = desk(Clumsy([]))
        with pytest.raises(KeyError):
            await served(call(ASKED), FakeCaller(), table, Timeline(ticks))
        return ledger.receipts

    (receipt,) = played(work())
    assert (receipt.outcome, receipt.error, receipt.status) == (
        Outcome.FAILED,
        "gateway_interrupted",
        500,
    )


def opening(*kinds: str) -> bytes:
    return b"".join(f'event: {kind}\ndata: {{"type":"{kind}"}}\n\n'.encode() for kind in kinds)


#: What opens a stream on each wire, and where it was asked for.
OPENINGS = {
    "chat": (chunk(""), "chat/completions", "openai"),
    "responses": (opening("response.created", "response.in_progress"), "responses", "openai"),
    "messages": (opening("message_start", "ping"), "chat/completions", "anthropic"),
}
ERRORS = [b'data: {"error":{"message":"no"}}\n\n', b'data: {"type":"response.failed"}\n\n']


@pytest.mark.parametrize("opened", OPENINGS.values(), ids=OPENINGS)
@pytest.mark.parametrize("end", [*ERRORS, broken(), SILENCE])
def test_a_stream_that_opens_and_says_nothing_leaves_the_call_to_the_next_route(opened, end):
    said, endpoint, kind = opened
    asked = streamed(endpoint=endpoint)
    routes = (route("zero", kind=kind), ONE)
    done = play(stream(said, end), stream(STREAM), asked=asked, routes=routes)

    assert done.outcomes == [(Outcome.FAILED, False), (Outcome.ANSWERED, True)]
    assert done.receipts[0].ttft is None
    assert (done.receipts[0].usage is None) == (end in ERRORS)
    assert done.caller.body.startswith(chunk("Hel"))


@pytest.mark.parametrize("opened", OPENINGS.values(), ids=OPENINGS)
def test_a_stream_that_opens_and_falls_silent_is_late_for_its_first_byte(opened):
    said, endpoint, kind = opened
    asked = streamed(endpoint=endpoint)
    done = play(stream(said, SILENCE), asked=asked, routes=(route(kind=kind),))

    assert isinstance(done.error, Late)
    assert done.error.status == 504
    assert 10.0 <= done.took <= 11.0


def test_the_first_content_is_timed_not_the_opening():
    done = play(stream(chunk(""), After(3.0, chunk("a")), DONE), asked=streamed())

    assert done.last.ttft == pytest.approx(3.0)


@pytest.mark.parametrize("media", ["text/html", "text/plain", ""])
def test_a_page_is_no_answer_of_an_endpoint_that_generates(media):
    page = Scripted([b"<html>Log in</html>"], headers={"content-type": media})
    done = play(page)

    assert done.error is not None
    assert (done.error.status, done.error.code) == (502, "upstream_malformed")
    assert done.caller.body == b""


@pytest.mark.parametrize("first", [CONNECTING, Scripted([SILENCE], status=503)])
@pytest.mark.parametrize("leaves", [3.0, None])
def test_what_nobody_worked_on_is_not_billed(first, leaves):
    done = play(first, leaves_after=leaves)

    assert isinstance(done.error, HungUp if leaves else Late)
    assert (done.last.usage, done.last.estimated) == (None, False)


@pytest.mark.parametrize("asked", [ASKED, ASKED[:-1] + b',"n":3}'])
def test_a_large_body_is_prepared_the_same(asked):
    large = asked.replace(b"Hello", b"Hello" * 60_000)
    claude = route("claude", kind="anthropic")

    async def work() -> list[Receipt]:
        table, ledger = desk(FakeTransport([unreachable()]), claude)
        with pytest.raises(ProxyError):
            await served(call(large), FakeCaller(), table, Timeline(ticks))
        return ledger.receipts

    outcome = Outcome.REFUSED if b'"n"' in asked else Outcome.FAILED
    assert [each.outcome for each in asyncio.run(work())] == [outcome]


def test_a_process_that_is_stopped_while_a_body_is_prepared_keeps_a_receipt():
    large = STREAMED.replace(b"Hello", b"Hello" * 60_000)

    async def work() -> list[Receipt]:
        table, ledger = desk(FakeTransport([]))
        task = asyncio.ensure_future(served(call(large), FakeCaller(), table, Timeline(ticks)))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return ledger.receipts

    (kept,) = asyncio.run(work())
    assert (kept.final, kept.error, kept.usage) == (True, "gateway_interrupted", None)


def test_a_caller_that_leaves_while_a_broken_answer_is_counted_has_hung_up():
    slow = FakeEstimator(takes=30.0)
    done = play(
        stream(chunk("a" * 8), broken()), asked=streamed(), estimator=slow, leaves_after=3.0
    )

    assert isinstance(done.error, HungUp)
    assert done.outcomes == [(Outcome.HUNG_UP, True)]
    assert done.last.usage == Usage(input=len(STREAMED) // 4, output=2)


def test_a_hang_up_stays_one_if_the_process_stops_while_it_is_counted():
    async def work() -> list[Receipt]:
        table, ledger = desk(
            FakeTransport([stream(chunk("a"), SILENCE)]), estimator=FakeEstimator(takes=60.0)
        )
        calls = served(streamed(), FakeCaller(leaves_after=3.0), table, Timeline(ticks))
        task = asyncio.ensure_future(calls)
        await asyncio.sleep(10.0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return ledger.receipts

    (kept,) = played(work())
    assert (kept.outcome, kept.error) == (Outcome.HUNG_UP, "caller_hung_up")


def test_what_generates_nothing_is_not_estimated_when_the_process_stops():
    sound = Scripted([b"\x00", SILENCE], headers={"content-type": "audio/mpeg"})

    async def work() -> list[Receipt]:
        table, ledger = desk(FakeTransport([sound]))
        asked = call(ASKED, endpoint="audio/speech")
        task = asyncio.ensure_future(served(asked, FakeCaller(), table, Timeline(ticks)))
        await asyncio.sleep(2.0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return ledger.receipts

    (kept,) = played(work())
    assert (kept.outcome, kept.usage, kept.estimated) == (Outcome.BROKEN, None, False)


def test_why_an_upstream_failed_is_in_the_log_and_not_in_the_answer(caplog):
    lost = unreachable()
    lost.detail = "gaierror: no such host inner.host"
    done = play(lost, patience=Patience(retries=0))

    assert "upstream one: upstream_unreachable (gaierror: no such host inner.host)" in caplog.text
    assert done.error is lost
    assert "inner.host" not in done.error.message
