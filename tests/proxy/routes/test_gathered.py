"""An answer's head and its body arrive in one piece, and nothing is ever left behind."""

import asyncio
from typing import Any

import pytest

from proxy.routes.gathered import Gathered

pytestmark = pytest.mark.anyio

HEAD = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n"


class Wire(asyncio.Transport):
    """Notes what happens on a connection."""

    def __init__(self) -> None:
        super().__init__(extra={"peername": ("127.0.0.1", 1)})
        self.events: list[object] = []
        self.closing = False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.events.append(bytes(data))

    def close(self) -> None:
        self.closing = True
        self.events.append("close")

    def abort(self) -> None:
        self.closing = True
        self.events.append("abort")

    def is_closing(self) -> bool:
        return self.closing

    def pause_reading(self) -> None:
        self.events.append("pause")

    def resume_reading(self) -> None:
        self.events.append("resume")

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        self.events.append(protocol)


def on(wire: Wire) -> Gathered:
    return Gathered(wire, asyncio.get_running_loop())


@pytest.fixture
def wire() -> Wire:
    return Wire()


async def turn() -> None:
    """Let the loop turn once."""
    await asyncio.sleep(0)


async def test_a_head_leaves_with_the_body_that_follows_it(wire: Wire) -> None:
    gathered = on(wire)
    gathered.write(HEAD)
    assert wire.events == []
    gathered.write(b"ok")
    assert wire.events == [HEAD + b"ok"]
    await turn()
    assert wire.events == [HEAD + b"ok"]


async def test_a_head_without_a_body_leaves_when_the_loop_turns(wire: Wire) -> None:
    gathered = on(wire)
    gathered.write(HEAD)
    await turn()
    assert wire.events == [HEAD]


async def test_what_is_no_head_leaves_at_once(wire: Wire) -> None:
    gathered = on(wire)
    gathered.write(b"data: 1\n\n")
    gathered.write(bytearray(HEAD))
    assert wire.events == [b"data: 1\n\n", HEAD]


async def test_closing_sends_what_is_held_first(wire: Wire) -> None:
    gathered = on(wire)
    gathered.write(HEAD)
    gathered.close()
    assert wire.events == [HEAD, "close"]
    assert gathered.is_closing()


async def test_aborting_drops_what_is_held(wire: Wire) -> None:
    gathered = on(wire)
    gathered.write(HEAD)
    gathered.abort()
    await turn()
    assert wire.events == ["abort"]


async def test_all_else_is_the_connections_own(wire: Wire) -> None:
    gathered = on(wire)
    heir: Any = asyncio.Protocol()
    gathered.pause_reading()
    gathered.resume_reading()
    gathered.set_protocol(heir)
    assert wire.events == ["pause", "resume", heir]
    assert gathered.get_extra_info("peername") == ("127.0.0.1", 1)
    assert gathered.get_extra_info("nothing", 7) == 7
