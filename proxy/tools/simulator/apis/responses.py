"""OpenAI's Responses: the answers.

Source: OpenAI API reference, Responses streaming and usage (openai 3.52).
"""

from collections.abc import Iterator, Sequence

from proxy.tools.simulator.apis.responses_bodies import read_responses_request
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


def answer(scripted: ScriptedReply) -> Json:
    """The whole answer."""
    reply = scripted.replies[0]
    cut = reply.finish == "length"
    return _object(scripted, "incomplete" if cut else "completed", output_items(scripted)) | {
        "incomplete_details": {"reason": "max_output_tokens"} if cut else None,
        "usage": counts(scripted.usage),
    }


def output_items(scripted: ScriptedReply) -> list[Json]:
    """The answer's items: its reasoning, then one message or one item per tool call."""
    reply = scripted.replies[0]
    if reply.calls:
        calls = [_tool_call_item(call, call.arguments, "completed") for call in reply.calls]
        return [*_reasoning(scripted), *calls]
    status = "incomplete" if reply.finish == "length" else "completed"
    return [*_reasoning(scripted), _message(scripted, [_part(reply, reply.text)], status)]


def counts(usage: Usage) -> Json:
    """Usage as Responses tells it: all prompt tokens in one figure, the cached ones among them."""
    return {
        "input_tokens": usage.prompt_tokens,
        "input_tokens_details": {
            "cached_tokens": usage.cache_read,
            "cache_write_tokens": usage.prompt_tokens - usage.input - usage.cache_read,
            "cache_write_tokens_details": {
                "ttl_30m_tokens": usage.write_30m,
                "ttl_12h_tokens": usage.write_12h,
            },
        },
        "output_tokens": usage.generated_tokens,
        "output_tokens_details": {"reasoning_tokens": usage.reasoning},
        "total_tokens": usage.prompt_tokens + usage.generated_tokens,
    }


def events(scripted: ScriptedReply) -> Sequence[StreamEvent]:
    """The answer as a stream; every event has a name and a number, and there is no ``[DONE]``."""
    numbered = []
    for number, event in enumerate(_stream_events(scripted)):
        payload = {"type": event.name, "sequence_number": number} | (event.payload or {})
        numbered.append(StreamEvent(payload, event.name, event.tokens))
    return numbered


def midway(scripted: ScriptedReply) -> StreamEvent:
    """An event that tells usage before the end."""
    usage = counts(scripted.midway_usage)
    response = _object(scripted, "in_progress", []) | {"usage": usage}
    name = "response.in_progress"
    return StreamEvent({"type": name, "sequence_number": 0, "response": response}, name)


def _stream_events(scripted: ScriptedReply) -> Iterator[StreamEvent]:
    started = _object(scripted, "in_progress", [])
    yield StreamEvent({"response": started}, "response.created")
    yield StreamEvent({"response": started}, "response.in_progress")
    reply = scripted.replies[0]
    before = _reasoning(scripted)
    for index, item in enumerate(before):
        yield StreamEvent({"output_index": index, "item": item}, "response.output_item.added")
        yield StreamEvent({"output_index": index, "item": item}, "response.output_item.done")
    for index, call in enumerate(reply.calls, len(before)):
        yield from _tool_call_events(index, call)
    if not reply.calls:
        yield from _text_events(scripted, reply, len(before))
    whole = answer(scripted)
    yield StreamEvent({"response": whole}, f"response.{whole['status']}")


def _text_events(scripted: ScriptedReply, reply: ModelReply, index: int) -> Iterator[StreamEvent]:
    place: Json = {"item_id": f"msg_{scripted.id}", "output_index": index, "content_index": 0}
    refused = reply.finish == "refusal"
    kind, field = ("refusal", "refusal") if refused else ("output_text", "text")
    yield StreamEvent(
        {"output_index": index, "item": _message(scripted, [], "in_progress")},
        "response.output_item.added",
    )
    yield StreamEvent(place | {"part": _part(reply, "")}, "response.content_part.added")
    for piece, tokens in reply.text_pieces():
        delta = place | {"delta": piece} | ({} if refused else {"logprobs": []})
        yield StreamEvent(delta, f"response.{kind}.delta", tokens)
    done = place | {field: reply.text} | ({} if refused else {"logprobs": []})
    yield StreamEvent(done, f"response.{kind}.done")
    yield StreamEvent(place | {"part": _part(reply, reply.text)}, "response.content_part.done")
    yield StreamEvent(
        {"output_index": index, "item": output_items(scripted)[-1]}, "response.output_item.done"
    )


def _tool_call_events(index: int, call: ScriptedCall) -> Iterator[StreamEvent]:
    place: Json = {"item_id": f"fc_{call.id}", "output_index": index}
    added = {"output_index": index, "item": _tool_call_item(call, "", "in_progress")}
    yield StreamEvent(added, "response.output_item.added")
    for piece in pieces(call.arguments):
        delta = place | {"delta": piece}
        yield StreamEvent(delta, "response.function_call_arguments.delta", 3)
    done = place | {"arguments": call.arguments, "name": call.name}
    yield StreamEvent(done, "response.function_call_arguments.done")
    item = _tool_call_item(call, call.arguments, "completed")
    yield StreamEvent({"output_index": index, "item": item}, "response.output_item.done")


def _object(scripted: ScriptedReply, status: str, items: list[Json]) -> Json:
    return {
        "id": f"resp_{scripted.id}",
        "object": "response",
        "created_at": scripted.created,
        "status": status,
        "background": False,
        "error": None,
        "incomplete_details": None,
        "model": scripted.request.model,
        "output": items,
        "usage": None,
        "user": None,
        **(scripted.request.echoes or {}),
    }


def _reasoning(scripted: ScriptedReply) -> list[Json]:
    """The item that stands for the reasoning; none where there was none."""
    if not scripted.replies[0].reasoning:
        return []
    item_id = f"rs_{scripted.id}"
    sealed = {"encrypted_content": signature(item_id)} if scripted.request.seals_reasoning else {}
    return [{"id": item_id, "type": "reasoning", "summary": [], **sealed}]


def _message(scripted: ScriptedReply, content: list[Json], status: str) -> Json:
    return {
        "id": f"msg_{scripted.id}",
        "type": "message",
        "role": "assistant",
        "status": status,
        "content": content,
        **({"phase": "final_answer"} if scripted.request.names_phase else {}),
    }


def _part(reply: ModelReply, text: str) -> Json:
    if reply.finish == "refusal":
        return {"type": "refusal", "refusal": text}
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": []}


def _tool_call_item(call: ScriptedCall, arguments: str, status: str) -> Json:
    return {
        "id": f"fc_{call.id}",
        "type": "function_call",
        "call_id": f"call_{call.id}",
        "name": call.name,
        "arguments": arguments,
        "status": status,
    }


RESPONSES = EndpointDialect(
    wire="openai",
    read_request=read_responses_request,
    answer=answer,
    events=events,
    midway=midway,
    opening=2,
)
