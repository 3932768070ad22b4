"""Anthropic's messages: the answers.

Source: Anthropic, Messages API, streaming and usage (2026-08).
"""

from collections.abc import Iterator, Sequence

import msgspec
import orjson

from proxy.tools.simulator.apis.messages_bodies import read_messages_request
from proxy.tools.simulator.replies import (
    EndpointDialect,
    ModelReply,
    ScriptedCall,
    ScriptedReply,
    signature,
)
from proxy.tools.simulator.samples import pieces
from proxy.tools.simulator.streams import Json, StreamEvent
from slo.usage import Usage

_STOP = {
    "stop": "end_turn",
    "sequence": "stop_sequence",
    "length": "max_tokens",
    "tools": "tool_use",
    "refusal": "refusal",
}


def answer(scripted: ScriptedReply) -> Json:
    """The whole answer."""
    reply = scripted.replies[0]
    ending = {"stop_reason": _STOP[reply.finish], "stop_sequence": reply.stop or None}
    whole = _object(scripted, _content_blocks(reply)) | ending | {"usage": counts(scripted.usage)}
    return whole | dict(scripted.request.echoes or {})


def counts(usage: Usage) -> Json:
    """Usage as Anthropic tells it: what was read and written is not among the input tokens."""
    document: Json = {
        "input_tokens": usage.input,
        "cache_creation_input_tokens": usage.write_5m + usage.write_1h,
        "cache_read_input_tokens": usage.cache_read,
        "cache_creation": {
            "ephemeral_5m_input_tokens": usage.write_5m,
            "ephemeral_1h_input_tokens": usage.write_1h,
        },
        "output_tokens": usage.generated_tokens,
        "service_tier": "standard",
    }
    if usage.reasoning:
        document["output_tokens_details"] = {"thinking_tokens": usage.reasoning}
    return document


def events(scripted: ScriptedReply) -> Sequence[StreamEvent]:
    """The answer as a stream; every event is named, and ``message_stop`` is the last."""
    return [
        StreamEvent({"type": event.name} | (event.payload or {}), event.name, event.tokens)
        for event in _message_object(scripted)
    ]


def midway(scripted: ScriptedReply) -> StreamEvent:
    """An event that tells usage before the end."""
    delta = {"stop_reason": None, "stop_sequence": None}
    payload = {"type": "message_delta", "delta": delta, "usage": counts(scripted.midway_usage)}
    return StreamEvent(payload, "message_delta")


def _message_object(scripted: ScriptedReply) -> Iterator[StreamEvent]:
    reply = scripted.replies[0]
    started = _object(scripted, []) | {"stop_reason": None, "stop_sequence": None}
    begun = msgspec.structs.replace(
        scripted.usage, output=min(scripted.usage.output, 1), reasoning=0
    )
    yield StreamEvent({"message": started | {"usage": counts(begun)}}, "message_start")
    for index, block in enumerate(_content_blocks(reply)):
        yield from _block(index, block, reply)
        if index == 0:
            yield StreamEvent({}, "ping")
    ending = {"stop_reason": _STOP[reply.finish], "stop_sequence": reply.stop or None}
    edited = dict(scripted.request.echoes or {})
    yield StreamEvent({"delta": ending, "usage": counts(scripted.usage)} | edited, "message_delta")
    yield StreamEvent({}, "message_stop")


def _block(index: int, block: Json, reply: ModelReply) -> Iterator[StreamEvent]:
    place: Json = {"index": index}
    yield StreamEvent(place | {"content_block": _empty_block(block)}, "content_block_start")
    for delta, tokens in _deltas(block, reply):
        yield StreamEvent(place | {"delta": delta}, "content_block_delta", tokens)
    yield StreamEvent(place, "content_block_stop")


def _empty_block(block: Json) -> Json:
    """The block before its content has come."""
    empty = {"text": "", "thinking": "", "signature": "", "input": {}}
    return {name: empty.get(name, value) for name, value in block.items()}


def _deltas(block: Json, reply: ModelReply) -> Iterator[tuple[Json, int]]:
    match block["type"]:
        case "thinking":
            for piece, tokens in reply.thinking_pieces():
                yield {"type": "thinking_delta", "thinking": piece}, tokens
            yield {"type": "signature_delta", "signature": block["signature"]}, 0
        case "tool_use":
            for piece in pieces(orjson.dumps(block["input"]).decode()):
                yield {"type": "input_json_delta", "partial_json": piece}, 3
        case _:
            for piece, tokens in reply.text_pieces():
                yield {"type": "text_delta", "text": piece}, tokens


def _object(scripted: ScriptedReply, content: list[Json]) -> Json:
    return {
        "id": f"msg_{scripted.id}",
        "type": "message",
        "role": "assistant",
        "model": scripted.request.model,
        "content": content,
    }


def _content_blocks(reply: ModelReply) -> list[Json]:
    blocks: list[Json] = []
    if reply.thinking:
        mark = signature(reply.thinking)
        blocks.append({"type": "thinking", "thinking": reply.thinking, "signature": mark})
    if reply.text:
        blocks.append({"type": "text", "text": reply.text})
    return blocks + [_tool_use_block(call) for call in reply.calls]


def _tool_use_block(call: ScriptedCall) -> Json:
    arguments = orjson.loads(call.arguments)
    return {"type": "tool_use", "id": f"toolu_{call.id}", "name": call.name, "input": arguments}


MESSAGES = EndpointDialect(
    wire="anthropic",
    read_request=read_messages_request,
    answer=answer,
    events=events,
    midway=midway,
    opening=1,
)
