import orjson
import pytest

from proxy.errors import UpstreamError
from proxy.providers.chat.chat_answer import (
    ChatReply,
    ChunkWriter,
    chat_choice,
    chat_message,
    chat_reply,
    function_call,
    usage_object,
)
from proxy.records.request_fields import parse_request_fields
from slo.usage import Usage
from tests.fakes.call_dependencies import call

REPLY = ChatReply("m", 7)


def data(run: bytes) -> list[object]:
    """The data of a run of events."""
    events = run.removesuffix(b"\n\n").split(b"\n\n")
    texts = [event.removeprefix(b"data: ") for event in events]
    return [text.decode() if text == b"[DONE]" else orjson.loads(text) for text in texts]


def test_a_completion_has_the_facts_of_its_call_and_only_known_fields() -> None:
    choices = [chat_choice(chat_message("Hi.", []), "stop")]

    assert list(REPLY.completion("id", choices, usage=None, service_tier="flex").items()) == [
        ("id", "id"),
        ("object", "chat.completion"),
        ("created", 7),
        ("model", "m"),
        ("choices", choices),
        ("service_tier", "flex"),
    ]


def test_a_message_of_calls_alone_has_no_content_and_no_empty_field() -> None:
    calls = [function_call("c", "f", "{}")]

    assert chat_message("", calls, annotations=[]) == {
        "role": "assistant",
        "content": None,
        "refusal": None,
        "tool_calls": [
            {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}
        ],
    }
    assert chat_message("", [])["content"] == ""


@pytest.mark.parametrize("wants_usage", [False, True])
def test_chunks_say_usage_only_where_it_was_asked_for(*, wants_usage: bool) -> None:
    writer = ChunkWriter(ChatReply("m", 7, wants_usage))
    writer.answer_id = "id"
    usage = {"prompt_tokens": 1}
    chunk, *end = data(writer.chunk({"content": "a"}, 1, "stop", tier=None) + writer.end(usage))

    frame = {"id": "id", "object": "chat.completion.chunk", "created": 7, "model": "m"}
    choice = {"index": 1, "delta": {"content": "a"}, "logprobs": None, "finish_reason": "stop"}
    no_usage = {"usage": None} if wants_usage else {}
    assert chunk == frame | {"choices": [choice]} | no_usage
    assert end == ([frame | {"choices": [], "usage": usage}] if wants_usage else []) + ["[DONE]"]
    assert data(writer.end(None)) == ["[DONE]"]


def test_a_chunk_carries_further_fields_before_its_usage() -> None:
    (chunk,) = data(ChunkWriter(ChatReply("m", 7, wants_usage=True)).chunk({}, tier="flex"))

    assert isinstance(chunk, dict)
    assert list(chunk)[-2:] == ["tier", "usage"]


def test_the_error_of_a_stream_is_an_event_of_chat() -> None:
    error = UpstreamError("It broke.", status=502, code="upstream_error", retryable=True)
    (event,) = data(ChunkWriter(REPLY).error(error))

    assert isinstance(event, dict)
    assert event["error"]["message"] == "It broke."


def test_the_facts_of_a_reply_are_those_of_the_call() -> None:
    body = b'{"model":"m","stream":true,"stream_options":{"include_usage":true}}'
    chat_call = call(body, fields=parse_request_fields(body), arrived=7.9)

    assert chat_reply(chat_call) == ChatReply("m", 7, wants_usage=True)


def test_usage_counts_cache_writes_only_where_the_provider_does() -> None:
    usage = Usage(input=1, cache_read=2, write_5m=3, output=4)

    assert usage_object(usage, has_writes=True) == {
        "prompt_tokens": 6,
        "completion_tokens": 4,
        "total_tokens": 10,
        "prompt_tokens_details": {"cached_tokens": 2, "cache_write_tokens": 3},
        "completion_tokens_details": {"reasoning_tokens": 0},
    }
    assert usage_object(None, has_writes=False) is None
