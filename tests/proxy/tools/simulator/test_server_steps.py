"""Playing steps over ASGI."""

import asyncio
from collections.abc import Callable, Iterable
from typing import Any

import anyio
import pytest

from proxy.tools.simulator.server import RESET, PlayedResponse
from proxy.tools.simulator.streams import CHARGE, CUT, HEAD, SILENCE, StreamStep
from proxy.tools.simulator.upstream import SimulatedExchange
from slo.usage import Usage
from tests.proxy.tools.simulator.scene import SleepingClock

USAGE = Usage(input=3)


class LeavingConnection:
    """An ASGI connection whose client leaves when told to."""

    def __init__(self) -> None:
        self.exchange = SimulatedExchange(method="POST", path="/", headers={}, body=b"")
        self.clock = SleepingClock()
        self.sent: list[Any] = []
        self.gone = anyio.Event()
        self.asked = True

    async def receive(self) -> Any:
        if self.asked:
            self.asked = False
            return {"type": "http.request", "body": b"", "more_body": False}
        await self.gone.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: Any) -> None:
        self.sent.append(message)

    def play(
        self,
        steps: Iterable[StreamStep],
        scope: dict[str, Any] | None = None,
        *,
        leaves: bool = False,
    ) -> None:
        async def play() -> None:
            self.gone = anyio.Event()
            answer = PlayedResponse(
                self.exchange,
                steps,
                sleep=self.clock.sleep,
                status=201,
                usage=USAGE,
                headers=[("x-simulator", "simulated")],
            )
            async with anyio.create_task_group() as group:
                group.start_soon(answer, scope or {}, self.receive, self.send)
                if leaves:
                    await anyio.wait_all_tasks_blocked()
                    self.gone.set()

        asyncio.run(play())

    def reset_extension(self, then: Callable[[], None]) -> dict[str, Any]:
        def reset() -> None:
            then()
            self.gone.set()

        return {"extensions": {RESET: reset}}


@pytest.fixture
def connection() -> LeavingConnection:
    return LeavingConnection()


def test_steps_are_played_in_order_and_recorded(connection: LeavingConnection) -> None:
    connection.play(
        [
            StreamStep("wait", seconds=2),
            CHARGE,
            HEAD,
            StreamStep("send", b"a", tokens=3),
            StreamStep("send", b"b"),
        ]
    )

    start, *bodies = connection.sent
    assert start == {
        "type": "http.response.start",
        "status": 201,
        "headers": [(b"x-simulator", b"simulated")],
    }
    assert [(m["body"], m["more_body"]) for m in bodies] == [
        (b"a", True),
        (b"b", True),
        (b"", False),
    ]
    exchange = connection.exchange
    assert (exchange.status, bytes(exchange.sent), exchange.delivered) == (201, b"ab", 3)
    assert (exchange.complete, exchange.hung_up, exchange.usage) == (True, False, USAGE)
    assert connection.clock.slept == [2]


def test_headers_leave_once(connection: LeavingConnection) -> None:
    connection.play([HEAD, HEAD])

    assert [message["type"] for message in connection.sent] == [
        "http.response.start",
        "http.response.body",
    ]


def test_silence_ends_when_the_client_leaves(connection: LeavingConnection) -> None:
    connection.play([HEAD, SILENCE], leaves=True)

    assert connection.exchange.hung_up
    assert not connection.exchange.complete
    assert connection.exchange.usage is None


def test_a_cut_resets_the_connection_where_the_server_can(connection: LeavingConnection) -> None:
    cuts: list[bool] = []
    connection.play(
        [HEAD, StreamStep("send", b"a"), CUT], connection.reset_extension(lambda: cuts.append(True))
    )

    assert cuts == [True]
    assert not connection.exchange.hung_up
    assert connection.sent[-1]["more_body"] is True


def test_a_cut_raises_where_the_server_cannot(connection: LeavingConnection) -> None:
    with pytest.raises(BaseExceptionGroup) as raised:
        connection.play([HEAD, CUT])

    assert raised.group_contains(ConnectionResetError)
