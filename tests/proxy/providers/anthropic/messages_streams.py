"""Streams of the Messages API, as Anthropic sends them."""

from typing import Any

import orjson

Json = dict[str, Any]
#: Usage at the beginning of a stream.
START = {
    "input_tokens": 9,
    "cache_read_input_tokens": 100,
    "cache_creation_input_tokens": 20,
    "cache_creation": {"ephemeral_5m_input_tokens": 0, "ephemeral_1h_input_tokens": 20},
    "output_tokens": 1,
}


def event(kind: str, **fields: Any) -> bytes:
    return b"event: %b\ndata: %b\n\n" % (kind.encode(), orjson.dumps({"type": kind, **fields}))


def _deltas(block: Json) -> tuple[Json, list[Json]]:
    """The block as it starts, and its deltas."""
    kind = block["type"]
    if kind == "text":
        grown = [{"type": "text_delta", "text": letter} for letter in block["text"]]
        cited = [{"type": "citations_delta", "citation": c} for c in block.get("citations", [])]
        return {"type": "text", "text": ""}, grown + cited
    if kind == "thinking":
        grown = [
            {"type": "thinking_delta", "thinking": word} for word in block["thinking"].split(" ")
        ]
        for delta in grown[1:]:
            delta["thinking"] = " " + delta["thinking"]
        signed = [{"type": "signature_delta", "signature": block["signature"]}]
        return {"type": "thinking", "thinking": "", "signature": ""}, grown + signed
    if kind == "tool_use" and block["input"]:
        text = orjson.dumps(block["input"]).decode()
        pieces = ["", text[:5], text[5:]]
        grown = [{"type": "input_json_delta", "partial_json": piece} for piece in pieces]
        return block | {"input": {}}, grown
    if kind == "compaction" and "signature" not in block:
        members: Json = {
            name: block[name] for name in ("content", "encrypted_content") if name in block
        }
        return {"type": kind, "content": None}, [{"type": "compaction_delta", **members}]
    return block, []


def stream(
    blocks: list[Json],
    reason: str = "end_turn",
    *,
    message: Json | None = None,
    usage: Json | None = None,
) -> bytes:
    """A stream of these blocks, whose text comes in pieces."""
    opening = message or {"id": "msg_1", "usage": START}
    events = [event("message_start", message=opening), event("ping")]
    for index, block in enumerate(blocks):
        start, deltas = _deltas(block)
        events.append(event("content_block_start", index=index, content_block=start))
        events += [event("content_block_delta", index=index, delta=delta) for delta in deltas]
        events.append(event("content_block_stop", index=index))
    usage = usage or {"output_tokens": 30, "input_tokens": 9}
    ending = {"stop_reason": reason, "stop_sequence": None}
    events.append(event("message_delta", delta=ending, usage=usage))
    return b"".join([*events, event("message_stop")])
