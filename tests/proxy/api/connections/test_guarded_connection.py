"""Callers' connections are counted, and closed where their callers are late."""

import asyncio
import logging
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.types import Receive, Scope, Send

from proxy.api.connections.arrival_deadlines import ArrivalTimeouts
from proxy.api.connections.connection_limit import ConnectionLimit
from proxy.api.connections.guarded_connection import ConnectionGuard, HeldFlow
from tests.fakes.clock import run_in_instant_time
from tests.proxy.api.server_fixtures import (
    ONE,
    RecordingTransport,
    body_of,
    connection_without_peer,
    head_for,
    length,
    part,
    start,
)

_FLOW_STEPS = ["hold", "release", "pause_reading", "resume_reading"]
_GUARD = ConnectionGuard(timeouts=ArrivalTimeouts(headers=5, body_window=5, body_min_rate=10))
_POST = head_for("/b", "content-length: 500", method="POST")


@pytest.mark.parametrize("sent", [b"", b"\r\n\r\n"])
def test_a_connection_that_sends_nothing_is_closed_without_an_answer(sent):
    async def work() -> None:
        calls, wire = connection_without_peer(guard=_GUARD)
        calls.data_received(sent)
        await asyncio.sleep(4.9)
        assert not wire.is_closing()
        await asyncio.sleep(0.2)
        assert wire.written == [b"(closed)"]

    run_in_instant_time(work())


@pytest.mark.parametrize("sent", [ONE[:3], ONE[:-2]])
def test_headers_that_do_not_end_are_answered_408(sent):
    async def work() -> None:
        calls, wire = connection_without_peer(guard=_GUARD)
        for position in range(len(sent)):
            calls.data_received(sent[position : position + 1])
            await asyncio.sleep(4.9 / len(sent))
        assert not wire.is_closing()
        await asyncio.sleep(0.2)
        assert wire.written[0].startswith(b"HTTP/1.1 408 Request Timeout\r\n")
        assert b'"code":"headers_timeout"' in wire.written[0]
        assert wire.written[1:] == [b"(closed)"]

    run_in_instant_time(work())


def test_a_second_request_without_end_is_answered_408_after_the_first_answer():
    async def work() -> None:
        calls, wire = connection_without_peer(keep_alive=60, guard=_GUARD)
        calls.data_received(ONE)
        await asyncio.sleep(40)
        calls.data_received(ONE[:9])
        await asyncio.sleep(5.1)
        assert wire.written[0].endswith(b"\r\n\r\nok")
        assert wire.written[1].startswith(b"HTTP/1.1 408 ")

    run_in_instant_time(work())


def test_a_body_that_stops_is_answered_408_and_the_app_sees_the_caller_leave():
    seen: list[str] = []

    async def app(_scope: Scope, receive: Receive, _send: Send) -> None:
        while not seen or seen[-1] != "http.disconnect":
            seen.append((await receive())["type"])

    async def work() -> None:
        calls, wire = connection_without_peer(app=app, guard=_GUARD)
        calls.data_received(_POST + b"half")
        await asyncio.sleep(5.1)
        assert b'"code":"body_timeout"' in wire.written[0]
        assert wire.written[1:] == [b"(closed)"]

    run_in_instant_time(work())
    assert seen == ["http.request", "http.disconnect"]


def test_a_slow_body_above_the_least_rate_is_read_to_its_end():
    async def app(_scope: Scope, receive: Receive, send: Send) -> None:
        body = await body_of(receive)
        await send(start(200, length(len(body))))
        await send(part(body))

    async def work() -> None:
        calls, wire = connection_without_peer(app=app, guard=_GUARD)
        calls.data_received(_POST)
        for _ in range(50):
            await asyncio.sleep(0.9)
            calls.data_received(b"ten bytes.")
        await asyncio.sleep(0.1)
        assert wire.written[0].endswith(b"\r\n\r\n" + 50 * b"ten bytes.")

    run_in_instant_time(work())


def test_a_body_that_nobody_reads_after_its_refusal_closes_the_connection_without_a_word():
    async def app(_scope: Scope, _receive: Receive, send: Send) -> None:
        await send(start(401, length(2)))
        await send(part(b"no"))

    async def work() -> None:
        calls, wire = connection_without_peer(keep_alive=60, app=app, guard=_GUARD)
        calls.data_received(_POST + b"half")
        await asyncio.sleep(5.1)
        assert [piece[-2:] for piece in wire.written] == [b"no", b"d)"]
        assert wire.is_closing()

    run_in_instant_time(work())


def test_a_body_that_stops_behind_an_answer_under_way_is_not_told_of_within_that_answer():
    async def app(_scope: Scope, receive: Receive, send: Send) -> None:
        await receive()
        await send(start(200, length(2)))
        await asyncio.sleep(2)
        await receive()  # until the caller leaves, as the gateway watches its callers

    async def work() -> None:
        calls, wire = connection_without_peer(app=app, guard=_GUARD)
        calls.data_received(ONE)
        await asyncio.sleep(1)
        calls.data_received(_POST + b"half")
        await asyncio.sleep(90)
        assert wire.is_closing()
        assert not any(b" 408 " in piece for piece in wire.written)

    run_in_instant_time(work())


def test_a_caller_that_is_to_wait_for_100_has_time_until_it_is_told_to_go_on():
    async def app(_scope: Scope, receive: Receive, _send: Send) -> None:
        await asyncio.sleep(60)
        await receive()

    async def work() -> None:
        calls, wire = connection_without_peer(app=app, guard=_GUARD)
        calls.data_received(_POST[:-2] + b"expect: 100-continue\r\n\r\n")
        await asyncio.sleep(60.1)
        assert wire.written == [b"HTTP/1.1 100 Continue\r\n\r\n"]
        await asyncio.sleep(10)
        assert wire.is_closing()

    run_in_instant_time(work())


def test_a_half_request_behind_one_that_is_answered_waits_for_that_answer():
    async def app(_scope: Scope, _receive: Receive, send: Send) -> None:
        await asyncio.sleep(60)
        await send(start(200, length(2)))
        await send(part(b"ok"))

    async def work() -> None:
        calls, wire = connection_without_peer(app=app, guard=_GUARD)
        calls.data_received(ONE + ONE[:9])
        await asyncio.sleep(59)
        assert wire.written == []
        await asyncio.sleep(20)
        assert [piece[:12] for piece in wire.written] == [
            b"HTTP/1.1 200", b"HTTP/1.1 408", b"(closed)",
        ]  # fmt: skip

    run_in_instant_time(work())


def test_an_answer_that_is_not_taken_is_aborted_even_once_the_connection_closes():
    async def work() -> None:
        calls, wire = connection_without_peer(keep_alive=60, guard=_GUARD)
        calls.data_received(ONE)
        wire.unsent = 100
        await asyncio.sleep(3600)
        assert wire.written[0].endswith(b"ok")
        assert wire.written[1:3] == [b"(closed)", b"(aborted)"]

    run_in_instant_time(work())


def test_a_connection_too_many_from_one_address_is_refused_until_another_ends(caplog):
    guard = ConnectionGuard(limit=ConnectionLimit(total=9, per_address=2))

    async def work() -> None:
        first, _ = connection_without_peer(guard=guard, address="192.0.2.1")
        connection_without_peer(guard=guard, address="192.0.2.1")
        third, refused = connection_without_peer(guard=guard, address="192.0.2.1")
        _, other = connection_without_peer(guard=guard, address="192.0.2.2")
        assert refused.written[0].startswith(b"HTTP/1.1 503 Service Unavailable\r\n")
        assert b'"code":"too_many_connections"' in refused.written[0]
        assert refused.is_closing()
        assert other.written == []
        third.connection_lost(None)
        _, refused = connection_without_peer(guard=guard, address="192.0.2.1")
        assert refused.is_closing()
        first.connection_lost(ConnectionResetError())
        _, accepted = connection_without_peer(guard=guard, address="192.0.2.1")
        assert accepted.written == []

    with caplog.at_level(logging.WARNING, "thriftgate.connections"):
        run_in_instant_time(work())
    assert [message[:31] for message in caplog.messages] == ["Connection from 192.0.2.1: refu"]


@given(st.lists(st.sampled_from(_FLOW_STEPS), max_size=12))
def test_a_held_connection_is_read_only_once_it_is_neither_held_nor_paused(steps):
    wire = RecordingTransport()
    flow = HeldFlow(wire)
    for step in steps:
        getattr(flow, step)()
        is_read = not wire.written or wire.written[-1] == b"(resumed)"
        assert is_read == (not flow.is_held and not flow.read_paused)

    assert all(first != second for first, second in pairwise(wire.written))
