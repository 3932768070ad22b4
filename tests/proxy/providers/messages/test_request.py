"""A Messages body as a chat body."""

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.providers.messages.request import UNSUPPORTED_THREAD, chat_request, prompt_tokens
from proxy.providers.messages.target import ChatTarget
from proxy.tokens.counter import TokenCounter
from tests.fakes.messages_calls import (
    WEATHER,
    Json,
    chat_body_and_notes,
    messages_call,
    request,
    text,
    user,
)
from tests.fakes.refusals import refusing

MARK = {"type": "ephemeral"}


def test_a_call_asks_for_the_same_in_chat() -> None:
    body, notes = chat_body_and_notes(user("Hi"), system="Be brief.")

    assert body == {
        "model": "gpt-x",
        "messages": [{"role": "system", "content": "Be brief."}, user("Hi")],
        "max_completion_tokens": 99,
    }
    assert notes == ()


def test_a_stream_is_asked_for_its_usage() -> None:
    body, _ = chat_body_and_notes(stream=True)

    assert (body["stream"], body["stream_options"]) == (True, {"include_usage": True})
    assert "stream" not in chat_body_and_notes(stream=False)[0]


def test_a_mark_for_the_whole_prompt_stays_where_the_cache_takes_marks() -> None:
    assert chat_body_and_notes(cache_control=MARK)[0]["cache_control"] == MARK
    unmarked = chat_body_and_notes(cache_control=MARK, target=ChatTarget(takes_marks=False))[0]
    assert "cache_control" not in unmarked


def test_the_limit_is_lowered_to_what_the_model_can() -> None:
    body, notes = chat_body_and_notes(target=ChatTarget(max_output=50))

    assert body["max_completion_tokens"] == 50
    assert notes == ("lowered max_tokens to 50: the model's most",)


def test_fields_that_chat_cannot_say_are_named_once() -> None:
    body, notes = chat_body_and_notes(speed="fast", betas=["x"], top_q=None, diagnostics={})

    assert body == chat_body_and_notes()[0]
    assert notes == ("dropped betas, speed: the model has no such parameter",)


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"max_tokens": None}, "max_tokens"),
        ({"max_tokens": 0}, "max_tokens"),
        ({"container": {"id": "c"}}, "container"),
        ({"compaction": {"type": "auto"}}, "compaction"),
        ({"inference_geo": "us"}, "inference_geo"),
        ({"thread": {"type": "create"}}, "thread"),
    ],
)
def test_fields_that_cannot_be_left_out_are_refused_by_name(fields: Json, param: str) -> None:
    with refusing(400, f"`{param}`") as caught:
        chat_body_and_notes(**fields)

    assert caught.value.param == param


def test_tokens_are_counted_by_the_models_vocabulary_without_a_limit() -> None:
    counter = TokenCounter()
    body = messages_call(user("Hello there"), max_tokens=None, tools=[WEATHER])
    fields = {
        "messages": [user("Hello there")],
        "tools": chat_body_and_notes(tools=[WEATHER])[0]["tools"],
    }

    counted = prompt_tokens(body, ChatTarget(), counter, "gpt-4o")

    assert counted == counter.prompt_tokens(orjson.dumps(fields), "chat/completions", "gpt-4o")
    assert counted > prompt_tokens(messages_call(), ChatTarget(), counter, "gpt-4o")


def test_counting_refuses_what_sending_would_refuse() -> None:
    with refusing(400, "search"):
        body = messages_call(tools=[{"type": "web_search_20260209", "name": "web_search"}])
        prompt_tokens(body, ChatTarget(), TokenCounter(), "gpt-4o")


@given(st.lists(st.text(min_size=1), min_size=1, max_size=5))
def test_the_same_body_gives_the_same_bytes_and_a_longer_one_begins_with_them(
    words: list[str],
) -> None:
    turns = [user(text(word)) for word in words]
    before, after = request(*turns), request(*turns, user("More"))
    shared = before.body.partition(b"]")[0].rpartition(b"}")[0]

    assert chat_request(messages_call(*turns), ChatTarget()) == before
    assert after.body.startswith(shared)


def test_the_refusal_of_a_thread_says_what_tool_runners_wait_for() -> None:
    with refusing(400, "send all messages with each call") as caught:
        chat_body_and_notes(thread={"type": "continue", "previous_message_id": "msg_1"})

    assert caught.value.details == UNSUPPORTED_THREAD
    with refusing(400, "`container`") as caught:
        chat_body_and_notes(container={"id": "c"})
    assert not caught.value.details
