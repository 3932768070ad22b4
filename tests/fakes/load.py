"""Callers who keep a gateway busy, and remember what they got."""

import asyncio
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import aiohttp
import orjson


@dataclass
class Load:
    """Callers who call one after the other, half of them for streams, until told to stop.

    Attributes:
        pause: Seconds a caller waits between two calls.
        questions: Number of questions that all of them ask again; 0 where each call has its own.
        hits: Answers that came from the cache, or were shared.
        delivered: The calls whose answers arrived whole, by the id their answers carry.
        refused: How many were answered with an error, by status and code.
        broken: How many were broken off, or never reached anybody.
        cut: How many of those were broken off after their answer had begun.
        slowest: Seconds the slowest whole answer took.
    """

    url: str
    key: str
    callers: int = 32
    pause: float = 0.0
    questions: int = 0
    hits: int = 0
    delivered: list[str] = field(default_factory=list)
    refused: Counter[str] = field(default_factory=Counter)
    broken: int = 0
    cut: int = 0
    slowest: float = 0.0

    @contextmanager
    def running(self) -> Iterator["Load"]:
        """The load, until the block ends."""
        stop = threading.Event()
        thread = threading.Thread(target=lambda: asyncio.run(self._run(stop)), name="load")
        thread.start()
        try:
            yield self
        finally:
            stop.set()
            thread.join(60)

    async def _run(self, stop: threading.Event) -> None:
        connector = aiohttp.TCPConnector(limit=0)
        headers = {"authorization": f"Bearer {self.key}", "content-type": "application/json"}
        async with aiohttp.ClientSession(connector=connector, headers=headers) as session:
            callers = (self._call_on(session, stop, number) for number in range(self.callers))
            await asyncio.gather(*callers)

    async def _call_on(
        self, session: aiohttp.ClientSession, stop: threading.Event, number: int
    ) -> None:
        turn = 0
        while not stop.is_set():
            turn += 1
            model = ("gpt-lab", "claude-lab")[number // 2 % 2]
            own = f"Caller {number}, call {turn}."
            text = f"Question {turn % self.questions}." if self.questions else own
            body = orjson.dumps(
                {
                    "model": model,
                    "stream": number % 2 == 0,
                    "messages": [{"role": "user", "content": text}],
                }
            )
            try:
                await self._call(session, body)
            except (aiohttp.ClientError, OSError):
                self.broken += 1
                await asyncio.sleep(0.02)
            await asyncio.sleep(self.pause)

    async def _call(self, session: aiohttp.ClientSession, body: bytes) -> None:
        began = time.monotonic()
        async with session.post(f"{self.url}/v1/chat/completions", data=body) as answer:
            received = bytearray()
            call_id = answer.headers["x-request-id"]
            is_stream = answer.content_type == "text/event-stream"
            try:
                async for piece in answer.content.iter_any():
                    received += piece
            except aiohttp.ClientError:
                if b"data: [DONE]" not in received:
                    self.cut += 1
                    raise
        if answer.status != 200:
            code = orjson.loads(received)["error"]["code"]
            self.refused[f"{answer.status} {code}"] += 1
            await asyncio.sleep(0.02)
        else:
            assert b"data: [DONE]" in received if is_stream else orjson.loads(received)["choices"]
            self.delivered.append(call_id)
            self.hits += answer.headers.get("x-thriftgate-cache", "").startswith("hit")
            self.slowest = max(self.slowest, time.monotonic() - began)
