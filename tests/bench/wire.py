"""The two ends of the bench: a canned upstream and a load, both on raw protocols.

Neither parses more than it must, so that what is measured is what stands between them.
"""

import asyncio
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import cast

ANSWER = (
    b'{"id":"chatcmpl-bench","object":"chat.completion","created":1790000000,"model":"bench",'
    b'"choices":[{"index":0,"message":{"role":"assistant","content":"Four words of answer."},'
    b'"finish_reason":"stop","logprobs":null}],"usage":{"prompt_tokens":50,'
    b'"completion_tokens":5,"total_tokens":55,"prompt_tokens_details":{"cached_tokens":0},'
    b'"completion_tokens_details":{"reasoning_tokens":0}}}'
)
EVENTS = 50


def _event(content: str, finish: str, usage: str) -> bytes:
    delta = f'{{"content":"{content}"}}' if content else "{}"
    choices = (
        "[]"
        if usage != "null"
        else f'[{{"index":0,"delta":{delta},"logprobs":null,"finish_reason":{finish}}}]'
    )
    return (
        'data: {"id":"chatcmpl-bench","object":"chat.completion.chunk","created":1790000000,'
        f'"model":"bench","choices":{choices},"usage":{usage}}}\n\n'
    ).encode()


def _chunk(body: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(body), body)


STREAM = [
    *(_chunk(_event(" word", "null", "null")) for _ in range(EVENTS - 3)),
    _chunk(_event("", '"stop"', "null")),
    _chunk(_event("", "null", '{"prompt_tokens":50,"completion_tokens":47,"total_tokens":97}')),
    _chunk(b"data: [DONE]\n\n") + b"0\r\n\r\n",
]
_JSON_HEAD = (
    b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nx-request-id: req_bench\r\n"
    b"openai-processing-ms: 1\r\ncontent-length: %d\r\n\r\n"
)
_STREAM_HEAD = (
    b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\n"
    b"transfer-encoding: chunked\r\n\r\n"
)
_WHOLE = _JSON_HEAD % len(ANSWER) + ANSWER


class WireUpstream(asyncio.Protocol):
    """Answers every request at once; 50 events, a write each, where a stream is asked for."""

    def __init__(self) -> None:
        self._got = bytearray()
        self._need = -1

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        self._got += data
        if self._need < 0:
            end = self._got.find(b"\r\n\r\n")
            if end < 0:
                return
            position = self._got.lower().find(b"content-length:", 0, end)
            length = (
                self._got[position + 15 : self._got.find(b"\r\n", position)]
                if position >= 0
                else b"0"
            )
            self._need = end + 4 + int(length)
        if len(self._got) >= self._need:
            is_stream = b'"stream":true' in self._got[-self._need :]
            self._got.clear()
            self._need = -1
            self._answer(is_stream=is_stream)

    def _answer(self, *, is_stream: bool) -> None:
        if not is_stream:
            self._transport.write(_WHOLE)
            return
        self._transport.write(_STREAM_HEAD)
        for event in STREAM:
            self._transport.write(event)


class WireCaller(asyncio.Protocol):
    """One connection that asks again as soon as it was answered, but not more often than told.

    Args:
        requests: The bytes of each call; all connections may share them.
        done: Gets each call's seconds, and says whether to go on.
        interval: Seconds from a call to the next; 0.0 for as soon as it was answered.
    """

    def __init__(
        self, requests: Iterator[bytes], done: Callable[[float], bool], interval: float = 0.0
    ) -> None:
        self._requests = requests
        self._done = done
        self._interval = interval
        self._due = 0.0
        self._tail = b""
        self._need = -1
        self._begun = 0.0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._ask()

    def data_received(self, data: bytes) -> None:
        if self._need == -1:
            if not data.startswith(b"HTTP/1.1 200"):
                raise SystemExit(f"The bench was answered {data[:300]!r}")
            head = data.find(b"\r\n\r\n")
            position = data.lower().find(b"content-length:", 0, head)
            self._need = -2
            if position >= 0:
                self._need = int(data[position + 15 : data.find(b"\r\n", position)]) + head + 4
        if self._need >= 0:
            self._need -= len(data)
            is_over = self._need <= 0
        else:
            self._tail = (self._tail + data)[-8:]
            is_over = self._tail.endswith(b"0\r\n\r\n")
        if is_over:
            self._tail, self._need = b"", -1
            if self._done(time.perf_counter() - self._begun):
                self._ask_when_due()
            else:
                self._transport.close()

    def _ask_when_due(self) -> None:
        if not self._interval:
            self._ask()
            return
        loop = asyncio.get_running_loop()
        self._due = max(self._due + self._interval, loop.time())
        loop.call_at(self._due, self._ask)

    def _ask(self) -> None:
        request = next(self._requests)
        self._begun = time.perf_counter()
        self._transport.write(request)


async def load(
    port: int, requests: Iterator[bytes], connections: int, seconds: float, rate: float = 0.0
) -> list[float]:
    """Seconds of each call answered after a warm-up, by this many connections at once.

    Args:
        port: Of the server.
        requests: The bytes of each call, as many as are asked for.
        connections: Connections that ask at once.
        seconds: Seconds of the load, the first fifth of which warms up.
        rate: Calls a second, of all connections; 0.0 for as many as are answered.
    """
    loop = asyncio.get_running_loop()
    interval = connections / rate if rate else 0.0
    times: list[float] = []
    open_now = connections
    start = time.perf_counter()
    finished = loop.create_future()

    def done(spent: float) -> bool:
        nonlocal open_now
        elapsed = time.perf_counter() - start
        if elapsed > seconds * 0.2:
            times.append(spent)
        if elapsed < seconds:
            return True
        open_now -= 1
        if not open_now:
            finished.set_result(None)
        return False

    for _ in range(connections):
        caller = partial(WireCaller, requests, done, interval)
        await loop.create_connection(caller, "127.0.0.1", port)
        await asyncio.sleep(interval / connections)
    await asyncio.wait_for(finished, seconds + 60)
    return times


async def upstream(port: int) -> None:
    """Serve the canned upstream for ever."""
    loop = asyncio.get_running_loop()
    server = await loop.create_server(WireUpstream, "127.0.0.1", port)
    await server.serve_forever()
