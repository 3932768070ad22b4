"""Bodies of requests in one of two forms."""

import orjson
import pytest

from proxy.errors import OperatorError
from proxy.tools.replay.logs.bodies import is_request, request_body, request_fields

MESSAGES = [{"role": "user", "content": "Hi"}]


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ({"messages": MESSAGES}, True),
        ({"messages": orjson.dumps(MESSAGES).decode()}, True),
        ({"model": "m", "input": "Hi"}, True),
        (MESSAGES, True),
        ({"model": "m", "input": "Hi", "traceId": "t"}, False),
        ({"input": "Hi"}, False),
        ({"messages": []}, False),
        ([], False),
        ([5], False),
        ("Hi", False),
    ],
)
def test_a_request_is_known_by_its_fields(value: object, expected: bool):  # noqa: FBT001
    assert is_request(value) is expected


def test_fields_of_the_log_are_no_fields_of_the_request():
    fields = request_fields({"messages": MESSAGES, "model": "m", "spend": 1, "stream": None}, {})

    assert fields == {"messages": MESSAGES, "model": "m"}


def test_a_responses_body_becomes_a_chat_body():
    request = request_body({"model": "m", "instructions": "Be brief.", "input": "Hi"}, "")

    assert not request.is_native
    assert [message["role"] for message in orjson.loads(request.body)["messages"]] == [
        "system",
        "user",
    ]


def test_tool_calls_in_short_are_written_out():
    short = {"function": "read_file", "args": {"path": "a"}, "id": "1"}
    reply = {"role": "assistant", "content": None, "tool_calls": [short, 1]}

    request = request_body({"messages": [*MESSAGES, reply, {"tool_calls": {}}]}, "")

    function = {"name": "read_file", "arguments": '{"path":"a"}'}
    calls = orjson.loads(request.body)["messages"][1]["tool_calls"]
    assert calls == [{"id": "1", "type": "function", "function": function}, 1]


@pytest.mark.parametrize("fields", [{"messages": []}, {"messages": 5}, {"messages": [5]}])
def test_messages_that_are_none_are_refused(fields: dict[str, object]):
    with pytest.raises(OperatorError, match="its body has"):
        request_body(fields, "")
