"""Messages and Responses calls, as routes that are asked in chat get them."""

from dataclasses import replace

import orjson
import pytest

from proxy.calls.translation.converted_calls import (
    convert_call,
    convert_messages,
    convert_responses,
)
from proxy.calls.translation.translation import prepare
from proxy.catalog.entries import Upstream
from proxy.errors import CallerError
from proxy.records.request_fields import parse_request_fields
from tests.fakes.call_dependencies import call, route
from tests.fakes.refusals import refusing

CLAUDE = ("anthropic", "anthropic-bedrock", "anthropic-vertex")
TOOL = {"type": "custom", "name": "exec"}


def responses_call(**fields: object):
    body = orjson.dumps({"model": "m", "input": "Hi.", "instructions": "Be brief.", **fields})
    return call(body, endpoint="responses", fields=parse_request_fields(body), query="a=b")


@pytest.mark.parametrize("kind", [*CLAUDE, "gemini"])
def test_a_responses_call_becomes_a_chat_call_of_the_same_caller(kind):
    request = responses_call(stream=True)
    converted = convert_responses(request, route(kind=kind))

    assert converted is not None
    assert (converted.call.endpoint, converted.call.query, converted.call.id) == (
        "chat/completions",
        "",
        request.id,
    )
    assert converted.call.is_streaming
    assert orjson.loads(converted.call.body)["messages"] == [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "Hi."},
    ]


@pytest.mark.parametrize(
    ("incoming", "kind"),
    [
        (responses_call(), "openai"),
        (call(b"{}"), "anthropic"),
        (call(b"{}", endpoint="responses", method="GET"), "anthropic"),
    ],
)
def test_a_call_that_its_wire_takes_stays_so(incoming, kind):
    assert convert_responses(incoming, route(kind=kind)) is None


def test_a_compaction_is_read_by_claude_alone():
    edits = [{"type": "compaction"}]

    assert (
        convert_responses(responses_call(context_management=edits), route(kind="anthropic"))
        is not None
    )
    with refusing(400, "context_management"):
        convert_responses(responses_call(context_management=edits), route(kind="gemini"))


def test_the_answer_is_one_of_the_callers_api_and_notes_go_before_the_wires():
    there = route(kind="anthropic")
    converted = convert_responses(responses_call(store=True, verbosity="low"), there)
    assert converted is not None
    prepared = converted.with_reader(prepare(converted.call, there))
    assert prepared.reader is not None
    usage = {"input_tokens": 1, "output_tokens": 2}
    message = {"id": "msg_1", "content": [{"type": "text", "text": "Ho."}], "usage": usage}
    answer = prepared.reader.feed(orjson.dumps(message)) + prepared.reader.end()

    assert orjson.loads(answer)["output"][0]["content"][0]["text"] == "Ho."
    assert prepared.notes[0].startswith("dropped store")
    assert len(prepared.notes) > 1


def test_errors_name_the_callers_own_fields():
    converted = convert_responses(responses_call(tools=[TOOL]), route(kind="anthropic"))
    assert converted is not None
    wrong = CallerError("`messages[1].content` is odd.", code="x", param="messages[1].content")

    assert converted.translate_error(wrong).param == "input"
    assert not converted.adapts


def test_a_call_is_said_in_chat_by_its_own_api():
    body = b'{"model":"m","max_tokens":9,"messages":[{"role":"user","content":"Hi."}]}'
    message = call(body, endpoint="messages", fields=parse_request_fields(body))

    assert convert_call(message, route()) is not None
    assert convert_call(responses_call(), route(kind="anthropic")) is not None
    assert convert_call(message, route(kind="anthropic")) is None
    assert convert_call(call(b"{}"), route(kind="anthropic")) is None


ASKED = {
    "model": "m",
    "max_tokens": 9,
    "system": "Be brief.",
    "messages": [{"role": "user", "content": "Hi."}],
}
SEARCH = {"type": "web_search_20250305", "name": "web_search"}


def messages_call(**fields: object):
    body = orjson.dumps({**ASKED, **fields})
    headers = {"anthropic-version": "1", "anthropic-beta": "b", "accept": "*/*"}
    read = parse_request_fields(body)
    return call(body, endpoint="messages", fields=read, headers=headers, query="beta=true")


def test_a_messages_call_becomes_a_chat_call_of_the_same_caller():
    request = messages_call(stream=True)
    converted = convert_messages(request, route())

    assert converted is not None
    assert (converted.call.endpoint, converted.call.query, converted.call.id) == (
        "chat/completions",
        "",
        request.id,
    )
    assert converted.call.headers == {"accept": "*/*"}
    assert converted.call.is_streaming
    assert orjson.loads(converted.call.body)["messages"] == [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "Hi."},
    ]


@pytest.mark.parametrize(
    ("incoming", "kind"),
    [
        (messages_call(), "anthropic"),
        (call(b"{}"), "openai"),
        (call(b"{}", endpoint="messages", method="GET"), "openai"),
    ],
)
def test_a_call_that_its_route_takes_as_it_is_stays_so(incoming, kind):
    assert convert_messages(incoming, route(kind=kind)) is None


def test_the_answer_is_read_as_one_of_anthropics_api():
    converted = convert_messages(messages_call(), route())
    assert converted is not None
    prepared = converted.with_reader(prepare(converted.call, route()))
    assert prepared.reader is not None
    message = {"role": "assistant", "content": "Yo."}
    answer = {
        "id": "chatcmpl-1",
        "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 3, "completion_tokens": 2},
    }
    response = orjson.loads(prepared.reader.feed(orjson.dumps(answer)) + prepared.reader.end())

    assert (response["type"], response["content"]) == ("message", [{"type": "text", "text": "Yo."}])
    assert prepared.notes[0] == "translated to chat completions"


def test_tools_that_anthropic_runs_are_refused_or_left_out_as_the_catalog_says():
    request = messages_call(tools=[SEARCH])
    with refusing(400, match="web_search"):
        convert_messages(request, route())
    upstream = Upstream(name="u", kind="openai", base_url="https://u/v1", drops_server_tools=True)
    converted = convert_messages(request, replace(route(), upstream=upstream))

    assert converted is not None
    assert "tools" not in orjson.loads(converted.call.body)
    assert any("web_search" in note for note in converted.notes)
