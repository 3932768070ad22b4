"""The ASGI response that plays an answer's steps, and stops when the client disconnects."""

import asyncio
from collections.abc import Callable, Iterable, Sequence

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from proxy.tools.simulator.streams import StreamStep
from proxy.tools.simulator.upstream import SimulatedExchange, Sleep
from slo.usage import Usage

#: The ASGI extension with which the simulator's own server lets a connection be reset.
RESET = "thriftgate.simulator.reset"


class PlayedResponse(Response):
    """An answer that is a sequence of steps.

    The steps are taken one by one as they are played, so what they do to a cache happens in time.
    """

    def __init__(
        self,
        exchange: SimulatedExchange,
        steps: Iterable[StreamStep],
        *,
        sleep: Sleep,
        status: int,
        usage: Usage | None = None,
        headers: Sequence[tuple[str, str]],
    ) -> None:
        self.background = None
        self.status_code = status
        self.raw_headers = [(name.encode(), value.encode("latin-1")) for name, value in headers]
        self._exchange = exchange
        self._steps = steps
        self._sleep = sleep
        self._usage = usage

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Play the steps until they end or the client leaves.

        Raises:
            ConnectionResetError: If a step cuts the connection and the server cannot.
        """
        try:
            await self._play_until_disconnect(receive, send, scope.get("extensions", {}).get(RESET))
        finally:
            self._exchange.over.set()

    async def _play_until_disconnect(
        self, receive: Receive, send: Send, reset: Callable[[], None] | None
    ) -> None:
        async with asyncio.TaskGroup() as group:
            playing = group.create_task(self._play_and_reset(send, reset))
            watching = group.create_task(self._watch(receive, playing))
            playing.add_done_callback(lambda _: watching.cancel())
        if not playing.cancelled() and playing.result():
            raise ConnectionResetError("The simulator cut the connection.")

    async def _play_and_reset(self, send: Send, reset: Callable[[], None] | None) -> bool:
        """True if the connection is to be cut and the server cannot."""
        if not await self._play(send):
            return False
        if reset is not None:
            reset()
            await asyncio.Event().wait()  # until the watch sees the connection gone
        return True

    async def _watch(self, receive: Receive, playing: asyncio.Task[bool]) -> None:
        while (await receive())["type"] != "http.disconnect":
            pass
        self._exchange.hung_up = not self._exchange.complete
        playing.cancel()

    async def _play(self, send: Send) -> bool:
        """True if the connection is to be cut now."""
        for step in self._steps:
            match step.kind:
                case "wait":
                    await self._sleep(step.seconds)
                case "head":
                    await self._begin(send)
                case "charge":
                    self._exchange.usage = self._usage
                case "send":
                    await self._pass(send, step)
                case "silence":
                    await asyncio.Event().wait()
                case _:
                    self._exchange.complete = True
                    await asyncio.sleep(0)
                    await asyncio.sleep(0)  # a uvloop transport writes at the end of its turn
                    return True
        self._exchange.complete = True
        await send({"type": "http.response.body", "body": b"", "more_body": False})
        return False

    async def _begin(self, send: Send) -> None:
        if not self._exchange.status:
            self._exchange.status = self.status_code
            start = {"type": "http.response.start", "status": self.status_code}
            await send(start | {"headers": self.raw_headers})

    async def _pass(self, send: Send, step: StreamStep) -> None:
        self._exchange.sent += step.data
        self._exchange.delivered += step.tokens
        await send({"type": "http.response.body", "body": step.data, "more_body": True})
        await asyncio.sleep(0)
