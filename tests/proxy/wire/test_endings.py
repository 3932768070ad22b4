import json

import pytest

from proxy.errors import UpstreamError
from proxy.wire.endings import cut_off, error_event
from proxy.wire.sse import Frames, events

ERROR = UpstreamError('It "broke".', status=502, code="upstream_broken", retryable=True)
PAYLOAD = {
    "message": 'It "broke".',
    "type": "upstream_error",
    "param": None,
    "code": "upstream_broken",
}


@pytest.mark.parametrize("endpoint", ["chat/completions", "completions", "audio/speech"])
def test_a_broken_stream_ends_with_the_error_payload(endpoint):
    (event,) = events(error_event(endpoint, ERROR))

    assert event.name == ""
    assert json.loads(event.data) == {"error": PAYLOAD}


def test_a_broken_responses_stream_ends_with_an_error_event():
    (event,) = events(error_event("responses", ERROR))

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

    assert Frames().feed(event) == event


def test_a_stream_that_was_cut_off_may_be_asked_for_again():
    error = cut_off()

    assert (error.status, error.code, error.is_worth_retrying) == (502, "upstream_cut_off", True)
