"""A chat body as Google's wire reads it."""

import pytest

from proxy.providers.gemini.body import read_chat
from tests.fakes.refusals import refusing


def test_googles_own_options_are_read() -> None:
    body = b'{"messages":[],"extra_body":{"google":{"cached_content":"cachedContents/a"}}}'
    body_read, names = read_chat(body)

    assert body_read.google.cached_content == "cachedContents/a"
    assert names == {"messages", "extra_body"}
    assert read_chat(b'{"messages":[],"extra_body":{}}')[0].google.cached_content is None


@pytest.mark.parametrize("body", [b"{}", b'{"messages":[],"seed":"x"}', b"[]"])
def test_a_malformed_chat_body_is_refused_for_gemini(body: bytes) -> None:
    with refusing(400):
        read_chat(body)
