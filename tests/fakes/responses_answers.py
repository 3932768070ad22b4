"""Answers of OpenAI's Responses API, in as few words as a story needs."""

from typing import Any

import orjson

Json = dict[str, Any]
COUNTS: Json = {
    "input_tokens": 100,
    "input_tokens_details": {"cached_tokens": 60},
    "output_tokens": 9,
    "output_tokens_details": {"reasoning_tokens": 2},
    "total_tokens": 109,
}
THOUGHT: Json = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "c2VhbA"}
CALL: Json = {
    "type": "function_call",
    "id": "fc_1",
    "call_id": "call_1",
    "name": "weather",
    "arguments": '{"city": "Bern"}',
}


def message_item(text: str, **part: Any) -> Json:
    """An item that says this."""
    content = [{"type": "output_text", "text": text, "annotations": [], **part}]
    return {"type": "message", "id": "msg_1", "role": "assistant", "content": content}


def response(*items: Json, status: str = "completed", **fields: Any) -> Json:
    """A response with these items."""
    return {"id": "resp_1", "status": status, "output": [*items], "usage": COUNTS, **fields}


def stream_of(whole: Json) -> bytes:
    """The stream of events that ends with this response; texts come in two pieces."""
    events: list[Json] = [{"type": "response.created", "response": {"id": whole["id"]}}]
    for index, item in enumerate(whole["output"]):
        place = {"output_index": index}
        opened = {**item, "content": []} if item["type"] == "message" else {**item, "arguments": ""}
        events.append({"type": "response.output_item.added", **place, "item": opened})
        for part in item.get("content") or ():
            text, name = part.get("text", part.get("refusal")), part["type"]
            half = len(text) // 2
            events += [
                {"type": f"response.{name}.delta", **place, "delta": piece}
                for piece in (text[:half], text[half:])
            ]
        if arguments := item.get("arguments"):
            kind = "response.function_call_arguments.delta"
            events += [
                {"type": kind, **place, "delta": piece} for piece in (arguments[:3], arguments[3:])
            ]
        events.append({"type": "response.output_item.done", **place, "item": item})
    events.append({"type": f"response.{whole['status']}", "response": whole})
    return event_run(*events)


def event_run(*events: Json) -> bytes:
    """The events as a run of bytes."""
    return b"".join(
        b"event: %b\ndata: %b\n\n" % (event["type"].encode(), orjson.dumps(event))
        for event in events
    )
