from typing import Any

import msgspec
import pytest

from proxy.providers.chat.chat_chunk import Delta, Token, read_chunk


@pytest.mark.parametrize(
    ("given", "text", "thought"),
    [
        ({}, "", ""),
        ({"content": None, "reasoning_content": None}, "", ""),
        ({"content": "Hi", "reasoning_content": "hm"}, "Hi", "hm"),
        ({"content": "Hi", "reasoning": "hm"}, "Hi", "hm"),
        ({"reasoning": {"tokens": 3}}, "", ""),
        ({"content": [{"type": "text", "text": "H"}, {"type": "image"}, {"text": "i"}]}, "Hi", ""),
        (
            {
                "content": [
                    {
                        "type": "thinking",
                        "thinking": [{"type": "text", "text": "h"}, {"text": "m"}],
                    },
                    {"type": "text", "text": "Hi"},
                ]
            },
            "Hi",
            "hm",
        ),
        ({"content": [{"type": "thinking", "thinking": "hm"}]}, "", "hm"),
        ({"content": [{"type": "thinking", "thinking": [7, {"text": 7}]}]}, "", ""),
    ],
)
def test_words_and_thoughts_are_found_by_the_names_upstreams_use(
    given: Any, text: str, thought: str
) -> None:
    delta = msgspec.convert(given, Delta)

    assert (delta.text, delta.reasoning_text) == (text, thought)


def test_a_token_without_bytes_has_none() -> None:
    token = msgspec.convert(
        {
            "token": "a",
            "logprob": -1,
            "bytes": None,
            "top_logprobs": [{"token": "b", "logprob": -2, "bytes": [98]}],
        },
        Token,
    )

    assert token.for_responses() == {
        "token": "a",
        "bytes": [],
        "logprob": -1.0,
        "top_logprobs": [{"token": "b", "bytes": [98], "logprob": -2.0}],
    }


def test_blocks_stay_the_bytes_they_were() -> None:
    chunk = read_chunk(b'{"choices":[{"delta":{"thinking_blocks":[{"b":1.50, "a":2}]}}]}')

    assert chunk.choices is not None
    assert chunk.choices[0].delta is not None
    assert [bytes(raw) for raw in chunk.choices[0].delta.thinking_blocks or ()] == [
        b'{"b":1.50, "a":2}'
    ]


@pytest.mark.parametrize("data", [b"", b"5", b"{", b'{"choices":5}', b'{"choices":[{"delta":5}]}'])
def test_an_event_that_is_no_chat_chunk_is_not_read(data: Any) -> None:
    with pytest.raises(msgspec.DecodeError):
        read_chunk(data)
