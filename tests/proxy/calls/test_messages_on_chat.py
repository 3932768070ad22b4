"""Calls of Anthropic's API, as a route that speaks OpenAI's is asked them."""

from dataclasses import replace

import orjson
import pytest

from proxy.calls.messages_on_chat import chat_translation
from proxy.calls.translation import prepare
from proxy.catalog.entries import Upstream
from proxy.records.request_fields import parse_request_fields
from tests.fakes.call_dependencies import call, route
from tests.fakes.refusals import refusing

ASKED = {
    "model": "m",
    "max_tokens": 9,
    "system": "Be brief.",
    "messages": [{"role": "user", "content": "Hi."}],
}
SEARCH = {"type": "web_search_20250305", "name": "web_search"}


def messages(**fields: object):
    body = orjson.dumps({**ASKED, **fields})
    headers = {"anthropic-version": "1", "anthropic-beta": "b", "accept": "*/*"}
    read = parse_request_fields(body)
    return call(body, endpoint="messages", fields=read, headers=headers, query="beta=true")


def test_the_call_becomes_a_chat_call_of_the_same_caller():
    asked = messages(stream=True)
    found = chat_translation(asked, route())

    assert found is not None
    assert (found.call.endpoint, found.call.query, found.call.id) == (
        "chat/completions",
        "",
        asked.id,
    )
    assert found.call.headers == {"accept": "*/*"}
    assert found.call.is_streaming
    assert orjson.loads(found.call.body)["messages"] == [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "Hi."},
    ]


@pytest.mark.parametrize(
    ("asked", "kind"),
    [
        (messages(), "anthropic"),
        (call(b"{}"), "openai"),
        (call(b"{}", endpoint="messages", method="GET"), "openai"),
    ],
)
def test_a_call_that_its_route_takes_as_it_is_stays_so(asked, kind):
    assert chat_translation(asked, route(kind=kind)) is None


def test_the_answer_is_read_as_one_of_anthropics_api():
    found = chat_translation(messages(), route())
    assert found is not None
    prepared = found.with_reader(prepare(found.call, route()))
    assert prepared.reader is not None
    said = {"role": "assistant", "content": "Yo."}
    answer = {
        "id": "chatcmpl-1",
        "choices": [{"index": 0, "message": said, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 3, "completion_tokens": 2},
    }
    told = orjson.loads(prepared.reader.feed(orjson.dumps(answer)) + prepared.reader.end())

    assert (told["type"], told["content"]) == ("message", [{"type": "text", "text": "Yo."}])
    assert prepared.notes[0] == "translated to chat completions"


def test_tools_that_anthropic_runs_are_refused_or_left_out_as_the_catalog_says():
    asked = messages(tools=[SEARCH])
    with refusing(400, match="web_search"):
        chat_translation(asked, route())
    upstream = Upstream(name="u", kind="openai", base_url="https://u/v1", drops_server_tools=True)
    found = chat_translation(asked, replace(route(), upstream=upstream))

    assert found is not None
    assert "tools" not in orjson.loads(found.call.body)
    assert any("web_search" in note for note in found.notes)
