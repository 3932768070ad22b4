from collections.abc import Iterable
from typing import Any

import msgspec
import pytest
from openai.types.responses import Response

from proxy.providers.chat.chat_chunk import Chunk
from proxy.providers.responses.items import Event
from proxy.providers.responses.reader import ResponseWriter
from proxy.providers.stream_endings import malformed_answer

BODY = b'{"model":"asked","input":"Hi"}'


def response_stream() -> ResponseWriter:
    return ResponseWriter(BODY, 1.0)


def read(**fields: object) -> Chunk:
    return msgspec.convert(fields, Chunk)


def says(text: str, finish: str | None = None, index: int = 0) -> dict[str, Any]:
    return {"index": index, "delta": {"content": text}, "finish_reason": finish}


def kinds(events: Iterable[Event]) -> list[str]:
    return [event["type"].removeprefix("response.") for event in events]


def final_response(one: ResponseWriter) -> Response:
    return Response.model_validate(one.response)


def test_the_first_chunk_begins_the_response_and_no_other_does() -> None:
    stream = response_stream()

    assert kinds(stream.take(read(id="chatcmpl-1", model="m", choices=[says("")]))) == [
        "created",
        "in_progress",
    ]
    assert kinds(stream.take(read(id="chatcmpl-1", choices=[says("")]))) == []
    assert kinds(stream.end()) == ["completed"]
    assert (final_response(stream).id, final_response(stream).model) == ("resp_1", "m")


def test_a_model_that_says_no_name_goes_by_the_one_asked_for() -> None:
    stream = response_stream()
    list(stream.take(read()))
    list(stream.end())

    assert final_response(stream).model == "asked"


@pytest.mark.parametrize(
    ("finish", "kind", "reason", "item"),
    [
        ("stop", "completed", None, "completed"),
        ("tool_calls", "completed", None, "completed"),
        (None, "completed", None, "completed"),
        ("length", "incomplete", "max_output_tokens", "incomplete"),
        ("content_filter", "incomplete", "content_filter", "incomplete"),
    ],
)
def test_the_finish_reason_decides_the_status(
    finish: str | None, kind: str, reason: str | None, item: str
) -> None:
    stream = response_stream()
    list(stream.take(read(choices=[says("Hi", finish)])))

    assert stream.is_finished is (finish is not None)
    assert kinds(stream.end())[-1] == kind
    details = final_response(stream).incomplete_details
    assert (details.reason if details else None) == reason
    assert [
        output.status for output in final_response(stream).output if output.type == "message"
    ] == [item]


def test_the_last_usage_and_tier_count() -> None:
    stream = response_stream()
    list(stream.take(read(choices=[says("Hi")], usage={"prompt_tokens": 1}, service_tier="auto")))
    list(stream.take(read(choices=[], usage={"prompt_tokens": 5, "completion_tokens": 2})))
    list(stream.take(read(choices=[], usage=None, service_tier="default")))
    list(stream.end())

    assert final_response(stream).usage is not None
    assert final_response(stream).usage.total_tokens == 7  # type: ignore[union-attr]  # said above
    assert final_response(stream).service_tier == "default"


def test_usage_that_was_not_said_is_unknown() -> None:
    stream = response_stream()
    list(stream.take(read(choices=[says("Hi", "stop")])))
    list(stream.end())

    assert final_response(stream).usage is None


def test_only_the_first_of_several_answers_counts() -> None:
    stream = response_stream()
    list(stream.take(read(choices=[says("other", "length", index=1)])))

    assert stream.answered is False
    list(stream.take(read(choices=[says("Hi", "stop"), {"index": 0}])))
    list(stream.end())
    assert (stream.answered, final_response(stream).output_text) == (True, "Hi")


def test_a_whole_completion_is_one_chunk() -> None:
    stream = response_stream()
    message = {
        "role": "assistant",
        "content": "Hi",
        "tool_calls": [{"id": "c", "function": {"name": "f"}}],
    }
    logprobs = {"content": [{"token": "Hi", "logprob": -1}]}
    choice = {"message": message, "finish_reason": "stop", "logprobs": logprobs}
    list(stream.take(read(choices=[choice])))
    list(stream.end())

    words, call = final_response(stream).output
    assert words.type == "message"
    assert words.content[0].type == "output_text"
    assert [token.token for token in words.content[0].logprobs or ()] == ["Hi"]
    assert call.type == "function_call"


@pytest.mark.parametrize(
    ("error", "code", "message"),
    [
        ({"message": "slow", "type": "rate_limit_error"}, "rate_limit_exceeded", "slow"),
        ({"message": "bad", "type": "invalid_request_error"}, "invalid_prompt", "bad"),
        ({"message": "oh", "type": "api_error", "code": "x", "param": "p"}, "server_error", "oh"),
        ({"message": 5, "type": None}, "server_error", "The upstream failed midway."),
        ("oh", "server_error", "The upstream failed midway."),
    ],
)
def test_a_failure_keeps_what_there_is_and_says_why(error: Any, code: str, message: str) -> None:
    stream = response_stream()
    list(stream.take(read(choices=[says("Hi")])))

    assert kinds(stream.take(read(error=error))) == ["error", "failed"]
    failed = final_response(stream)
    assert failed.error is not None
    assert (failed.status, failed.error.code, failed.error.message) == ("failed", code, message)
    assert failed.output_text == "Hi"


def test_a_failure_at_the_start_still_begins_a_response() -> None:
    stream = response_stream()

    assert kinds(stream.take(read(error={"message": "oh"}))) == [
        "created",
        "in_progress",
        "error",
        "failed",
    ]


def test_no_event_follows_the_end_of_a_response() -> None:
    stream = response_stream()
    list(stream.take(read(choices=[says("Hi", "stop")])))
    list(stream.end())

    assert kinds(stream.take(read(choices=[says("more")]))) == []
    assert kinds(stream.fail(malformed_answer())) == []
    assert kinds(stream.end()) == []


@pytest.mark.parametrize(
    "odd", [[], "many", True, 7, {}, {"prompt_tokens": True}, {"prompt_tokens": 10**12}]
)
def test_unreadable_usage_counts_as_absent(odd: Any) -> None:
    stream = response_stream()
    list(stream.take(read(choices=[says("Hi", "stop")], usage=odd)))
    list(stream.end())

    assert final_response(stream).status == "completed"
    assert final_response(stream).usage is None
