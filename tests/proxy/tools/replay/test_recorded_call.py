"""One recorded call."""

import pytest

from proxy.tools.replay.recorded_call import RecordedCall


@pytest.mark.parametrize(
    ("reply", "generated", "is_answered"),
    [(b"null", None, False), (b"null", 7, True), (b'{"content": "Hi"}', None, True)],
)
def test_a_call_is_answered_where_its_answers_length_is_known(reply, generated, is_answered):
    call = RecordedCall(at=None, body=b"{}", reply=reply, generated=generated)

    assert call.is_answered is is_answered
