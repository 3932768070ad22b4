"""OpenAI's chat completions: the answers.

Source: OpenAI API reference, chat (openai 3.52); DeepSeek, context caching (2026-11).
"""

from collections.abc import Iterator, Sequence
from typing import Any

from proxy.tools.simulator.apis.chat_bodies import read_chat_request
from proxy.tools.simulator.replies import EndpointDialect, ModelReply, ScriptedCall, ScriptedReply
from proxy.tools.simulator.samples import pieces
from proxy.tools.simulator.streams import Json, StreamEvent
from slo.usage import Usage

_FINISH = {
    "stop": "stop",
    "sequence": "stop",
    "length": "length",
    "tools": "tool_calls",
    "refusal": "stop",
}


def counts(usage: Usage, *, units: bool) -> Json:
    """Usage as chat tells it: all prompt tokens in one figure, the cached ones among them.

    Args:
        units: True to add DeepSeek's hit and miss counts.
    """
    written = usage.prompt_tokens - usage.input - usage.cache_read
    document: Json = {
        "prompt_tokens": usage.prompt_tokens,
        "completion_tokens": usage.generated_tokens,
        "total_tokens": usage.prompt_tokens + usage.generated_tokens,
        "prompt_tokens_details": {
            "cached_tokens": usage.cache_read,
            "cache_write_tokens": written,
            "audio_tokens": 0,
        },
        "completion_tokens_details": {
            "reasoning_tokens": usage.reasoning,
            "audio_tokens": 0,
            "accepted_prediction_tokens": 0,
            "rejected_prediction_tokens": 0,
        },
    }
    if units:
        document["prompt_cache_hit_tokens"] = usage.cache_read
        document["prompt_cache_miss_tokens"] = usage.prompt_tokens - usage.cache_read
    return document


def answer(scripted: ScriptedReply) -> Json:
    """The whole answer."""
    choices = [
        {"index": index, "message": _message(reply)}
        | {"logprobs": None, "finish_reason": _FINISH[reply.finish]}
        for index, reply in enumerate(scripted.replies)
    ]
    usage = _counts(scripted, scripted.usage)
    return _object(scripted, "chat.completion", choices) | {"usage": usage}


def events(scripted: ScriptedReply) -> Sequence[StreamEvent]:
    """The answer as a stream."""
    chunks = [
        chunk
        for index, reply in enumerate(scripted.replies)
        for chunk in _choice(scripted, index, reply)
    ]
    if not scripted.model.asks_usage:
        last_chunk = chunks[-1].payload or {}
        chunks[-1] = StreamEvent(last_chunk | {"usage": _counts(scripted, scripted.usage)})
    elif scripted.request.usage_chunk:
        for chunk in chunks:
            assert chunk.payload is not None  # noqa: S101 - only [DONE] has none
            chunk.payload["usage"] = None
        last = _object(scripted, "chat.completion.chunk", [])
        chunks.append(StreamEvent(last | {"usage": _counts(scripted, scripted.usage)}))
    return [*chunks, StreamEvent(None)]


def midway(scripted: ScriptedReply) -> StreamEvent:
    """A chunk that tells usage while the answer is being written, as vLLM can."""
    chunk = _chunk(scripted, 0, {"content": ""})
    return StreamEvent(chunk | {"usage": _counts(scripted, scripted.midway_usage)})


def _counts(scripted: ScriptedReply, usage: Usage) -> Json:
    return counts(usage, units=scripted.model.regime == "prefix-unit")


def _object(scripted: ScriptedReply, kind: str, choices: list[Json]) -> Json:
    return {
        "id": f"chatcmpl-{scripted.id}",
        "object": kind,
        "created": scripted.created,
        "model": scripted.request.model,
        "choices": choices,
        "system_fingerprint": "fp_simulated",
        **(scripted.request.echoes or {}),
    }


def _message(reply: ModelReply) -> Json:
    refused = reply.finish == "refusal"
    message: Json = {
        "role": "assistant",
        "content": None if refused or reply.calls else reply.text,
        "refusal": reply.text if refused else None,
        "annotations": [],
    }
    if reply.calls:
        message["tool_calls"] = [_call(call) for call in reply.calls]
    return message


def _call(call: ScriptedCall) -> Json:
    function = {"name": call.name, "arguments": call.arguments}
    return {"id": f"call_{call.id}", "type": "function", "function": function}


def _chunk(scripted: ScriptedReply, index: int, delta: Json, finish: str | None = None) -> Json:
    choice = {"index": index, "delta": delta, "logprobs": None, "finish_reason": finish}
    return _object(scripted, "chat.completion.chunk", [choice])


def _choice(scripted: ScriptedReply, index: int, reply: ModelReply) -> Iterator[StreamEvent]:
    first = {"role": "assistant", "content": None if reply.calls else "", "refusal": None}
    yield StreamEvent(_chunk(scripted, index, first))
    field = "refusal" if reply.finish == "refusal" else "content"
    for piece, tokens in reply.text_pieces():
        yield StreamEvent(_chunk(scripted, index, {field: piece}), tokens=tokens)
    for number, call in enumerate(reply.calls):
        yield from _tool_call_events(scripted, index, number, call)
    yield StreamEvent(_chunk(scripted, index, {}, _FINISH[reply.finish]))


def _tool_call_events(
    scripted: ScriptedReply, index: int, number: int, call: ScriptedCall
) -> Iterator[StreamEvent]:
    """The first piece names the tool, the later ones carry only arguments."""
    opening: dict[str, Any] = _call(call) | {"index": number}
    opening["function"] = {"name": call.name, "arguments": ""}
    yield StreamEvent(_chunk(scripted, index, {"tool_calls": [opening]}), tokens=1)
    for piece in pieces(call.arguments):
        part = {"index": number, "function": {"arguments": piece}}
        yield StreamEvent(_chunk(scripted, index, {"tool_calls": [part]}), tokens=3)


CHAT = EndpointDialect(
    wire="openai",
    read_request=read_chat_request,
    answer=answer,
    events=events,
    midway=midway,
    opening=1,
)
