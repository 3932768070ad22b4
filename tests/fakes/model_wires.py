"""Answers of a scripted model in the wire format of each API, whole and as the events of a stream.

Written from the providers' references alone, not from the gateway's readers.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import orjson

Json = dict[str, Any]
#: Words of a streamed answer in one event, and characters of arguments.
_CHUNK_WORDS = 3
_CHUNK_CHARS = 7
_CREATED = 1_790_000_000


@dataclass(frozen=True, kw_only=True)
class ModelTurn:
    """One answer of the model.

    Attributes:
        thinking: What it thinks before its text; signed, where the API signs it.
        calls: Names and arguments of the tools it calls, after its text.
        status: The status; any but 200 is an error.
        breaks: True if the connection breaks before the end.
        hangs: True if nothing comes, ever.
        waits: True if its calls wait until the model is told to go on.
    """

    thinking: str = ""
    text: str = ""
    calls: Sequence[tuple[str, Json]] = ()
    status: int = 200
    breaks: bool = False
    hangs: bool = False
    waits: bool = False


def prompt_tokens(body: Json) -> int:
    """Tokens of a prompt, about."""
    return len(orjson.dumps(body.get("messages", body.get("input")))) // 4


def chat_completion(body: Json, turn: ModelTurn, number: int) -> Json:
    """A whole chat completion."""
    message: Json = {"role": "assistant", "content": turn.text or None}
    if turn.calls:
        message["tool_calls"] = list(_tool_calls(turn, number))
    choice = {"index": 0, "message": message, "finish_reason": _chat_end(turn)}
    return {**_chat_head(body, number), "object": "chat.completion"} | {
        "choices": [choice],
        "usage": _chat_usage(body, turn),
    }


def chat_chunks(body: Json, turn: ModelTurn, number: int) -> Iterator[bytes]:
    """The chunks of a chat completion."""

    def chunk(delta: Json, finish: str | None = None) -> bytes:
        choice = {"index": 0, "delta": delta, "finish_reason": finish}
        return _data({**opening, "choices": [choice]})

    opening = {**_chat_head(body, number), "object": "chat.completion.chunk"}
    yield chunk({"role": "assistant", "content": ""})
    for words in _word_groups(turn.text):
        yield chunk({"content": words})
    for place, call in enumerate(_tool_calls(turn, number)):
        arguments = call["function"]["arguments"]
        begun = {**call, "index": place, "function": {**call["function"], "arguments": ""}}
        yield chunk({"tool_calls": [begun]})
        for part in _pieces(arguments):
            yield chunk({"tool_calls": [{"index": place, "function": {"arguments": part}}]})
    if turn.breaks:
        return
    yield chunk({}, _chat_end(turn))
    yield _data({**opening, "choices": [], "usage": _chat_usage(body, turn)})
    yield b"data: [DONE]\n\n"


def message(body: Json, turn: ModelTurn, number: int) -> Json:
    """A whole answer of the Messages API."""
    return {
        **_message_head(body, number),
        "content": list(_blocks(turn, number)),
        "stop_reason": "tool_use" if turn.calls else "end_turn",
        "usage": {"input_tokens": prompt_tokens(body), "output_tokens": _generated_tokens(turn)},
    }


def message_events(body: Json, turn: ModelTurn, number: int) -> Iterator[bytes]:
    """The events of an answer of the Messages API."""
    usage = {"input_tokens": prompt_tokens(body), "output_tokens": 1}
    head = {**_message_head(body, number), "content": [], "stop_reason": None, "usage": usage}
    yield _named_event({"type": "message_start", "message": head})
    yield _named_event({"type": "ping"})
    for index, block in enumerate(_blocks(turn, number)):
        start, deltas = _block_parts(block)
        yield _named_event({"type": "content_block_start", "index": index, "content_block": start})
        for delta in deltas:
            yield _named_event({"type": "content_block_delta", "index": index, "delta": delta})
        yield _named_event({"type": "content_block_stop", "index": index})
    if turn.breaks:
        return
    end = {"stop_reason": "tool_use" if turn.calls else "end_turn", "stop_sequence": None}
    output = {"output_tokens": _generated_tokens(turn)}
    yield _named_event({"type": "message_delta", "delta": end, "usage": output})
    yield _named_event({"type": "message_stop"})


def response(body: Json, turn: ModelTurn, number: int) -> Json:
    """A whole response."""
    prompt, generated = prompt_tokens(body), _generated_tokens(turn)
    return _response_head(body, number) | {
        "status": "completed",
        "output": list(_items(turn, number)),
        "usage": {
            "input_tokens": prompt,
            "input_tokens_details": {"cached_tokens": 0},
            "output_tokens": generated,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": prompt + generated,
        },
    }


def response_events(body: Json, turn: ModelTurn, number: int) -> Iterator[bytes]:
    """The events of a response."""
    head = _response_head(body, number)
    events: list[Json] = [
        {"type": "response.created", "response": head},
        {"type": "response.in_progress", "response": head},
    ]
    for index, item in enumerate(_items(turn, number)):
        events += _item_events(index, item)
    if not turn.breaks:
        events.append({"type": "response.completed", "response": response(body, turn, number)})
    for place, event in enumerate(events):
        yield _named_event({**event, "sequence_number": place})


def _item_events(index: int, item: Json) -> Iterator[Json]:
    """The events of one item."""
    place = {"item_id": item["id"], "output_index": index}
    begun = {**item, "status": "in_progress"}
    empty: dict[str, Json] = {"message": {"content": []}, "function_call": {"arguments": ""}}
    added = begun | empty.get(item["type"], {})
    yield {"type": "response.output_item.added", "output_index": index, "item": added}
    if item["type"] == "message":
        (part,) = item["content"]
        inside = {**place, "content_index": 0}
        opening = {**part, "text": ""}
        yield {"type": "response.content_part.added", **inside, "part": opening}
        for words in _word_groups(part["text"]):
            yield {"type": "response.output_text.delta", **inside, "delta": words, "logprobs": []}
        text = {"text": part["text"], "logprobs": []}
        yield {"type": "response.output_text.done", **inside, **text}
        yield {"type": "response.content_part.done", **inside, "part": part}
    if item["type"] == "function_call":
        for piece in _pieces(item["arguments"]):
            yield {"type": "response.function_call_arguments.delta", **place, "delta": piece}
        done = {"arguments": item["arguments"], "name": item["name"]}
        yield {"type": "response.function_call_arguments.done", **place, **done}
    yield {"type": "response.output_item.done", "output_index": index, "item": item}


def _items(turn: ModelTurn, number: int) -> Iterator[Json]:
    if turn.thinking:
        sealed = {"encrypted_content": f"sealed: {turn.thinking}", "summary": []}
        yield {"type": "reasoning", "id": f"rs_{number}", **sealed}
    if turn.text:
        part = {"type": "output_text", "text": turn.text, "annotations": [], "logprobs": []}
        message = {"role": "assistant", "status": "completed", "content": [part]}
        yield {"type": "message", "id": f"msg_{number}", **message}
    for call in _tool_calls(turn, number):
        named = {"call_id": call["id"], **call["function"], "status": "completed"}
        yield {"type": "function_call", "id": f"fc_{call['id']}", **named}


def _blocks(turn: ModelTurn, number: int) -> Iterator[Json]:
    if turn.thinking:
        signature = f"signed {number}: {turn.thinking}"
        yield {"type": "thinking", "thinking": turn.thinking, "signature": signature}
    if turn.text:
        yield {"type": "text", "text": turn.text}
    for place, (name, arguments) in enumerate(turn.calls):
        yield {"type": "tool_use", "id": f"toolu_{number}_{place}", "name": name} | {
            "input": arguments
        }


def _block_parts(block: Json) -> tuple[Json, list[Json]]:
    """The start of a block, and its deltas."""
    if block["type"] == "thinking":
        words = _word_groups(block["thinking"])
        deltas = [{"type": "thinking_delta", "thinking": part} for part in words]
        signed = {"type": "signature_delta", "signature": block["signature"]}
        return {**block, "thinking": "", "signature": ""}, [*deltas, signed]
    if block["type"] == "text":
        words = _word_groups(block["text"])
        return {**block, "text": ""}, [{"type": "text_delta", "text": part} for part in words]
    arguments = orjson.dumps(block["input"]).decode()
    parts = [{"type": "input_json_delta", "partial_json": part} for part in _pieces(arguments)]
    return {**block, "input": {}}, parts


def _tool_calls(turn: ModelTurn, number: int) -> Iterator[Json]:
    for place, (name, arguments) in enumerate(turn.calls):
        function = {"name": name, "arguments": orjson.dumps(arguments).decode()}
        yield {"id": f"call_{number}_{place}", "type": "function", "function": function}


def _chat_head(body: Json, number: int) -> Json:
    return {"id": f"chatcmpl-{number}", "created": _CREATED, "model": body["model"]}


def _message_head(body: Json, number: int) -> Json:
    named = {"id": f"msg_{number}", "type": "message", "role": "assistant"}
    return {**named, "model": body["model"], "stop_sequence": None}


def _response_head(body: Json, number: int) -> Json:
    return {
        "id": f"resp_{number}",
        "object": "response",
        "created_at": _CREATED + number,
        "model": body["model"],
        "status": "in_progress",
        "output": [],
        "tools": body.get("tools", []),
        "tool_choice": body.get("tool_choice", "auto"),
        "parallel_tool_calls": True,
    }


def _chat_end(turn: ModelTurn) -> str:
    return "tool_calls" if turn.calls else "stop"


def _chat_usage(body: Json, turn: ModelTurn) -> Json:
    prompt, generated = prompt_tokens(body), _generated_tokens(turn)
    return {
        "prompt_tokens": prompt,
        "completion_tokens": generated,
        "total_tokens": prompt + generated,
    }


def _generated_tokens(turn: ModelTurn) -> int:
    return len(turn.text) // 4 + 10


def _word_groups(text: str) -> Iterator[str]:
    """A text in groups of words, as its deltas have them."""
    words = text.split(" ") if text else []
    for start in range(0, len(words), _CHUNK_WORDS):
        group = " ".join(words[start : start + _CHUNK_WORDS])
        yield group if start == 0 else f" {group}"


def _pieces(text: str) -> Iterator[str]:
    for start in range(0, len(text), _CHUNK_CHARS):
        yield text[start : start + _CHUNK_CHARS]


def _data(value: Json) -> bytes:
    return b"data: " + orjson.dumps(value) + b"\n\n"


def _named_event(event: Json) -> bytes:
    return b"event: %b\n" % str(event["type"]).encode() + _data(event)
