"""Answers of upstreams in tests, as bytes on the wire."""

import json
from typing import Any

from proxy.calls.metering.metering import Meter
from proxy.providers.answers.usage import openai_usage
from tests.fakes.upstream import EVENTS, Piece, ScriptedAnswer

ASKED = b'{"model":"m","messages":[{"role":"user","content":"Hello"}]}'
STREAMED = b'{"model":"m","stream":true,"messages":[{"role":"user","content":"Hello"}]}'
USAGE = {
    "prompt_tokens": 100,
    "completion_tokens": 10,
    "total_tokens": 110,
    "prompt_tokens_details": {"cached_tokens": 64},
}
COMPLETION = json.dumps(
    {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "choices": [{"index": 0, "message": {"role": "assistant", "content": "Hi"}}],
        "usage": USAGE,
    }
).encode()


def event(value: Any, end: str = "\n\n") -> bytes:
    """One event of a stream."""
    return f"data: {value if isinstance(value, str) else json.dumps(value)}{end}".encode()


def chunk(text: str, end: str = "\n\n", reason: str | None = None) -> bytes:
    """A chunk of a chat completion that says this, and why it stops if it does."""
    delta = {"index": 0, "delta": {"content": text}, "finish_reason": reason}
    return event({"id": "chatcmpl-1", "choices": [delta], "usage": None}, end)


def usage_chunk(end: str = "\n\n", **usage: Any) -> bytes:
    """The chunk that only carries usage."""
    return event({"id": "chatcmpl-1", "choices": [], "usage": usage or USAGE}, end)


DONE = event("[DONE]")
BEAT = b": keep-alive\n\n"
STREAM = chunk("Hel") + chunk("lo") + usage_chunk() + DONE
#: The same as a caller gets it who did not ask for usage.
SHOWN = chunk("Hel") + chunk("lo") + DONE


def stream(*pieces: Piece, **fields: Any) -> ScriptedAnswer:
    """An upstream that streams these pieces."""
    return ScriptedAnswer(pieces, **{"headers": EVENTS, **fields})


def failed_answer(
    status: int, headers: dict[str, str] | None = None, text: str = "busy"
) -> ScriptedAnswer:
    """An upstream that refuses, with a secret in its words."""
    error = {"message": f"{text} for sk-verysecretkey123 at http://inner.host", "code": None}
    return ScriptedAnswer(
        [json.dumps({"error": error}).encode()], status=status, headers=headers or {}
    )


def metered_answer(body: bytes) -> Meter:
    """A meter that has read a whole answer."""
    meter = Meter(openai_usage, streamed=False)
    meter.feed(body)
    return meter
