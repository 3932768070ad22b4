"""A chat completions body as a Messages body."""

import orjson

from proxy.providers.anthropic.answer import WholeAnswer
from proxy.providers.anthropic.request import messages_body
from proxy.providers.chat.chat_answer import ChatReply
from tests.fakes.refusals import refusing
from tests.proxy.providers.anthropic.messages_bodies import (
    blocks_of,
    check,
    hello,
    route_with,
    tool_call,
    translate,
)

_TOOL = {"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}
_ASKED = {
    "model": "public",
    "messages": [
        {"role": "system", "content": "be kind"},
        {"role": "user", "content": "go"},
        {"role": "assistant", "content": "ok", "tool_calls": [tool_call("c1", '{"b": 1, "a": 2}')]},
        {"role": "tool", "tool_call_id": "c1", "content": "done"},
        {"role": "user", "content": "and?"},
    ],
    "tools": [_TOOL],
    "tool_choice": "required",
    "stream": True,
    "stream_options": {"include_usage": True},
    "max_completion_tokens": 50,
    "stop": ["END"],
    "temperature": 0.3,
    "user": "u1",
    "service_tier": "default",
    "seed": 7,
}
_SENT = {
    "model": "claude",
    "max_tokens": 50,
    "stream": True,
    "system": [{"type": "text", "text": "be kind"}],
    "tools": [{"name": "f", "input_schema": {"type": "object"}}],
    "tool_choice": {"type": "any"},
    "messages": [
        {"role": "user", "content": [{"type": "text", "text": "go"}]},
        {
            "role": "assistant",
            "content": [
                {"type": "text", "text": "ok"},
                {"type": "tool_use", "id": "c1", "name": "f", "input": {"b": 1, "a": 2}},
            ],
        },
        {
            "role": "user",
            "content": [
                {
                    "type": "tool_result",
                    "tool_use_id": "c1",
                    "content": [{"type": "text", "text": "done"}],
                },
                {"type": "text", "text": "and?"},
            ],
        },
    ],
    "stop_sequences": ["END"],
    "service_tier": "standard_only",
    "metadata": {"user_id": "u1"},
    "temperature": 0.3,
}


def test_a_whole_call_is_said_in_anthropics_words() -> None:
    sent = messages_body(orjson.dumps(_ASKED), route_with())

    assert sent.notes == ("dropped seed: the model has no such parameter",)
    check(orjson.loads(sent.body))
    assert orjson.loads(sent.body) == _SENT


def test_blocks_of_the_model_go_back_byte_for_byte() -> None:
    content = (
        b'[{"type":"thinking","thinking":"hm","signature":"zz=="},{"type":"text","text":"ok"},'
        b'{"type":"tool_use","id":"t1","name":"f","input":{"b": 1.0, "a": [1,  2]}}]'
    )
    answer = WholeAnswer(ChatReply("m", 1)).feed(b'{"content":' + content + b"}")
    message = orjson.loads(answer)["choices"][0]["message"]
    result = {"role": "tool", "tool_call_id": "t1", "content": "r"}
    body = {"model": "m", "messages": [{"role": "user", "content": "q"}, message, result]}

    assert content in messages_body(orjson.dumps(body), route_with()).body


def test_a_route_without_a_name_of_its_own_keeps_the_callers() -> None:
    assert translate(hello(), route_with(model=""))["model"] == "public"


def test_a_schema_for_the_answer_is_sent_where_the_model_can_promise_it() -> None:
    schema = {"type": "object", "properties": {"z": {}, "a": {}}, "additionalProperties": False}
    form = {"type": "json_schema", "json_schema": {"name": "n", "schema": schema}}
    sent = messages_body(orjson.dumps(hello(response_format=form)), route_with())

    assert orjson.dumps(schema) in sent.body
    assert orjson.loads(sent.body)["output_config"]["format"]["schema"] == schema
    with refusing(400) as caught:
        translate(hello(response_format=form), route_with(frozenset()))
    assert caught.value.param == "response_format"


def test_any_json_is_asked_for_in_words_after_the_callers_own() -> None:
    body = translate(hello(response_format={"type": "json_object"}))

    assert body["system"][-1]["text"].startswith("Answer with one JSON object")
    assert "output_config" not in body
    assert "system" not in translate(hello(response_format={"type": "text"}))


def test_an_open_schema_is_closed_with_a_note() -> None:
    form = {"type": "json_schema", "json_schema": {"schema": {"type": "object"}}}
    sent = messages_body(
        orjson.dumps(hello(response_format=form)), route_with(frozenset({"structured"}))
    )

    assert orjson.loads(sent.body)["output_config"]["format"] == {
        "type": "json_schema",
        "schema": {"type": "object", "additionalProperties": False},
    }
    assert sent.notes == ("closed the objects of response_format: the model supports no others",)


def test_effort_and_format_share_their_field() -> None:
    form = {"type": "json_schema", "json_schema": {"schema": {"type": "object"}}}
    body = translate(
        hello(response_format=form, reasoning_effort="high", temperature=0.1),
        route_with(frozenset({"adaptive_thinking", "structured", "sampling"})),
    )

    assert set(body["output_config"]) == {"effort", "format"}
    assert body["thinking"]["type"] == "adaptive"
    assert "temperature" not in body


def test_more_markers_than_the_model_takes_are_thinned_and_all_keep_their_ttl() -> None:
    hour = {"type": "ephemeral", "ttl": "1h"}
    part = {"type": "text", "text": "a", "cache_control": hour}
    body = hello(messages=[{"role": "user", "content": [part] * 6}])
    marks = [block.get("cache_control") for block in blocks_of(translate(body))]

    assert marks == [hour, None, None, hour, hour, hour]
    automatic = translate(body | {"cache_control": {"type": "ephemeral"}})
    assert automatic["cache_control"] == {"type": "ephemeral"}
    assert sum("cache_control" in block for block in blocks_of(automatic)) == 3


def test_fields_for_anthropic_alone_pass() -> None:
    body = translate(
        hello(top_k=5, context_management={"edits": []}, thinking={"type": "disabled"})
    )

    assert body["top_k"] == 5
    assert body["context_management"] == {"edits": []}
    assert body["thinking"] == {"type": "disabled"}


def test_a_name_is_dropped_with_a_note() -> None:
    body = hello(messages=[{"role": "user", "name": "ann", "content": "hi"}])

    assert messages_body(orjson.dumps(body), route_with()).notes == (
        "dropped name: this model's messages carry none",
    )


def test_a_compaction_on_demand_gets_no_turn_of_ours_behind_the_answer() -> None:
    talk = [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "hello"}]
    body = orjson.dumps({"messages": talk, "compaction": {"type": "summarize"}})
    request = messages_body(body, route_with())
    sent = orjson.loads(request.body)

    assert [message["role"] for message in sent["messages"]] == ["user", "assistant"]
    assert sent["compaction"] == {"type": "summarize"}
    assert (request.betas, request.notes) == (("compact-2026-09-04",), ())
