"""Usage objects of ``generateContent``."""

import pytest

from proxy.providers.chat.chat_answer import usage_object
from proxy.providers.gemini.usage import gemini_usage
from slo.usage import Usage
from tests.fakes.gemini_answers import USAGE, Json


@pytest.mark.parametrize(
    ("reported", "usage"),
    [
        (USAGE, Usage(input=40, cache_read=60, output=7, reasoning=2)),
        ({"promptTokenCount": 5, "toolUsePromptTokenCount": 4}, Usage(input=9)),
        ({"promptTokenCount": 5, "cachedContentTokenCount": 9}, Usage(cache_read=5)),
        ({"candidatesTokenCount": 3}, Usage(output=3)),
        ({"promptTokenCount": 0}, Usage()),
        ({"promptTokenCount": "many"}, None),
        ({}, None),
    ],
)
def test_cached_tokens_are_inside_the_prompt_and_thoughts_beside_the_answer(
    reported: Json, usage: Usage | None
) -> None:
    assert gemini_usage(reported) == usage


def test_chat_counts_thoughts_with_the_completion() -> None:
    assert usage_object(gemini_usage(USAGE), has_writes=False) == {
        "prompt_tokens": 100,
        "completion_tokens": 9,
        "total_tokens": 109,
        "prompt_tokens_details": {"cached_tokens": 60},
        "completion_tokens_details": {"reasoning_tokens": 2},
    }
