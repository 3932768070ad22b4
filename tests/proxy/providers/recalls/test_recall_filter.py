import orjson
import pytest

from proxy.providers.recalls.chat_recalls import ChatRecallFilter
from proxy.providers.recalls.recall_filter import append_to_list, named_event, parse_object


def test_more_stands_at_the_end_of_a_list_and_all_else_stays_byte_for_byte():
    body = b'{"model":"m", "messages": [{"a": 1.0} ],"seed":7}'

    after = append_to_list(body, "messages", [{"b": 2}])

    assert after == b'{"model":"m","messages":[{"a": 1.0},{"b":2}],"seed":7}'


@pytest.mark.parametrize("body", [b'{"messages":7}', b"no json"])
def test_a_body_without_the_list_is_refused(body):
    with pytest.raises((KeyError, ValueError)):
        append_to_list(body, "messages", [])
    with pytest.raises((KeyError, ValueError)):
        append_to_list(body, "input", [])


def test_a_whole_answer_that_takes_long_to_parse_passes_unmodified():
    function = b'{"name":"thriftgate_recall","arguments":"{}"}'
    message = b'{"tool_calls":[{"id":"a","function":%b}]}' % function
    answer = b'{"choices":[{"message":%b}],"x":[%b0]}'
    long_answer = answer % (message, b"{},".join([b""] * 2_000_000))

    assert ChatRecallFilter("thriftgate_recall", streamed=False).feed(long_answer) == long_answer
    assert (
        ChatRecallFilter("thriftgate_recall", streamed=False).feed(answer % (message, b"")) == b""
    )


def test_an_event_is_named_by_its_type():
    event = {"type": "message_stop"}

    assert named_event(event) == b'event: message_stop\ndata: {"type":"message_stop"}\n\n'
    assert parse_object(orjson.dumps(event)) == event
    assert parse_object(b"[1]") is None
