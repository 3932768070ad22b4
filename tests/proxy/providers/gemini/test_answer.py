"""Answers of ``generateContent`` as a chat completion."""

from typing import Any

import orjson
import pytest
from openai.types.chat import ChatCompletion

from proxy.errors import UpstreamError
from proxy.providers.chat.chat_answer import ChatReply
from proxy.providers.gemini.answer import WholeCompletion
from tests.fakes.gemini_answers import USAGE, Json, answer, call


def completion(reported: Json) -> Json:
    reader = WholeCompletion(ChatReply("gemini-x", 7))
    completion_read: Json = orjson.loads(reader.feed(orjson.dumps(reported)) + reader.end())
    ChatCompletion.model_validate(completion_read, strict=True)
    return completion_read


def test_thoughts_words_and_calls_are_an_assistant_message() -> None:
    completion_read = completion(
        answer(
            {"text": "Hm", "thought": True},
            {"text": "I "},
            {"text": "look.", "thoughtSignature": "dHh0"},
            call(signature="c2ln", id="c0"),
            call(),
            finish="STOP",
            usage=USAGE,
        )
    )
    choice = completion_read["choices"][0]
    message = choice["message"]

    assert (completion_read["id"], completion_read["model"], completion_read["created"]) == (
        "r-1",
        "gemini-x",
        7,
    )
    assert (message["content"], message["reasoning_content"]) == ("I look.", "Hm")
    assert message["extra_content"] == {"google": {"thought_signature": "dHh0"}}
    first, second = message["tool_calls"]
    assert first["id"] == "c0"
    assert first["function"] == {"name": "weather", "arguments": '{"city":"Bern"}'}
    assert first["extra_content"] == {"google": {"thought_signature": "c2ln"}}
    assert second["id"].startswith("call_")
    assert "extra_content" not in second
    assert choice["finish_reason"] == "tool_calls"
    assert completion_read["usage"]["completion_tokens"] == 9


@pytest.mark.parametrize(
    ("finish", "reason"),
    [
        ("STOP", "stop"),
        ("MAX_TOKENS", "length"),
        ("SAFETY", "content_filter"),
        ("RECITATION", "content_filter"),
        ("FINISH_REASON_UNSPECIFIED", "stop"),
        (None, "stop"),
    ],
)
def test_the_reason_to_stop_is_chats(finish: str | None, reason: str) -> None:
    assert completion(answer({"text": "a"}, finish=finish))["choices"][0]["finish_reason"] == reason


def test_a_blocked_prompt_of_gemini_is_filtered_content() -> None:
    completion_read = completion(
        {"promptFeedback": {"blockReason": "SAFETY"}, "usageMetadata": USAGE}
    )

    assert completion_read["choices"][0]["finish_reason"] == "content_filter"


def test_each_candidate_is_a_choice() -> None:
    several = answer({"text": "a"}, finish="STOP")
    other = answer({"text": "b"}, finish="STOP")["candidates"][0] | {"index": 1}
    several["candidates"].append(other)

    contents = [choice["message"]["content"] for choice in completion(several)["choices"]]
    assert contents == ["a", "b"]


def test_a_candidate_that_failed_is_an_error_that_may_be_tried_again() -> None:
    failed = answer(finish="MALFORMED_FUNCTION_CALL", usage=USAGE)
    failed["candidates"][0]["finishMessage"] = "Malformed function call: weather(city=."

    with pytest.raises(UpstreamError, match="weather") as caught:
        completion(failed)
    assert (caught.value.status, caught.value.retryable) == (502, True)


def test_a_good_candidate_is_given_beside_a_failed_one() -> None:
    several = answer({"text": "a"}, finish="STOP")
    several["candidates"].append(answer(finish="OTHER")["candidates"][0] | {"index": 1})

    assert completion(several)["choices"][0]["message"]["content"] == "a"


@pytest.mark.parametrize(
    "body", [{}, {"candidates": []}, {"error": {"code": 429, "message": "quota"}}, [], 7]
)
def test_a_body_that_is_no_answer_is_the_upstreams_error(body: Any) -> None:
    with pytest.raises(UpstreamError):
        completion(body)
