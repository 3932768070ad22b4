"""Documents of every tool's log as recorded calls."""

from base64 import b64encode
from pathlib import Path
from typing import Any

import orjson
import pytest

from proxy.errors import OperatorError
from proxy.tools.replay.logs.records import recorded_calls
from proxy.tools.replay.recorded_call import RecordedCall
from proxy.tools.replay.source import RecordedSource
from tests.fakes.logged_calls import CLAUDE, MODEL, OUTPUT, START, LoggedCall
from tests.fakes.tool_logs import TOOL_LOGS

BODY = {"model": "any", "messages": [{"role": "user", "content": "Hi"}]}
ANSWER = {"choices": [{"message": {"role": "assistant", "content": "Hello"}}]}
AGENTS = {"claude_code.jsonl", "rollout-2026.jsonl"}
NATIVE = {"messages.jsonl", "claude_code.jsonl"}
WITHOUT_TIMES = {"pairs.json", "bodies.jsonl"}
WITHOUT_USAGE = {"own.jsonl", "bodies.jsonl"}
WITHOUT_FEATURE = {"pairs.json", "bodies.jsonl", "desk.har"}


def read(**fields: Any) -> RecordedCall:
    (call,) = recorded_calls(fields)
    if isinstance(call, OperatorError):
        raise call
    return call


@pytest.mark.parametrize("name", TOOL_LOGS)
def test_every_tools_log_is_read_as_the_tool_writes_it(name: str, tmp_path: Path):
    path = tmp_path / name
    path.write_bytes(TOOL_LOGS[name](6))

    calls = list(RecordedSource([path]))

    assert len(calls) == 6
    for number, (time, call) in enumerate(calls):
        logged = LoggedCall(number)
        assert logged.question.encode() in call.body
        assert call.is_native is (name in NATIVE)
        assert call.models[0] == (CLAUDE if name in NATIVE else MODEL)
        assert call.generated == (None if name in WITHOUT_USAGE else OUTPUT)
        assert call.answer_problem == ""
        if name not in WITHOUT_TIMES:
            assert time == START + 20 * number
        if name not in WITHOUT_FEATURE | AGENTS:
            assert call.feature == "desk"
        if name not in AGENTS:
            assert orjson.dumps(logged.system).strip(b'"') in call.body
        if name not in AGENTS | {"bodies.jsonl"}:
            assert orjson.loads(call.reply)["content"].strip() == logged.answer


def test_a_call_of_our_own_form_keeps_all_its_fields():
    reply = {"role": "assistant", "content": "Hello"}

    call = read(t=1.5, conversation="c", key="k", feature="f", body=BODY, reply=reply)

    assert call == RecordedCall(
        at=1.5,
        conversation="c",
        key="k",
        feature="f",
        body=orjson.dumps(BODY),
        reply=orjson.dumps(reply),
        models=("any",),
    )


def test_an_exported_receipt_is_a_call_whose_answer_has_a_length_only():
    call = read(
        call_id="x",
        started=1_790_000_000.5,
        conversation="ab12",
        key_id="key_1",
        feature="f",
        endpoint="chat/completions",
        usage={"input": 10, "output": 30, "reasoning": 12},
        prompt=orjson.dumps(BODY).decode(),
    )

    assert (call.at, call.conversation, call.key) == (1_790_000_000.5, "ab12", "key_1")
    assert (call.body, call.reply, call.generated) == (orjson.dumps(BODY), b"null", 42)
    assert call.is_answered


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"t": 1}, "it holds no messages"),
        ({"body": 5}, "it holds no messages"),
        ({"body": {"messages": []}}, "it holds no messages"),
        ({"body": {"prompt": "Hi", "model": "m"}}, "old completions API"),
        ({"request": {"contents": [{}]}}, "Gemini's API"),
        ({"url": "/v1/embeddings", "body": {**BODY, "input": "x"}}, "embeddings"),
        ({"method": "GET", "body": BODY}, "not POST"),
        ({"final": False, "prompt": orjson.dumps(BODY).decode()}, "before the final one"),
        ({"request": BODY, "response_status_code": 429}, "refused it with status 429"),
        ({"request": BODY, "is_success": False}, "it failed"),
        ({"request": BODY, "response": {"error": {"type": "overloaded"}}}, "it failed"),
        ({"request": {"model": "text-embedding-3-small", "input": "Hi"}}, "embeddings"),
        (
            {"messages": [{"role": "user", "content": "Hi... (litellm_truncated skipped 9 chars"}]},
            "MAX_STRING_LENGTH_PROMPT_IN_DB",
        ),
        ({"custom_id": "1", "response": {"status_code": 200}}, "the batch's input file"),
        ({"spend": 1.0, "messages": "{}", "response": "{}"}, "store_prompts_in_spend_logs"),
        ({"request_created_at": "2026-11-20", "request_model": "m"}, "--include-body"),
        ({"ai_model": "m", "cost": 1}, "ask for the fields request and response"),
        ({"call_id": "x", "usage": {"input": 1}}, "thriftgate team prompts NAME keep"),
        ({"body": {"messages": [5], "model": "m"}}, "a message that is no object"),
        (
            {"request": {"model": "m", "input": "Hi", "previous_response_id": "resp_1"}},
            "previous_response_id",
        ),
        (
            {"attributes": {"gen_ai.request.model": "m", "gen_ai.operation.name": "chat"}},
            "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT",
        ),
    ],
)
def test_a_document_that_is_no_call_says_why_and_what_to_do(fields: dict[str, Any], why: str):
    with pytest.raises(OperatorError, match=why):
        read(**fields)


def test_a_document_that_is_no_object_is_no_call():
    assert [str(call) for call in recorded_calls([1])] == ["it is no JSON object"]


def test_an_unreadable_answer_is_named_and_has_no_length():
    call = read(request=BODY, response={"odd": 1})

    assert call.answer_problem == "it has a form that no API answers in"
    assert not call.is_answered


def test_an_unreadable_answer_with_a_usage_beside_it_has_a_length():
    call = read(request=BODY, response={"odd": 1}, completion_tokens=7)

    assert (call.answer_problem, call.generated) == ("", 7)


@pytest.mark.parametrize(
    "fields",
    [
        {"url": "/v1/messages", "body": BODY},
        {"url": "/v1/messages?beta=true", "body": BODY},
        {"endpoint": "messages", "prompt": orjson.dumps(BODY).decode()},
        {"request": {**BODY, "system": "Be brief."}},
        {"request": {**BODY, "tools": [{"name": "f", "input_schema": {}}]}},
        {"request": BODY, "response": {"type": "message", "role": "assistant", "content": []}},
    ],
)
def test_a_call_of_anthropics_api_is_known_by_its_path_its_fields_or_its_answer(
    fields: dict[str, Any],
):
    assert read(**fields).is_native
    assert not read(body=BODY, response=ANSWER).is_native


@pytest.mark.parametrize(
    ("tags", "feature"),
    [
        (["User-Agent: x", "chat"], "chat"),
        ('["mail"]', "mail"),
        (["User-Agent: x"], "alias"),
        (5, "alias"),
    ],
)
def test_litellms_first_tag_of_the_callers_own_is_the_feature(tags: object, feature: str):
    call = read(
        messages=BODY["messages"], request_tags=tags, metadata={"user_api_key_alias": "alias"}
    )

    assert call.feature == feature


def test_messages_in_a_list_take_the_tools_that_stand_beside_them():
    tools = [{"type": "function", "function": {"name": "f"}}]

    call = read(
        messages=BODY["messages"], model_parameters={"tools": tools}, call_type="completion"
    )

    assert orjson.loads(call.body)["tools"] == tools


ITEMS = [
    {"role": "user", "content": "Hi"},
    {"type": "function_call", "call_id": "1", "name": "f", "arguments": "{}"},
    {"type": "function_call_output", "call_id": "1", "output": "Sunny"},
]
FLAT_TOOL = {"type": "function", "name": "f", "parameters": {"type": "object"}}
LITELLM_RESPONSES = {"call_type": "aresponses", "model": "m"}
SYSTEM = {"role": "system", "content": "Be brief."}


@pytest.mark.parametrize(
    "fields",
    [
        LITELLM_RESPONSES
        | {
            "messages": ITEMS,
            "model_parameters": {"tools": [FLAT_TOOL], "instructions": "Be brief."},
        },
        {
            "type": "GENERATION",
            "traceId": "t",
            "model": "m",
            "input": {"input": [SYSTEM, *ITEMS], "tools": [FLAT_TOOL]},
        },
    ],
)
def test_responses_items_in_other_tools_logs_are_read_with_instructions_and_tools(
    fields: dict[str, Any],
):
    body = orjson.loads(read(**fields).body)

    assert [message["role"] for message in body["messages"]] == [
        "system",
        "user",
        "assistant",
        "tool",
    ]
    assert body["messages"][0]["content"] == "Be brief."
    assert body["tools"][0]["function"]["name"] == "f"


def test_a_responses_call_of_one_text_in_litellms_log_is_read():
    call = read(**LITELLM_RESPONSES, messages="Good morning.")

    assert orjson.loads(call.body)["messages"] == [{"role": "user", "content": "Good morning."}]


def test_an_answer_of_the_responses_api_does_not_make_a_call_one_of_anthropics():
    output = {
        "type": "message",
        "role": "assistant",
        "content": [{"type": "output_text", "text": "Hello"}],
    }

    call = read(type="GENERATION", traceId="t", input=[SYSTEM, ITEMS[0]], output=output, model="m")

    assert not call.is_native
    assert orjson.loads(call.reply)["content"] == "Hello"


def test_langchains_calls_of_tools_and_tools_among_the_messages_are_read():
    tool = {"type": "function", "function": {"name": "f"}}
    messages = [
        ITEMS[0],
        {"role": "assistant", "content": "", "tool_calls": [{"name": "f", "args": {}, "id": "1"}]},
        {"role": "tool", "tool_call_id": "1", "content": "Sunny"},
        {"role": "tool", "content": tool},
    ]

    body = orjson.loads(read(type="GENERATION", traceId="t", input=messages, model="m").body)

    assert body["tools"] == [tool]
    assert len(body["messages"]) == 3
    assert body["messages"][1]["tool_calls"][0]["function"] == {"name": "f", "arguments": "{}"}


def test_langfuses_bucket_export_names_model_and_prompt_in_snake_case():
    call = read(
        type="GENERATION",
        trace_id="t",
        input=orjson.dumps(BODY["messages"]).decode(),
        provided_model_name="gpt-5.4",
        prompt_name="desk",
    )

    assert (call.models, call.feature) == (("gpt-5.4",), "desk")


def test_requests_of_anthropics_batches_are_read():
    document = {"requests": [{"custom_id": "1", "params": {**BODY, "system": "Be brief."}}]}

    (call,) = recorded_calls(document)

    assert isinstance(call, RecordedCall)
    assert call.is_native


def test_an_answer_that_a_har_file_holds_packed_is_unpacked():
    text = b64encode(orjson.dumps(ANSWER)).decode()
    content = {"text": text, "encoding": "base64"}

    call = read(
        request={"postData": {"text": orjson.dumps(BODY).decode()}}, response={"content": content}
    )

    assert orjson.loads(call.reply)["content"] == "Hello"


def test_a_record_of_the_wrong_form_is_named_and_the_next_is_read():
    odd = {"request": {**BODY, "tools": 5, "messages": [{"role": "user", "content": 2**70}]}}
    spans = {"resourceSpans": [{"resource": {"attributes": 5}, "scopeSpans": [{"spans": [{}]}]}]}

    bad, good = recorded_calls({"data": [odd, {"request": BODY}]})

    assert str(bad) == "one of its fields has the wrong form"
    assert isinstance(good, RecordedCall)
    assert list(recorded_calls(spans)) == []


def test_documents_within_a_document_are_calls_of_their_own():
    calls = list(recorded_calls({"data": [{"request": BODY}, {"t": 1}, {"request": BODY}]}))

    assert [isinstance(call, RecordedCall) for call in calls] == [True, False, True]


@pytest.mark.parametrize(
    "fields",
    [
        {"response": {**ANSWER, "usage": {"prompt_tokens": 900, "completion_tokens": 7}}},
        {"response": ANSWER, "req_units": 900},
    ],
)
def test_the_prompts_tokens_are_known_by_the_answers_usage_or_a_field_beside(
    fields: dict[str, Any],
):
    assert read(request=BODY, **fields).prompt_tokens == 900


@pytest.mark.parametrize(
    "beside",
    [
        {"modelParameters": {"temperature": 0, "seed": 7}},
        {"optional_params": '{"temperature": 0, "seed": 7}'},
        {"gen_ai.request.temperature": 0, "gen_ai.request.seed": 7},
    ],
)
def test_settings_that_make_answers_repeat_are_taken_from_beside_the_prompt(
    beside: dict[str, Any],
):
    call = read(**beside, messages=BODY["messages"], model="any")

    body = orjson.loads(call.body)
    assert (body["temperature"], body["seed"]) == (0, 7)


@pytest.mark.parametrize(
    ("grades", "expected"),
    [
        ({"a": 1, "b": False, "c": "good"}, (("a", 1.0), ("b", 0.0))),
        ('{"a": 0.5}', (("a", 0.5),)),
        ("good", ()),
        (None, ()),
    ],
)
def test_grades_of_answers_are_read_by_model(grades: object, expected: object):
    assert read(body=BODY, grades=grades).grades == expected


def test_a_requests_own_temperature_holds_before_one_beside_it():
    call = read(modelParameters={"temperature": 0}, request={**BODY, "temperature": 1})

    assert orjson.loads(call.body)["temperature"] == 1
