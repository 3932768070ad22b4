"""Tokens of a body's texts, by its size alone."""

import json
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.tokens.counter import TokenCounter
from proxy.tokens.text_size import text_tokens
from tests.fakes.marked_conversations import twins

ENCODED = "A" * 400_000
WORDS = {"type": "text", "text": "a word or two " * 1_000}
PARTS = {
    "Messages image": {"type": "image", "source": {"type": "base64", "data": ENCODED}},
    "chat image": {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{ENCODED}"}},
    "Responses image": {"type": "input_image", "image_url": f"data:image/png;base64,{ENCODED}"},
    "file": {"type": "file", "file": {"file_data": f"data:application/pdf;base64,{ENCODED}"}},
    "sound": {"type": "input_audio", "input_audio": {"data": ENCODED, "format": "wav"}},
}


@pytest.mark.parametrize("part", PARTS.values(), ids=PARTS)
def test_encoded_images_and_files_count_as_no_text(part: object) -> None:
    body = json.dumps({"messages": [{"role": "user", "content": [part, WORDS, part]}]}).encode()

    assert 3_500 <= text_tokens(body) <= 3_700


@pytest.mark.parametrize("is_escaped", [False, True], ids=["as UTF-8", "escaped"])
@pytest.mark.parametrize("language", twins())
def test_size_of_chats_in_any_language_is_near_their_tokens(
    language: str, *, is_escaped: bool
) -> None:
    messages = twins()[language].messages
    body = json.dumps({"messages": messages}, ensure_ascii=is_escaped).encode()
    exact = TokenCounter().prompt_tokens(body, "chat/completions", "gpt-5.6")

    assert text_tokens(body) == pytest.approx(exact, rel=0.3)


@given(st.integers(8 * 1024 - 40, 8 * 1024 + 40))
def test_head_of_encoded_bytes_is_seen_wherever_it_lies(words: int) -> None:
    body = b'{"text":"%b","url":"data:image/png;base64,%b"}' % (b"x" * words, b"A" * 300_000)

    assert text_tokens(body) == (len(body) - 300_000) // 4


@given(st.binary(max_size=200) | st.text('"data;base64,:\\ ').map(str.encode))
def test_any_bytes_have_between_none_and_a_fourth_of_their_size(body: bytes) -> None:
    assert 0 <= text_tokens(body) <= len(body) // 4


def test_text_that_names_the_field_counts_whole() -> None:
    body = json.dumps({"text": 'the "data" field: ' + "word " * 1_000}).encode()

    assert text_tokens(body) == len(body) // 4


@pytest.mark.parametrize(
    "body",
    [b'{"url":"data:image/png;base64,%b"}' % (b"A" * 20_000_000), b'"data":"x",' * 1_000_000],
    ids=["large image", "many fields"],
)
def test_size_of_large_bodies_is_read_in_little_time(body: bytes) -> None:
    started = time.thread_time()

    text_tokens(body)

    assert time.thread_time() - started < 1
