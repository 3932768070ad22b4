"""Streams whose upstream ends well while their translation for the caller does not."""

import pytest

from proxy.records.receipt import Outcome
from slo.usage import Usage
from tests.fakes.answers import STREAMED, chunk, event, stream, usage_chunk
from tests.fakes.call_dependencies import call, chat_alone, route
from tests.proxy.calls.test_delivery import CLAUDE, EXACT, MESSAGES, deliver

CLAUDES = Usage(input=30, cache_read=70, output=12)
RESPONSES_CALL = b'{"model":"m","stream":true,"input":"Hello"}'
MESSAGES_CALL = STREAMED[:-1] + b',"max_tokens":9}'
CHAT_ONLY = chat_alone(route())
UNREADABLE = b"data: {{{\n\n"
NAMELESS = event({"choices": [{"index": 0, "delta": {"tool_calls": [{"index": 0, "id": "c"}]}}]})
STOPS = event({"choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]})
GOOD_END = (STOPS, usage_chunk(), event("[DONE]"))


@pytest.mark.parametrize("in_one_piece", [False, True])
@pytest.mark.parametrize(
    ("asked", "by", "events", "last_event", "usage"),
    [
        (call(STREAMED), CLAUDE, (*MESSAGES[:5], UNREADABLE, *MESSAGES[5:]), b'"error":{', CLAUDES),
        (
            call(MESSAGES_CALL, endpoint="messages"),
            route(),
            (chunk("Hello"), UNREADABLE, *GOOD_END),
            b"event: error\n",
            EXACT,
        ),
        (
            call(MESSAGES_CALL, endpoint="messages"),
            route(),
            (chunk("Hello"), NAMELESS, *GOOD_END),
            b"event: error\n",
            EXACT,
        ),
        (
            call(RESPONSES_CALL, endpoint="responses"),
            CHAT_ONLY,
            (chunk("Hello"), UNREADABLE, *GOOD_END),
            b"event: response.failed\n",
            EXACT,
        ),
        (
            call(RESPONSES_CALL, endpoint="responses"),
            CLAUDE,
            (*MESSAGES[:5], UNREADABLE, *MESSAGES[5:]),
            b"event: response.failed\n",
            CLAUDES,
        ),
    ],
)
def test_a_stream_whose_translation_fails_ends_with_an_error_though_its_upstream_ended_well(
    asked, by, events, last_event, usage, in_one_piece
):
    pieces = [b"".join(events)] if in_one_piece else events
    caller, kept, _ = deliver(asked, stream(*pieces), by)

    assert last_event in caller.last_piece
    assert not any(
        end in caller.body for end in (b"[DONE]", b"message_stop", b"response.completed")
    )
    assert (kept.outcome, kept.error) == (Outcome.BROKEN, "upstream_malformed")
    if in_one_piece:
        assert (kept.usage, kept.estimated) == (usage, False)


def test_a_stream_that_ends_in_its_translation_is_answered():
    good = (chunk("Hello"), *GOOD_END)
    for asked, by, end in (
        (call(MESSAGES_CALL, endpoint="messages"), route(), b"message_stop"),
        (call(RESPONSES_CALL, endpoint="responses"), CHAT_ONLY, b"response.completed"),
    ):
        caller, kept, _ = deliver(asked, stream(*good), by)
        assert end in caller.body
        assert kept.outcome is Outcome.ANSWERED
