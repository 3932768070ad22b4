"""One line of JSON as a recorded call."""

import orjson
import pytest

from proxy.errors import OperatorError
from proxy.tools.replay.lines import RecordedCall, parse_line

BODY = {"model": "any", "messages": [{"role": "user", "content": "Hi"}]}


def read(**fields: object) -> RecordedCall:
    return parse_line(orjson.dumps(fields))


def test_a_line_of_our_own_form_is_a_call():
    reply = {"role": "assistant", "content": "Hello"}

    found = read(t=1.5, conversation="c", key="k", feature="f", body=BODY, reply=reply)

    assert found == RecordedCall(
        at=1.5,
        conversation="c",
        key="k",
        feature="f",
        body=orjson.dumps(BODY),
        reply=orjson.dumps(reply),
    )


def test_a_body_stays_byte_for_byte_as_it_was_written():
    raw = b'{"t": 1, "body": {"messages": [ {"role":"user", "content": "\\u00e9"} ]}}'

    assert parse_line(raw).body == b'{"messages": [ {"role":"user", "content": "\\u00e9"} ]}'


def test_a_line_of_a_batch_file_is_a_call_without_a_time():
    found = read(custom_id="7", method="POST", url="/v1/chat/completions", body=BODY)

    assert found == RecordedCall(at=None, body=orjson.dumps(BODY))


def test_an_exported_receipt_is_a_call_whose_answer_has_a_length_only():
    found = read(
        call_id="x",
        started=1_790_000_000.5,
        conversation="ab12",
        key_id="key_1",
        feature="f",
        endpoint="chat/completions",
        usage={"input": 10, "output": 30, "reasoning": 12},
        prompt=orjson.dumps(BODY).decode(),
    )

    assert found == RecordedCall(
        at=1_790_000_000.5,
        conversation="ab12",
        key="key_1",
        feature="f",
        body=orjson.dumps(BODY),
        generated=42,
    )


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"t": 1}, "it has neither a body nor a prompt"),
        ({"body": 5}, "its body is a number where an object is needed"),
        ({"body": {"messages": 5}}, "its body has as `messages` a number where a list is needed"),
        ({"body": {"messages": []}}, "no messages"),
        ({"body": {"prompt": "Hi"}}, "its body has no `messages`"),
        ({"t": "soon", "body": BODY}, "it has as `t` a text where a number is needed"),
        ({"usage": {"input": "x"}}, "it has as `usage.input` a text where a number is needed"),
        ({"url": "/v1/embeddings", "body": BODY}, "no chat completion"),
        ({"method": "GET", "body": BODY}, "no chat completion"),
        ({"endpoint": "responses", "prompt": orjson.dumps(BODY).decode()}, "no chat completion"),
        ({"final": False, "prompt": orjson.dumps(BODY).decode()}, "before the final one"),
        ({"prompt": "Hi"}, "its prompt is not JSON, from byte 1 on"),
        ({"prompt": '{"messages"'}, "its prompt is not JSON: it ends too early"),
    ],
)
def test_a_line_that_cannot_be_replayed_says_why(fields, why):
    with pytest.raises(OperatorError, match=why):
        read(**fields)


@pytest.mark.parametrize(
    "raw",
    [
        b"{",
        b"[]",
        b"\xff\xfe",
        b"nothing",
        b"[" * 100_000,
        b'{"body":{"messages":[{"args":"\\ud800"}]},"x":"\xff"}',
        b'{"body":{"messages":[{"tool_calls":[],"x":"\\ud800","args":1,"y":"\\q"}]}}',
    ],
)
def test_a_line_that_is_no_json_is_only_unreadable(raw):
    with pytest.raises(OperatorError) as caught:
        parse_line(raw)
    assert "`" not in str(caught.value)
    assert "malformed" not in str(caught.value)


@pytest.mark.parametrize("t", [b"1e999", b"-1e300", b"1790000000000"])
def test_a_time_that_is_not_in_seconds_is_unreadable(t):
    with pytest.raises(OperatorError):
        parse_line(b'{"t": ' + t + b', "body": {"messages": [{}]}}')


def test_tool_calls_in_short_are_written_out_in_body_and_reply():
    short = {"function": "read_file", "args": {"path": "a"}, "id": "1"}
    said = {"role": "assistant", "content": None, "tool_calls": [short]}

    found = read(body={"messages": [{"role": "user", "content": "Hi"}, said]}, reply=said)

    function = {"name": "read_file", "arguments": '{"path":"a"}'}
    whole = [{"id": "1", "type": "function", "function": function}]
    assert orjson.loads(found.body)["messages"][1]["tool_calls"] == whole
    assert orjson.loads(found.reply)["tool_calls"] == whole


def test_a_line_that_only_looks_like_a_shortened_call_is_left_unmodified():
    raw = b'{"body": {"messages": [{"tool_calls": [1, {"args": 2}]}, 3, {"tool_calls": {}}]}}'
    reply = b'{"body": {"messages": [{}]}, "reply": {"args":  1}}'

    assert parse_line(raw).body == raw[len(b'{"body": ') : -1]
    assert parse_line(reply).reply == b'{"args":  1}'


@pytest.mark.parametrize(
    "fields",
    [
        {"url": "/v1/messages", "body": BODY},
        {"url": "/v1/messages?beta=true", "body": BODY},
        {"endpoint": "messages", "prompt": orjson.dumps(BODY).decode()},
    ],
)
def test_a_call_of_anthropics_api_is_known_by_its_path_or_endpoint(fields: dict[str, object]):
    found = read(**fields)

    assert (found.is_native, found.body) == (True, orjson.dumps(BODY))
    assert not read(body=BODY).is_native
