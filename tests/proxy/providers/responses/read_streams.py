"""Streams of chat chunks, read as Responses."""

from typing import Any

import orjson

from proxy.errors import UpstreamError
from proxy.providers.responses.reader import responses_reader

BODY = b'{"model":"m","input":"Hi","stream":true}'
BLOCKS = [{"type": "thinking", "thinking": "hm", "signature": "s=="}, {"type": "redacted_thinking"}]
USAGE = {
    "prompt_tokens": 9,
    "completion_tokens": 4,
    "total_tokens": 13,
    "prompt_tokens_details": {"cached_tokens": 6},
}


class UnchangedReader:
    """Chat bytes come as they are, some of them only at the end."""

    def __init__(self, last: bytes = b"") -> None:
        self.last = last

    def feed(self, piece: bytes) -> bytes:
        return piece

    def end(self) -> bytes:
        return self.last


def chunk(finish: str | None = None, **delta: object) -> bytes:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    return sse({"id": "chatcmpl-1", "model": "m", "choices": [choice], "usage": None})


def sse(payload: object) -> bytes:
    return b"data: " + orjson.dumps(payload) + b"\n\n"


def part(index: int, arguments: str, **more: object) -> list[dict[str, Any]]:
    return [{"index": index, "function": {"arguments": arguments, **more}}]


DONE = b"data: [DONE]\n\n"
STREAM = [
    chunk(role="assistant", content=""),
    chunk(reasoning_content="h"),
    chunk(reasoning_content="m"),
    chunk(thinking_blocks=BLOCKS),
    chunk(content="Hel"),
    chunk(content="lo"),
    chunk(tool_calls=[{"index": 0, "id": "c1", "function": {"name": "f", "arguments": ""}}]),
    chunk(tool_calls=part(0, '{"a"')),
    chunk(tool_calls=part(0, ":1}")),
    chunk(tool_calls=[{"index": 1, "id": "c2", "function": {"name": "f", "arguments": "{}"}}]),
    chunk(finish="tool_calls"),
    b"data:\n\n",
    sse({"id": "chatcmpl-1", "choices": [], "usage": USAGE}),
    DONE,
]
MESSAGE = {
    "role": "assistant",
    "content": "Hello",
    "reasoning_content": "hm",
    "thinking_blocks": BLOCKS,
    "tool_calls": [
        {"id": "c1", "type": "function", "function": {"name": "f", "arguments": '{"a":1}'}},
        {"id": "c2", "type": "function", "function": {"name": "f", "arguments": "{}"}},
    ],
}
WHOLE = orjson.dumps(
    {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "model": "m",
        "choices": [{"index": 0, "message": MESSAGE, "finish_reason": "tool_calls"}],
        "usage": USAGE,
    }
)


def read_stream(*pieces: bytes, last: bytes = b"", body: bytes = BODY) -> bytes:
    reader = responses_reader(UnchangedReader(last), body, streamed=True, created=1.0)
    given: list[bytes] = []
    try:
        given.extend(map(reader.feed, pieces))
        given.append(reader.end())
    except UpstreamError as error:
        given.append(error.stream_ending)
    return b"".join(given)


def whole(*pieces: bytes, last: bytes = b"", body: bytes = BODY) -> bytes:
    reader = responses_reader(UnchangedReader(last), body, streamed=False, created=1.0)
    return b"".join([reader.feed(piece) for piece in pieces]) + reader.end()
