"""Streams in each dialect, event by event, and a meter that has read one."""

import orjson
from hypothesis import strategies as st

from proxy.calls.metering.metering import Meter
from proxy.providers.answers.usage import openai_usage


def event(value: object, name: str = "") -> bytes:
    head = f"event: {name}\n".encode() if name else b""
    return head + b"data: " + orjson.dumps(value) + b"\n\n"


def named_event(kind: str, **rest: object) -> bytes:
    return event({"type": kind, **rest}, kind)


def chunk(content: str | None = None, **rest: object) -> bytes:
    delta = {} if content is None else {"content": content}
    choices = [{"index": 0, "delta": delta, "finish_reason": None}]
    return event({"id": "chatcmpl-1", "choices": choices, **rest})


def chat_usage(prompt: int, generated: int, **rest: object) -> dict[str, object]:
    return {"prompt_tokens": prompt, "completion_tokens": generated, **rest}


DONE = b"data: [DONE]\n\n"
CHAT = [
    chunk("", usage=None),
    chunk("Hel", usage=None),
    chunk("lo", usage=None),
    event({"id": "chatcmpl-1", "choices": [], "usage": chat_usage(9, 2)}),
    DONE,
]
RESPONSES = [
    named_event("response.created", response={"id": "resp_1", "usage": None, "error": None}),
    named_event("response.output_text.delta", output_index=0, content_index=0, delta="Hel"),
    named_event("response.output_text.delta", output_index=0, content_index=0, delta="lo"),
    named_event("response.output_text.done", output_index=0, text="Hello"),
    named_event(
        "response.completed",
        response={"id": "resp_1", "usage": {"input_tokens": 9, "output_tokens": 2}},
    ),
]
MESSAGES = [
    named_event("message_start", message={"id": "msg_1", "usage": {"input_tokens": 9}}),
    named_event("ping"),
    named_event("content_block_start", index=0, content_block={"type": "text", "text": ""}),
    named_event("content_block_delta", index=0, delta={"type": "text_delta", "text": "Hel"}),
    named_event("content_block_delta", index=0, delta={"type": "text_delta", "text": "lo"}),
    named_event("message_delta", delta={"stop_reason": "end_turn"}, usage={"output_tokens": 2}),
    named_event("message_stop"),
]


def meter_of(*runs: bytes, bound: int = 1 << 20) -> Meter:
    meter = Meter(openai_usage, streamed=True, bound=bound)
    for run in runs:
        meter.feed(run)
    return meter


usages = st.none() | st.builds(chat_usage, st.integers(0, 99), st.integers(0, 99))
