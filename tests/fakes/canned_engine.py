"""An OpenAI-compatible server whose answers are canned, in a thread with a loop of its own.

It answers at once, so a client's times of it are what client, loop and sockets take.
"""

import asyncio
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import cast

from tests.fakes.streams import chat_usage, chunk, event

_HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: %b\r\ntransfer-encoding: chunked\r\n\r\n"
_MODELS = json.dumps({"data": [{"id": "canned"}]}).encode()
_WAIT_S = 30.0


def _http_chunk(body: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(body), body)


def _stream(body: dict[str, object]) -> list[bytes]:
    """An event per token, and a usage that counts prompt tokens by words."""
    messages = cast("list[dict[str, str]]", body["messages"])
    tokens = cast("int", body["max_tokens"])
    stop = event({"choices": [{"index": 0, "delta": {}, "finish_reason": "length"}]})
    usage = chat_usage(len(messages[0]["content"].split()), tokens)
    events = [chunk(" word") for _ in range(tokens)]
    return [*events, stop, event({"choices": [], "usage": usage}), b"data: [DONE]\n\n"]


class _CannedProtocol(asyncio.Protocol):
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._received = bytearray()

    def data_received(self, data: bytes) -> None:
        self._received += data
        head, blank, body = bytes(self._received).partition(b"\r\n\r\n")
        _, _, after = head.lower().partition(b"content-length:")
        if not blank or len(body) < int(after.split(b"\r\n")[0] or b"0"):
            return
        self._received.clear()
        if head.startswith(b"GET"):
            self._write(_HEAD % b"application/json", _http_chunk(_MODELS))
        else:
            events = _stream(json.loads(body))
            self._write(_HEAD % b"text/event-stream", *map(_http_chunk, events))

    def _write(self, *parts: bytes) -> None:
        for part in (*parts, b"0\r\n\r\n"):
            self._transport.write(part)


@contextmanager
def canned_engine() -> Iterator[str]:
    """The base URL of a canned engine."""
    loop = asyncio.new_event_loop()
    server = loop.run_until_complete(loop.create_server(_CannedProtocol, "127.0.0.1", 0))
    port = server.sockets[0].getsockname()[1]
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{port}/v1"
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join(_WAIT_S)
        server.close()
        loop.close()
