import json

import pytest

from proxy.errors import UpstreamError
from proxy.providers.sse import EventFramer, parse_events
from proxy.providers.stream_endings import (
    connection_lost,
    early_failure,
    error_event,
    malformed_answer,
    midway_failure,
    stale_connection,
    truncated_stream,
)

ERROR = UpstreamError('It "broke".', status=502, code="upstream_broken", retryable=True)
PAYLOAD = {
    "message": 'It "broke".',
    "type": "upstream_error",
    "param": None,
    "code": "upstream_broken",
}


@pytest.mark.slow
@pytest.mark.parametrize("endpoint", ["chat/completions", "completions", "audio/speech"])
def test_a_broken_stream_ends_with_the_error_payload(endpoint):
    (event,) = parse_events(error_event(endpoint, ERROR))

    assert event.name == ""
    assert json.loads(event.data) == {"error": PAYLOAD}


def test_a_broken_responses_stream_ends_with_an_error_event():
    (event,) = parse_events(error_event("responses", ERROR))

    assert event.name == "error"
    assert json.loads(event.data) == {
        "error": PAYLOAD,
        "type": "error",
        "code": "upstream_broken",
        "message": 'It "broke".',
        "param": None,
        "sequence_number": 0,
    }


@pytest.mark.parametrize("endpoint", ["chat/completions", "responses"])
def test_the_last_event_is_whole(endpoint):
    event = error_event(endpoint, ERROR)

    assert EventFramer().feed(event) == event


@pytest.mark.parametrize(
    ("made", "code"),
    [
        (connection_lost, "upstream_connection_broken"),
        (stale_connection, "upstream_connection_stale"),
        (truncated_stream, "upstream_cut_off"),
        (early_failure, "upstream_failed_early"),
        (midway_failure, "upstream_failed_midway"),
        (malformed_answer, "upstream_malformed"),
    ],
)
def test_an_answer_that_could_not_go_on_may_be_asked_for_again(made, code):
    error = made()

    assert (error.status, error.code) == (502, code)
    assert error.retryable
    assert error.is_worth_retrying


def test_a_broken_stream_of_messages_ends_with_anthropics_error_event():
    (event,) = parse_events(error_event("messages", ERROR))

    assert event.name == "error"
    assert json.loads(event.data) == {
        "type": "error",
        "error": {"type": "api_error", "message": 'It "broke".', "code": "upstream_broken"},
    }
