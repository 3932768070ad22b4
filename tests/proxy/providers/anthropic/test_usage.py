"""Usage objects of the Messages API, in disjoint buckets."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.providers.anthropic.usage import messages_usage
from proxy.providers.chat.chat_answer import usage_object
from slo.usage import Usage


@pytest.mark.parametrize(
    ("reported", "usage"),
    [
        ({"input_tokens": 5, "output_tokens": 7}, Usage(input=5, output=7)),
        ({"input_tokens": 0, "output_tokens": 0}, Usage()),
        (
            {"input_tokens": 5, "cache_read_input_tokens": 100, "cache_creation_input_tokens": 30},
            Usage(input=5, cache_read=100, write_5m=30),
        ),
        (
            {
                "input_tokens": 5,
                "cache_creation_input_tokens": 30,
                "cache_creation": {
                    "ephemeral_5m_input_tokens": 10,
                    "ephemeral_1h_input_tokens": 20,
                },
            },
            Usage(input=5, write_5m=10, write_1h=20),
        ),
        (
            {
                "cache_creation_input_tokens": 40,
                "cache_creation": {"ephemeral_1h_input_tokens": 20},
            },
            Usage(write_5m=20, write_1h=20),
        ),
        (
            {
                "input_tokens": 1,
                "cache_creation": {"ephemeral_5m_input_tokens": 3, "ephemeral_1h_input_tokens": 4},
            },
            Usage(input=1, write_5m=3, write_1h=4),
        ),
        (
            {"output_tokens": 10, "output_tokens_details": {"thinking_tokens": 4}},
            Usage(output=6, reasoning=4),
        ),
        (
            {"output_tokens": 10, "output_tokens_details": {"thinking_tokens": 40}},
            Usage(reasoning=10),
        ),
        ({"input_tokens": 5, "output_tokens": None}, Usage(input=5)),
        ({"input_tokens": True, "output_tokens": -1}, None),
        ({"input_tokens": 1.5}, None),
        ({"input_tokens": 1.0, "output_tokens": 2.0}, Usage(input=1, output=2)),
        ({}, None),
        ({"service_tier": "standard", "cache_creation": {}}, None),
    ],
)
def test_each_token_stands_in_one_bucket(reported: dict[str, Any], usage: Usage | None) -> None:
    assert messages_usage(reported) == usage


def test_passes_are_summed_where_there_were_several() -> None:
    fields = {
        "input_tokens": 10,
        "output_tokens": 5,
        "output_tokens_details": {"thinking_tokens": 2},
        "iterations": [
            {"type": "compaction", "input_tokens": 100, "output_tokens": 20},
            {
                "type": "message",
                "input_tokens": 10,
                "cache_read_input_tokens": 3,
                "output_tokens": 5,
            },
        ],
    }

    assert messages_usage(fields) == Usage(input=110, cache_read=3, output=23, reasoning=2)


@pytest.mark.parametrize("passes", [None, [], "x", [5], [{"type": "message"}]])
def test_iterations_without_counts_are_passed_over(passes: object) -> None:
    assert messages_usage({"input_tokens": 3, "iterations": passes}) == Usage(input=3)


def test_the_callers_usage_holds_cached_tokens_within_the_prompt() -> None:
    fields = {
        "input_tokens": 5,
        "cache_read_input_tokens": 100,
        "cache_creation_input_tokens": 30,
        "output_tokens": 7,
        "output_tokens_details": {"thinking_tokens": 2},
    }

    assert usage_object(messages_usage(fields), has_writes=True) == {
        "prompt_tokens": 135,
        "completion_tokens": 7,
        "total_tokens": 142,
        "prompt_tokens_details": {"cached_tokens": 100, "cache_write_tokens": 30},
        "completion_tokens_details": {"reasoning_tokens": 2},
    }
    assert usage_object(messages_usage({}), has_writes=True) is None


_COUNT = st.integers(0, 1_000) | st.none()


@given(
    st.fixed_dictionaries(
        {
            "input_tokens": st.integers(0, 1_000),
            "cache_read_input_tokens": st.integers(0, 1_000),
            "cache_creation_input_tokens": st.integers(0, 1_000),
            "output_tokens": st.integers(0, 1_000),
            "cache_creation": st.none()
            | st.fixed_dictionaries(
                {"ephemeral_5m_input_tokens": _COUNT, "ephemeral_1h_input_tokens": _COUNT}
            ),
            "output_tokens_details": st.none() | st.fixed_dictionaries({"thinking_tokens": _COUNT}),
        }
    )
)
def test_the_buckets_add_up_to_what_was_said(reported: dict[str, Any]) -> None:
    usage = messages_usage(reported)

    assert usage is not None
    assert usage.prompt_tokens == (
        reported["input_tokens"]
        + reported["cache_read_input_tokens"]
        + reported["cache_creation_input_tokens"]
    )
    assert usage.generated_tokens == reported["output_tokens"]
    assert min(usage.write_5m, usage.write_1h, usage.output, usage.reasoning) >= 0
