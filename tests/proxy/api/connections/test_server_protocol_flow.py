"""Tests of when bytes come and go: slow callers and apps, hanging up, and a server that stops."""

import asyncio
from dataclasses import dataclass, field
from typing import Any

import pytest
from starlette.types import Message, Receive, Scope, Send

from tests.fakes.clock import run_in_instant_time
from tests.proxy.api.server_fixtures import (
    LAST,
    ONE,
    connection_without_peer,
    echo_app,
    head_for,
    length,
    listening,
    part,
    start,
    turns,
)

pytestmark = pytest.mark.anyio


@dataclass
class RecordingApp:
    """An app that takes a body in pieces, and notes what it sees."""

    messages: list[Message] = field(default_factory=list)
    news: asyncio.Event = field(default_factory=asyncio.Event)
    go: asyncio.Event = field(default_factory=asyncio.Event)

    async def app(self, _scope: Scope, receive: Receive, _send: Send) -> None:
        while True:
            self.messages.append(await receive())
            self.news.set()
            if self.messages[-1]["type"] == "http.disconnect":
                return
            await self.go.wait()

    async def wait_for_news(self) -> None:
        await asyncio.wait_for(self.news.wait(), 20)
        self.news.clear()


async def test_a_caller_that_hangs_up_midway_is_noticed() -> None:
    app = RecordingApp()
    app.go.set()
    async with listening(app.app) as place:
        async with place.connect() as (_, writer):
            writer.write(head_for("/b", "content-length: 5", method="POST") + b"he")
            await app.wait_for_news()
        await app.wait_for_news()

    assert [m["type"] for m in app.messages] == ["http.request", "http.disconnect"]
    assert app.messages[0]["body"] == b"he"
    assert app.messages[0]["more_body"] is True


async def test_a_caller_that_hangs_up_with_a_request_waiting_is_noticed_by_the_one_before() -> None:
    app = RecordingApp()
    async with listening(app.app) as place:
        async with place.connect() as (_, writer):
            writer.write(head_for("/b", "content-length: 2", method="POST") + b"he" + ONE)
            await app.wait_for_news()
        await turns()
        app.go.set()
        await app.wait_for_news()

    assert [m["type"] for m in app.messages] == ["http.request", "http.disconnect"]


async def test_pieces_that_came_meanwhile_are_received_as_one() -> None:
    app = RecordingApp()
    async with listening(app.app) as place, place.connect() as (_, writer):
        writer.write(head_for("/b", "content-length: 6", method="POST") + b"he")
        await app.wait_for_news()
        writer.write(b"l")
        await turns()
        writer.write(b"lo!")
        await turns()
        app.go.set()
        await app.wait_for_news()
        while app.messages[-1]["more_body"]:
            await app.wait_for_news()

    assert b"".join(message["body"] for message in app.messages[:-1]) + app.messages[-1].get(
        "body", b""
    ) == b"hello!"  # fmt: skip


@pytest.mark.parametrize("framing", [[length(2)], []], ids=["length", "chunks"])
async def test_messages_to_a_disconnected_caller_go_nowhere(
    framing: list[tuple[bytes, bytes]],
) -> None:
    left = asyncio.Event()

    async def app(_scope: Scope, receive: Receive, send: Send) -> None:
        await receive()
        await receive()
        await send(start(200, *framing))
        await send(part(b"ok"))
        left.set()

    async with listening(app) as place:
        async with place.connect() as (_, writer):
            writer.write(ONE)
            await turns()
        await asyncio.wait_for(left.wait(), 20)


async def test_after_its_answer_an_app_hears_the_caller_no_more() -> None:
    heard: list[Any] = []

    async def app(_scope: Scope, receive: Receive, send: Send) -> None:
        await receive()
        await send(start(200, length(2)))
        await send(part(b"ok"))
        heard.append(await receive())

    async with listening(app) as place:
        assert (await place.said(LAST)).endswith(b"ok")
        await turns()

    assert heard == [{"type": "http.disconnect"}]


async def test_a_large_body_waits_until_it_is_read() -> None:
    app = RecordingApp()
    size = 40_000_000
    async with listening(app.app) as place, place.connect() as (_, writer):
        writer.write(head_for("/b", f"content-length: {size}", method="POST") + b"x" * size)
        await app.wait_for_news()
        for _ in range(2000):
            await asyncio.sleep(0)
        (connection,) = place.state.connections
        held = len(connection.cycle.body)  # type: ignore[union-attr]
        app.go.set()
        while sum(len(message["body"]) for message in app.messages) < size:
            await app.wait_for_news()

    assert 65_536 < held < 2_000_000


@pytest.mark.parametrize("framing", [[length(40_000_000)], []], ids=["length", "chunks"])
async def test_a_slow_caller_holds_the_app_back(framing: list[tuple[bytes, bytes]]) -> None:
    sent = 0
    piece = b"x" * 100_000

    async def app(_scope: Scope, _receive: Receive, send: Send) -> None:
        nonlocal sent
        await send(start(200, *framing))
        for _ in range(399):
            await send(part(piece, more=True))
            sent += 1
        await send(part(piece))

    async with listening(app) as place, place.connect() as (reader, writer):
        writer.write(LAST)
        for _ in range(2000):
            await asyncio.sleep(0)
        before = sent
        output = await asyncio.wait_for(reader.read(), 30)

    assert 0 < before < 399
    assert output.count(b"x") == 400 * len(piece)


def test_a_connection_is_kept_as_long_again_after_each_answer() -> None:
    async def work() -> None:
        calls, wire = connection_without_peer(keep_alive=30)
        for _ in range(4):
            calls.data_received(ONE)
            await asyncio.sleep(20)
            assert not wire.is_closing()
        await asyncio.sleep(10)
        assert wire.written[-1] == b"(closed)"

    run_in_instant_time(work())


def test_a_connection_is_kept_while_a_request_arrives() -> None:
    async def work() -> None:
        calls, wire = connection_without_peer(keep_alive=30)
        calls.data_received(ONE)
        await asyncio.sleep(29)
        calls.data_received(ONE[:9])
        await asyncio.sleep(9)
        assert not wire.is_closing()
        calls.data_received(ONE[9:])
        await asyncio.sleep(29)
        assert not wire.is_closing()
        await asyncio.sleep(1)
        assert wire.is_closing()

    run_in_instant_time(work())


async def test_a_connection_that_is_idle_for_too_long_is_closed() -> None:
    async with listening(echo_app, keep_alive=0) as place, place.connect() as (reader, writer):
        writer.write(ONE)
        assert (await asyncio.wait_for(reader.read(), 20)).endswith(b"ok")


async def test_a_server_that_stops_lets_a_call_end_and_takes_no_other() -> None:
    begun, go = asyncio.Event(), asyncio.Event()

    async def app(_scope: Scope, _receive: Receive, send: Send) -> None:
        begun.set()
        await go.wait()
        await send(start(200, length(2)))
        await send(part(b"ok"))

    async with listening(app) as place, place.connect() as (reader, writer):
        writer.write(ONE)
        await begun.wait()
        for connection in place.state.connections:
            connection.shutdown()
        go.set()
        output = await asyncio.wait_for(reader.read(), 20)

    assert b"\r\nconnection: close\r\n" in output
    assert output.endswith(b"ok")


async def test_a_server_that_stops_hangs_up_on_who_asks_nothing() -> None:
    async with listening(echo_app) as place, place.connect() as (reader, writer):
        writer.write(ONE)
        await reader.readuntil(b"ok")
        for connection in list(place.state.connections):
            connection.shutdown()
        assert await asyncio.wait_for(reader.read(), 20) == b""


async def test_a_call_that_is_cancelled_before_its_body_is_answered_in_full() -> None:
    begun = asyncio.Event()

    async def app(_scope: Scope, receive: Receive, send: Send) -> None:
        await receive()
        await send(start(200, length(2)))
        begun.set()
        await receive()

    async with listening(app) as place, place.connect() as (reader, writer):
        writer.write(ONE)
        await begun.wait()
        for task in place.state.tasks:
            task.cancel()
        output = await asyncio.wait_for(reader.read(), 20)

    assert output.startswith(b"HTTP/1.1 500 Internal Server Error\r\n")
    assert output.endswith(b"\r\n\r\nInternal Server Error")
