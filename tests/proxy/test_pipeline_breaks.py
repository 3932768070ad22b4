"""Answers that break midway, and what a break is not."""

from typing import Any

import pytest

from proxy.receipt import Outcome
from proxy.timeline import Timeline
from tests.fakes.answers import ASKED, SHOWN, STREAM, chunk, stream
from tests.fakes.caller import FakeCaller
from tests.fakes.clock import played, ticks
from tests.fakes.desk import ESTIMATE, FakeEstimator, call, desk, served
from tests.fakes.upstream import SILENCE, After, FakeExchange, FakeTransport, Scripted, broken
from tests.proxy.servings import EXACT, play, streamed


def test_an_answer_of_another_kind_that_breaks_stops_short():
    sound = Scripted([b"\x00", broken()], headers={"content-type": "audio/mpeg"})
    done = play(sound, asked=call(ASKED, endpoint="audio/speech"))

    assert done.caller.body == b"\x00"
    assert not done.caller.is_ended
    assert done.last.outcome is Outcome.BROKEN


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
