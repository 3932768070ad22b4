"""Responses calls, as routes to Claude and Gemini are asked them."""

import orjson
import pytest

from proxy.calls.responses_on_chat import call_on_chat, responses_on_chat
from proxy.calls.translation import prepare
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
def test_the_call_becomes_a_chat_call_of_the_same_caller(kind):
    given = responses_call(stream=True)
    found = responses_on_chat(given, route(kind=kind))

    assert found is not None
    assert (found.call.endpoint, found.call.query, found.call.id) == (
        "chat/completions",
        "",
        given.id,
    )
    assert found.call.is_streaming
    assert orjson.loads(found.call.body)["messages"] == [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "Hi."},
    ]


@pytest.mark.parametrize(
    ("given", "kind"),
    [
        (responses_call(), "openai"),
        (call(b"{}"), "anthropic"),
        (call(b"{}", endpoint="responses", method="GET"), "anthropic"),
    ],
)
def test_a_call_that_its_wire_takes_stays_so(given, kind):
    assert responses_on_chat(given, route(kind=kind)) is None


def test_a_compaction_is_read_by_claude_alone():
    edits = [{"type": "compaction"}]

    assert (
        responses_on_chat(responses_call(context_management=edits), route(kind="anthropic"))
        is not None
    )
    with refusing(400, "context_management"):
        responses_on_chat(responses_call(context_management=edits), route(kind="gemini"))


def test_the_answer_is_one_of_the_callers_api_and_notes_go_before_the_wires():
    there = route(kind="anthropic")
    found = responses_on_chat(responses_call(store=True, verbosity="low"), there)
    assert found is not None
    prepared = found.with_reader(prepare(found.call, there))
    assert prepared.reader is not None
    usage = {"input_tokens": 1, "output_tokens": 2}
    said = {"id": "msg_1", "content": [{"type": "text", "text": "Ho."}], "usage": usage}
    answer = prepared.reader.feed(orjson.dumps(said)) + prepared.reader.end()

    assert orjson.loads(answer)["output"][0]["content"][0]["text"] == "Ho."
    assert prepared.notes[0].startswith("dropped store")
    assert len(prepared.notes) > 1


def test_errors_name_the_callers_own_fields():
    found = responses_on_chat(responses_call(tools=[TOOL]), route(kind="anthropic"))
    assert found is not None
    wrong = CallerError("`messages[1].content` is odd.", code="x", param="messages[1].content")

    assert found.translate_error(wrong).param == "input"
    assert not found.adapts


def test_a_call_is_said_in_chat_by_its_own_api():
    body = b'{"model":"m","max_tokens":9,"messages":[{"role":"user","content":"Hi."}]}'
    message = call(body, endpoint="messages", fields=parse_request_fields(body))

    assert call_on_chat(message, route()) is not None
    assert call_on_chat(responses_call(), route(kind="anthropic")) is not None
    assert call_on_chat(message, route(kind="anthropic")) is None
    assert call_on_chat(call(b"{}"), route(kind="anthropic")) is None
