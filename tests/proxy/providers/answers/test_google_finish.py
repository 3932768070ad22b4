"""Reasons for which Google's candidates end."""

import pytest

from proxy.providers.answers.google_finish import (
    FAILED_REASONS,
    GoogleFinish,
    failed_chat_finish,
    failed_finish,
    failed_finish_in,
    finish_reason,
)
from tests.fakes.gemini_answers import answer, event_stream


def test_a_reason_that_ends_an_answer_is_chats():
    assert finish_reason("MAX_TOKENS", calls=True) == "length"
    assert finish_reason("SAFETY", calls=False) == "content_filter"
    assert finish_reason("STOP", calls=True) == "tool_calls"
    assert finish_reason(None, calls=False) == "stop"


@pytest.mark.parametrize("reason", sorted(FAILED_REASONS))
def test_a_failed_candidate_is_an_error_with_googles_words(reason):
    secret = "AIza" + "x" * 35
    error = failed_finish([GoogleFinish(finish_reason=reason, finish_message=f"bad {secret}")])

    assert error is not None
    assert error.message == f"The model failed with {reason}: bad [redacted]. Try again."
    assert (error.code, error.retryable) == ("upstream_generation_failed", True)


def test_no_candidates_or_a_good_one_are_no_error():
    assert failed_finish([]) is None
    assert failed_finish([GoogleFinish(finish_reason="OTHER"), GoogleFinish()]) is None


def test_a_failed_candidate_is_noticed_in_a_run_of_events():
    pieces = event_stream(answer({"text": "a"}), answer(finish="UNEXPECTED_TOOL_CALL"))
    error = failed_finish_in(b"data: {\n\n" + pieces)

    assert error is not None
    assert error.message == "The model failed with UNEXPECTED_TOOL_CALL. Try again."
    assert failed_finish_in(event_stream(answer({"text": "a"}, finish="STOP"))) is None


def test_a_failed_candidate_is_noticed_in_the_words_of_googles_openai_endpoint():
    error = failed_chat_finish("function_call_filter: MALFORMED_FUNCTION_CALL")

    assert error is not None
    assert error.message == "The model failed with MALFORMED_FUNCTION_CALL. Try again."
    assert [failed_chat_finish(reason) for reason in ("stop", "other", "", None)] == [None] * 4
