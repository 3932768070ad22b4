"""Logs of the same calls as each tool writes them, made here by the tools' own fields."""

import gzip
from collections.abc import Callable, Mapping
from typing import Final

import orjson

from tests.fakes.logged_calls import (
    CLAUDE,
    MODEL,
    OUTPUT,
    TOOLS,
    Json,
    LoggedCall,
    claude_code,
    codex,
    json_lines,
    logged_calls,
)


def own_form(count: int) -> bytes:
    """The form that ``thriftgate replay`` documents."""
    return json_lines(
        {
            "t": call.at,
            "feature": "desk",
            "body": call.request,
            "reply": call.response["choices"][0]["message"],
        }
        for call in logged_calls(count)
    )


def pairs(count: int) -> bytes:
    """Requests and responses, pretty-printed, in one array."""
    rows = [{"request": call.request, "response": call.response} for call in logged_calls(count)]
    return orjson.dumps(rows, option=orjson.OPT_INDENT_2)


def bare_bodies(count: int) -> bytes:
    """Bodies of requests, one a line, with nothing beside them."""
    return json_lines(call.request for call in logged_calls(count))


def litellm_payloads(count: int) -> bytes:
    """LiteLLM's StandardLoggingPayload, as its file and bucket callbacks write it."""
    return json_lines(
        {
            "id": f"chatcmpl-{call.number}",
            "trace_id": f"trace-{call.number}",
            "call_type": "acompletion",
            "status": "success",
            "response_cost": 0.01,
            "total_tokens": 3040,
            "prompt_tokens": 3000,
            "completion_tokens": OUTPUT,
            "startTime": call.at,
            "endTime": call.at + 1.5,
            "completionStartTime": call.at + 0.5,
            "model": MODEL,
            "model_group": "desk-model",
            "custom_llm_provider": "openai",
            "metadata": {"user_api_key_alias": "desk-key", "user_api_key_team_alias": "desk"},
            "request_tags": ["User-Agent: openai-python", "desk"],
            "messages": call.messages,
            "response": call.response,
            "model_parameters": {"tools": TOOLS, "temperature": 0},
        }
        for call in logged_calls(count)
    )


def litellm_spend_logs(count: int) -> bytes:
    """LiteLLM's spend logs with stored prompts, as ``/spend/logs`` answers."""
    rows = [
        {
            "request_id": f"chatcmpl-{call.number}",
            "call_type": "acompletion",
            "api_key": "88dc28d0f030c55ed4ab77ed8faf098196cb1c05df778539800c9f1243fe6b4b",
            "spend": 0.01,
            "total_tokens": 3040,
            "prompt_tokens": 3000,
            "completion_tokens": OUTPUT,
            "startTime": call.iso,
            "endTime": call.iso,
            "model": f"openai/{MODEL}",
            "metadata": {"user_api_key_alias": "desk"},
            "request_tags": "[]",
            "messages": "{}",
            "response": orjson.dumps(call.response).decode(),
            "proxy_server_request": orjson.dumps(call.request).decode(),
            "session_id": f"s{call.number}",
            "status": "success",
        }
        for call in logged_calls(count)
    ]
    return orjson.dumps(rows)


def portkey(count: int) -> bytes:
    """Portkey's logs export."""
    return json_lines(
        {
            "id": f"log-{call.number}",
            "trace_id": f"trace-{call.number}",
            "created_at": call.iso,
            "request": {"method": "POST", "url": "/v1/chat/completions", "body": call.request},
            "response": {"status": 200, "body": call.response},
            "is_success": True,
            "ai_org": "openai",
            "ai_model": MODEL,
            "req_units": 3000,
            "res_units": OUTPUT,
            "total_units": 3040,
            "cost": 1.0,
            "cost_currency": "USD",
            "response_time": 1500,
            "response_status_code": 200,
            "mode": "single",
            "metadata": {"feature": "desk"},
        }
        for call in logged_calls(count)
    )


def langfuse(count: int) -> bytes:
    """Langfuse's export of observations as JSON: newest first, spans between generations."""
    rows: list[Json] = []
    for call in logged_calls(count):
        shared = {"traceId": f"t{call.number}", "startTime": call.iso, "level": "DEFAULT"}
        rows.append({"id": f"s{call.number}", "type": "SPAN", "name": "request", **shared})
        rows.append(
            {
                "id": f"o{call.number}",
                "type": "GENERATION",
                "name": "desk",
                **shared,
                "endTime": call.iso,
                "model": MODEL,
                "modelParameters": {"temperature": 0},
                "input": {"messages": call.messages, "tools": TOOLS},
                "output": call.response["choices"][0]["message"],
                "usageDetails": {"input": 3000, "output": OUTPUT, "total": 3040},
                "metadata": {},
            }
        )
    return orjson.dumps(rows[::-1])


def helicone(count: int) -> bytes:
    """Helicone's export with ``--include-body``, packed."""
    return gzip.compress(
        json_lines(
            {
                "request_id": f"r{call.number}",
                "request_created_at": call.iso,
                "request_path": "https://api.openai.com/v1/chat/completions",
                "request_body": call.request,
                "request_user_id": None,
                "request_properties": {"Feature": "desk"},
                "request_model": MODEL,
                "response_id": f"a{call.number}",
                "response_created_at": call.iso,
                "response_status": 200,
                "response_body": call.response,
                "response_model": f"{MODEL}-2026-03-05",
                "provider": "OPENAI",
                "delay_ms": 1500,
                "prompt_tokens": 3000,
                "completion_tokens": OUTPUT,
            }
            for call in logged_calls(count)
        )
    )


def _attribute(name: str, value: object) -> Json:
    kind = "intValue" if isinstance(value, int) else "stringValue"
    return {"key": name, "value": {kind: str(value) if kind == "intValue" else value}}


def _text_parts(text: str) -> list[Json]:
    return [{"type": "text", "content": text}]


def otel_spans(count: int) -> bytes:
    """OTLP JSON of the collector's file exporter: an agent's span around each model's."""
    rows = []
    for call in logged_calls(count):
        messages = [{"role": "user", "parts": _text_parts(call.question)}]
        reply = [{"role": "assistant", "parts": _text_parts(call.answer), "finish_reason": "stop"}]
        shared = [
            _attribute("gen_ai.input.messages", orjson.dumps(messages).decode()),
            _attribute("gen_ai.output.messages", orjson.dumps(reply).decode()),
            _attribute("gen_ai.request.model", MODEL),
        ]
        tools = [{"type": "function", **TOOLS[0]["function"]}]
        own = [
            _attribute("gen_ai.operation.name", "chat"),
            _attribute("gen_ai.agent.name", "desk"),
            _attribute(
                "gen_ai.system_instructions", orjson.dumps(_text_parts(call.system)).decode()
            ),
            _attribute("gen_ai.tool.definitions", orjson.dumps(tools).decode()),
            _attribute("gen_ai.usage.output_tokens", OUTPUT),
        ]
        spans = [
            {
                "traceId": f"{call.number:032x}",
                "spanId": f"{call.number:016x}",
                "name": name,
                "startTimeUnixNano": str(int(call.at * 1e9)),
                "attributes": [*shared, *more],
            }
            for name, more in (
                ("invoke_agent desk", [_attribute("gen_ai.operation.name", "invoke_agent")]),
                (f"chat {MODEL}", own),
            )
        ]
        resource = {"attributes": [_attribute("service.name", "desk")]}
        scope = {"scope": {"name": "opentelemetry.instrumentation.openai_v2"}, "spans": spans}
        rows.append({"resourceSpans": [{"resource": resource, "scopeSpans": [scope]}]})
    return json_lines(iter(rows))


def responses_pairs(count: int) -> bytes:
    """Bodies and answers of ``/v1/responses``."""
    return json_lines(
        {
            "url": "https://api.openai.com/v1/responses",
            "feature": "desk",
            "timestamp": call.iso,
            "request": {"model": MODEL, "instructions": call.system, "input": call.question},
            "response": {
                "object": "response",
                "model": MODEL,
                "output": [
                    {
                        "type": "message",
                        "role": "assistant",
                        "content": [{"type": "output_text", "text": call.answer}],
                    }
                ],
                "usage": {"input_tokens": 3000, "output_tokens": OUTPUT},
            },
        }
        for call in logged_calls(count)
    )


def messages_pairs(count: int) -> bytes:
    """Bodies and answers of Anthropic's ``/v1/messages``."""
    return json_lines(
        {
            "created_at": call.at,
            "feature": "desk",
            "request": {
                "model": CLAUDE,
                "max_tokens": 500,
                "system": call.system,
                "messages": [{"role": "user", "content": call.question}],
            },
            "response": {
                "type": "message",
                "role": "assistant",
                "model": CLAUDE,
                "content": [{"type": "text", "text": call.answer}],
                "usage": {"input_tokens": 3000, "output_tokens": OUTPUT},
            },
        }
        for call in logged_calls(count)
    )


def _stream(call: LoggedCall) -> str:
    """A chat answer as its event stream."""
    words = call.answer.split(" ")
    chunks: list[Json] = [
        {"model": MODEL, "choices": [{"index": 0, "delta": {"content": f"{word} "}}]}
        for word in words
    ]
    chunks.append({"model": MODEL, "choices": [], "usage": {"completion_tokens": OUTPUT}})
    events = [f"data: {orjson.dumps(chunk).decode()}" for chunk in chunks]
    return "\n\n".join([*events, "data: [DONE]", ""])


def har(count: int) -> bytes:
    """A browser's HAR file: the page's own files between the calls, whose answers are streams."""
    picture = {
        "startedDateTime": "2026-09-21T10:00:00.000Z",
        "request": {"method": "GET", "url": "https://desk.test/logo.png"},
        "response": {"status": 200, "content": {"mimeType": "image/png", "text": ""}},
    }
    entries: list[Json] = [picture]
    for call in logged_calls(count):
        data = {"mimeType": "application/json", "text": orjson.dumps(call.request).decode()}
        url = "https://api.openai.com/v1/chat/completions"
        content = {"mimeType": "text/event-stream", "text": _stream(call)}
        entries.append(
            {
                "startedDateTime": call.iso,
                "time": 1500,
                "request": {"method": "POST", "url": url, "postData": data},
                "response": {"status": 200, "content": content},
            }
        )
    log = {"version": "1.2", "creator": {"name": "WebInspector"}, "entries": entries}
    return orjson.dumps({"log": log}, option=orjson.OPT_INDENT_2)


#: Each log by its file's name, as the tool writes it of a number of calls.
TOOL_LOGS: Final[Mapping[str, Callable[[int], bytes]]] = {
    "own.jsonl": own_form,
    "pairs.json": pairs,
    "bodies.jsonl": bare_bodies,
    "litellm.jsonl": litellm_payloads,
    "spend_logs.json": litellm_spend_logs,
    "portkey.jsonl": portkey,
    "langfuse.json": langfuse,
    "helicone.jsonl.gz": helicone,
    "otel.jsonl": otel_spans,
    "responses.jsonl": responses_pairs,
    "messages.jsonl": messages_pairs,
    "desk.har": har,
    "claude_code.jsonl": claude_code,
    "rollout-2026.jsonl": codex,
}
