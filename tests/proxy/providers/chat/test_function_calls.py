"""Functions, the forerunners of tools, said to models that know tools alone, and back."""

from typing import Any

import orjson
import pytest

from proxy.providers.chat.function_calls import FunctionCallReader, has_functions, with_tools
from proxy.providers.gemini.adapter import GeminiWire
from proxy.providers.readers import PassthroughReader
from proxy.records.call import Call, Key
from proxy.records.request_fields import parse_request_fields
from tests.fakes.gemini_answers import answer, call, gemini_route

FUNCTION = {"name": "weather", "parameters": {"type": "object", "properties": {}}}
CALLED = {"name": "weather", "arguments": '{"place":"Oslo"}'}
ASKED = [
    {"role": "user", "content": "Weather?"},
    {"role": "assistant", "content": None, "function_call": CALLED},
    {"role": "function", "name": "weather", "content": "Rain."},
]


def as_tools(**fields: object) -> dict[str, Any]:
    fields_sent: dict[str, Any] = orjson.loads(
        with_tools(orjson.dumps({"messages": ASKED, **fields}))
    )
    return fields_sent


def test_functions_their_calls_and_results_become_those_of_tools() -> None:
    assert as_tools(functions=[FUNCTION], function_call="auto", model="m") == {
        "model": "m",
        "tools": [{"type": "function", "function": FUNCTION}],
        "tool_choice": "auto",
        "parallel_tool_calls": False,
        "messages": [
            ASKED[0],
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [{"id": "call_1", "type": "function", "function": CALLED}],
            },
            {"role": "tool", "tool_call_id": "call_1", "content": "Rain."},
        ],
    }


@pytest.mark.parametrize(
    ("choice", "expected"),
    [
        ("none", "none"),
        ({"name": "weather"}, {"type": "function", "function": {"name": "weather"}}),
    ],
)
def test_choice_of_a_function_is_the_choice_of_a_tool(choice: object, expected: object) -> None:
    assert as_tools(functions=[FUNCTION], function_call=choice)["tool_choice"] == expected


def test_longer_conversation_begins_with_the_same_messages() -> None:
    more = [*ASKED, {"role": "assistant", "content": "It rains."}, *ASKED]
    longer = as_tools(functions=[FUNCTION], messages=more)["messages"]

    assert longer[:3] == as_tools(functions=[FUNCTION])["messages"]
    assert longer[6]["tool_call_id"] == longer[5]["tool_calls"][0]["id"] == "call_5"


@pytest.mark.parametrize(
    "body",
    [
        b'{"messages":[{"role":"user","content":"\\"functions\\""}]}',
        orjson.dumps({"messages": ASKED, "functions": [FUNCTION], "tools": []}),
        b'{"functions":[5]}',
        b'{"functions":[5],"messages":[5]}',
        b'{"functions":',
        b"\xff",
    ],
)
def test_bodies_without_functions_or_with_both_or_unreadable_stay_unmodified(body: bytes) -> None:
    assert with_tools(body) == body


@pytest.mark.parametrize("body", [b"{}", b'{"functions":[]}', b'{"functions":null}', b"\xff"])
def test_body_that_offers_no_functions_has_none(body: bytes) -> None:
    assert not has_functions(body)


def test_streamed_tool_call_is_read_as_a_function_call() -> None:
    def event(delta: object, reason: str | None = None) -> bytes:
        choice = {"index": 0, "delta": delta, "finish_reason": reason}
        return b"data: " + orjson.dumps({"choices": [choice]}) + b"\n\n"

    def part(index: int, **function: str) -> dict[str, Any]:
        return {"tool_calls": [{"index": index, "id": "a", "function": function}]}

    first, second = part(0, name="weather", arguments=""), part(0, arguments="{}")
    ended = event({}, "tool_calls")
    reader = FunctionCallReader(PassthroughReader())
    done = b"data: [DONE]\n\n"
    answer_read = reader.feed(event({"content": "So"}) + event(first) + event(second))
    answer_read += (
        reader.feed(event(part(1, name="other"))) + reader.feed(ended + done) + reader.end()
    )

    assert answer_read == (
        event({"content": "So"})
        + event({"function_call": {"name": "weather", "arguments": ""}})
        + event({"function_call": {"arguments": "{}"}})
        + event({})
        + event({}, "function_call")
        + done
    )


def test_gemini_calls_a_function_and_its_caller_reads_function_call() -> None:
    body = orjson.dumps({"model": "gemini-x", "messages": ASKED, "functions": [FUNCTION]})
    chat_call = Call(
        id="1",
        key=Key(id="k", team="t", team_name="T"),
        method="POST",
        endpoint="chat/completions",
        headers={},
        body=body,
        fields=parse_request_fields(body),
        arrived=7.0,
    )
    prepared = GeminiWire().request(chat_call, gemini_route())
    assert prepared.reader is not None
    choice = orjson.loads(prepared.reader.feed(orjson.dumps(answer(call("weather")))))["choices"][0]

    assert b'"functionDeclarations"' in prepared.body
    assert b'"functionResponse"' in prepared.body
    assert choice["message"]["function_call"]["name"] == "weather"
    assert "tool_calls" not in choice["message"]
    assert choice["finish_reason"] == "function_call"
