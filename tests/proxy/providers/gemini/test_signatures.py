"""Thought signatures where Google's OpenAI-compatible answers carry them."""

import pytest
from msgspec import Raw

from proxy.providers.gemini.signatures import extra_content, signature_of


@pytest.mark.parametrize(
    ("raw", "signature"),
    [
        (b'{"google":{"thought_signature":"c2ln"}}', "c2ln"),
        (b'{"google":{}}', ""),
        (b'{"other":1}', ""),
        (b'{"google":{"thought_signature":7}}', ""),
        (b'"text"', ""),
        (b"null", ""),
        (b"", ""),
    ],
)
def test_a_thought_signature_is_read_from_extra_content(raw: bytes, signature: str) -> None:
    assert signature_of(Raw(raw)) == signature


def test_a_thought_signature_is_written_into_extra_content() -> None:
    assert extra_content("c2ln") == {"extra_content": {"google": {"thought_signature": "c2ln"}}}
    assert extra_content("") == {}
