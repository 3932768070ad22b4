"""Callers of several teams who go on calling, and remember what became of each call."""

import asyncio
import itertools
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

import aiohttp
import orjson


@dataclass(frozen=True)
class ObservedCall:
    """One call.

    Attributes:
        phase: What the story was at when it began.
        team: Whose it was.
        status: The answer's; 0 where there was none.
        code: The error's; "" where there was none.
        seconds: How long it took.
        cost: What the answer said that it cost, in dollars.
    """

    phase: str
    team: str
    status: int
    code: str
    seconds: float
    cost: float


@dataclass
class ConcurrentCallers:
    """Callers, some of each team, each calling again as soon as it was answered and has paused."""

    url: str
    keys: Mapping[str, str]
    body: Callable[[int], bytes]
    callers: int = 4
    pause: float = 0.05
    phase: str = "here"
    met: list[ObservedCall] = field(default_factory=list)

    @contextmanager
    def calling(self) -> Iterator["ConcurrentCallers"]:
        """The callers at work, until the block ends."""
        stop = threading.Event()
        thread = threading.Thread(target=lambda: asyncio.run(self._run(stop)), name="callers")
        thread.start()
        try:
            yield self
        finally:
            stop.set()
            thread.join(60)

    def of(self, phase: str, team: str) -> list[ObservedCall]:
        """Return what a team met in a phase."""
        return [row for row in list(self.met) if (row.phase, row.team) == (phase, team)]

    async def _run(self, stop: threading.Event) -> None:
        numbers = itertools.count()
        connector = aiohttp.TCPConnector(limit=0)
        timeout = aiohttp.ClientTimeout(total=30)
        async with (
            aiohttp.ClientSession(connector=connector, timeout=timeout) as session,
            asyncio.TaskGroup() as group,
        ):
            for team in list(self.keys) * self.callers:
                group.create_task(self._call_on(session, team, numbers, stop))

    async def _call_on(
        self,
        session: aiohttp.ClientSession,
        team: str,
        numbers: Iterator[int],
        stop: threading.Event,
    ) -> None:
        while not stop.is_set():
            self.met.append(await self.call(session, team, self.body(next(numbers))))
            await asyncio.sleep(self.pause)

    async def call(self, session: aiohttp.ClientSession, team: str, body: bytes) -> ObservedCall:
        """Return what became of one call."""
        phase, began = self.phase, time.monotonic()
        headers = {
            "authorization": f"Bearer {self.keys[team]}",
            "content-type": "application/json",
        }
        url = f"{self.url}/v1/chat/completions"
        status, code, cost = 0, "", 0.0
        try:
            async with session.post(url, data=body, headers=headers) as answer:
                read = orjson.loads(await answer.read())
                status = answer.status
                cost = float(answer.headers.get("x-thriftgate-cost-usd", 0))
                code = (read.get("error") or {}).get("code") or ""
        except (aiohttp.ClientError, TimeoutError) as error:
            code = type(error).__name__
        return ObservedCall(phase, team, status, code, time.monotonic() - began, cost)
