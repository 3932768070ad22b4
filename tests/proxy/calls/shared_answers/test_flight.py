"""An answer under way: recorded once, read by each from its start and at its own pace."""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.calls.ports import Head
from proxy.calls.shared_answers.flight import Flight, FlightReader, RecordingCaller
from proxy.records.receipt import Outcome, Receipt
from tests.fakes.caller import FakeCaller
from tests.fakes.clock import run_in_instant_time
from tests.fakes.receipts import a_receipt

T = TypeVar("T")
HEAD = Head(200, {"content-type": "text/event-stream"}, "m", ())
ANSWERED = a_receipt(outcome=Outcome.ANSWERED, status=200)


def run(work: Coroutine[Any, Any, T]) -> T:
    return run_in_instant_time(work)


async def read_all(reader: FlightReader, pause: float = 0.0) -> bytes:
    """All that a reader gets, with the account as a bar."""
    received, is_last = b"", False
    while not is_last:
        await asyncio.sleep(pause)
        found = await reader.next_run()
        received += found.before + (b"" if found.after is None else b"|" + found.after)
        is_last = found.is_last
    return received


@given(
    st.lists(st.binary(max_size=4), min_size=1, max_size=8),
    st.integers(0, 7),
    st.lists(st.integers(0, 8), min_size=1, max_size=4),
)
def test_every_reader_gets_all_pieces_and_the_account_in_its_place(pieces, closing, joins):
    closing = min(closing, len(pieces) - 1)

    async def read_flight() -> list[bytes]:
        flight = Flight("k")
        flight.join()  # the first caller stays
        flight.begin(HEAD)
        readers = []
        for number, piece in enumerate(pieces):
            readers += [
                asyncio.ensure_future(read_all(flight.join())) for at in joins if at == number
            ]
            await asyncio.sleep(0.01)
            if number == closing:
                flight.close_account(ANSWERED)
            flight.add(piece, is_last=number == len(pieces) - 1)
        readers += [asyncio.ensure_future(read_all(flight.join()))]
        return await asyncio.gather(*readers)

    expected = b"".join(pieces[:closing]) + b"|" + b"".join(pieces[closing:])
    assert set(run(read_flight())) == {expected}


def test_a_whole_answer_is_there_at_once():
    flight = Flight("k")
    recording = RecordingCaller(FakeCaller(), flight, flight.join())
    run(recording.send_whole(HEAD, b"{}", ANSWERED))

    assert (flight.whole, flight.recorded_body(), flight.is_joinable) == (b"{}", (b"{}", -1), True)


def test_a_stream_is_recorded_with_the_place_of_the_account():
    async def read_flight() -> Flight:
        flight = Flight("k")
        recording = RecordingCaller(FakeCaller(), flight, flight.join())
        await recording.begin(HEAD)
        await recording.send(b"abc")
        assert recording.closing_event(ANSWERED) == b""
        await recording.end(b"de")
        return flight

    assert run(read_flight()).recorded_body() == (b"abcde", 3)


@pytest.mark.parametrize(
    "receipt",
    [
        None,
        msgspec.structs.replace(ANSWERED, outcome=Outcome.BROKEN),
        msgspec.structs.replace(ANSWERED, status=206),
    ],
    ids=["cut", "broken", "another-status"],
)
def test_an_answer_that_did_not_end_well_is_not_kept(receipt: Receipt | None):
    flight = Flight("k")
    flight.begin(HEAD)
    if receipt is not None:
        flight.close_account(receipt)
    flight.add(b"a", is_last=True)

    assert flight.recorded_body() is None


@pytest.mark.parametrize(("outcome", "is_kept"), [("broken", False), ("failed", True)])
def test_an_answer_that_goes_on_from_another_attempts_is_not_kept(outcome, is_kept):
    flight = Flight("k")
    recording = RecordingCaller(FakeCaller(), flight, flight.join())
    recording.note_attempt(a_receipt(outcome=Outcome(outcome), final=False))
    run(recording.send_whole(HEAD, b"{}", ANSWERED))

    assert (flight.recorded_body() is not None) is is_kept


def test_an_answer_that_outgrows_its_bound_is_passed_on_and_neither_joined_nor_kept():
    async def read_flight() -> tuple[Flight, bytes, int]:
        flight = Flight("k", max_bytes=10)
        reader = flight.join()
        recording = RecordingCaller(FakeCaller(), flight, reader)
        received = asyncio.ensure_future(read_all(reader, pause=1.0))
        await recording.begin(HEAD)
        most = 0
        for _ in range(20):
            await recording.send(b"abcd")
            most = max(most, flight._size)
        recording.closing_event(ANSWERED)
        await recording.end(b"")
        return flight, await received, most

    flight, received, most = run(read_flight())

    assert received == b"abcd" * 20 + b"|"
    assert most <= 14
    assert not flight.is_joinable
    assert flight.recorded_body() is None


def test_a_reader_that_leaves_holds_up_nobody():
    async def read_flight() -> bytes:
        flight = Flight("k", max_bytes=10)
        stuck, reader = flight.join(), flight.join()
        recording = RecordingCaller(FakeCaller(), flight, reader)
        received = asyncio.ensure_future(read_all(reader))
        await recording.begin(HEAD)
        asyncio.get_running_loop().call_later(5.0, stuck.leave)
        for _ in range(20):
            await recording.send(b"abcd")
        await recording.end(b"")
        return await received

    assert run(read_flight()) == b"abcd" * 20


def test_a_call_is_deserted_once_its_caller_and_every_reader_left():
    async def read_flight() -> float:
        flight = Flight("k")
        recording = RecordingCaller(FakeCaller(leaves_after=1.0), flight, flight.join())
        other = flight.join()
        loop = asyncio.get_running_loop()
        loop.call_later(3.0, other.leave)
        began = loop.time()
        await recording.wait_until_gone()
        return loop.time() - began

    assert run(read_flight()) == pytest.approx(3.0)


def test_readers_of_a_call_without_an_answer_learn_that_none_comes():
    async def read_flight() -> Head | None:
        flight = Flight("k")
        reader = flight.join()
        asyncio.get_running_loop().call_later(1.0, flight.fail)
        return await reader.head()

    assert run(read_flight()) is None


def test_a_stream_that_fails_midway_ends_for_its_readers():
    flight = Flight("k")
    reader = flight.join()
    flight.begin(HEAD)
    flight.add(b"a")
    flight.fail()

    assert run(read_all(reader)) == b"a"
    assert (flight.has_failed, flight.is_joinable) == (True, False)
