from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.providers.answers.usage import merge_usage, openai_usage, token_count
from slo.usage import Usage


def test_chat_usage_is_split_into_disjoint_buckets() -> None:
    fields = {
        "prompt_tokens": 15_000,
        "completion_tokens": 900,
        "total_tokens": 15_900,
        "prompt_tokens_details": {"cached_tokens": 12_000, "cache_write_tokens": 2_900},
        "completion_tokens_details": {"reasoning_tokens": 600},
    }

    assert openai_usage(fields) == Usage(
        input=100, cache_read=12_000, write_30m=2_900, output=300, reasoning=600
    )


def test_rejected_tokens_of_a_prediction_are_priced_as_output_once() -> None:
    # Source: OpenAI, predicted outputs guide (2026-11): they are inside completion_tokens.
    details = {"accepted_prediction_tokens": 40, "rejected_prediction_tokens": 25}
    fields = {
        "prompt_tokens": 10,
        "completion_tokens": 80,
        "completion_tokens_details": {**details, "reasoning_tokens": 0},
    }

    assert openai_usage(fields) == Usage(input=10, output=80)


def test_responses_usage_splits_writes_by_lifetime() -> None:
    fields = {
        "input_tokens": 10_000,
        "input_tokens_details": {
            "cached_tokens": 4_000,
            "cache_write_tokens": 5_000,
            "cache_write_tokens_details": {"ttl_30m_tokens": 2_000, "ttl_12h_tokens": 3_000},
        },
        "output_tokens": 50,
        "output_tokens_details": {"reasoning_tokens": 20},
        "total_tokens": 10_050,
    }

    assert openai_usage(fields) == Usage(
        input=1_000, cache_read=4_000, write_30m=2_000, write_12h=3_000, output=30, reasoning=20
    )


@pytest.mark.parametrize(
    ("reported", "usage"),
    [
        pytest.param(
            {
                "prompt_tokens": 100,
                "completion_tokens": 7,
                "prompt_cache_hit_tokens": 64,
                "prompt_cache_miss_tokens": 36,
            },
            Usage(input=36, cache_read=64, output=7),
            id="deepseek",
        ),
        pytest.param(
            {"prompt_cache_hit_tokens": 64, "prompt_cache_miss_tokens": 36, "completion_tokens": 7},
            Usage(input=36, cache_read=64, output=7),
            id="deepseek without the sum",
        ),
        pytest.param(
            {"prompt_cache_miss_tokens": 36, "completion_tokens": 7},
            Usage(input=36, output=7),
            id="deepseek misses only",
        ),
        pytest.param(
            {
                "queue_time": 0.01,
                "prompt_tokens": 200,
                "completion_tokens": 9,
                "total_tokens": 209,
                "total_time": 0.2,
                "prompt_tokens_details": {"cached_tokens": 128},
            },
            Usage(input=72, cache_read=128, output=9),
            id="groq",
        ),
        pytest.param(
            {
                "prompt_tokens": 128,
                "completion_tokens": 4,
                "total_tokens": 132,
                "prompt_tokens_details": {"cached_tokens": 64},
                "prompt_audio_seconds": None,
            },
            Usage(input=64, cache_read=64, output=4),
            id="mistral",
        ),
        pytest.param(
            {
                "prompt_tokens": 5,
                "completion_tokens": 10,
                "total_tokens": 200,
                "completion_tokens_details": {"reasoning_tokens": 4},
            },
            Usage(input=5, output=6, reasoning=4),
            id="a total that explains nothing is not believed",
        ),
        pytest.param(
            {
                "prompt_tokens": 64,
                "completion_tokens": 2,
                "total_tokens": 66,
                "prompt_tokens_details": {"cached_tokens": 16, "created_cache_tokens": 48},
            },
            Usage(input=48, cache_read=16, output=2),
            id="vllm writes cost nothing",
        ),
        pytest.param(
            {"prompt_tokens": 64, "completion_tokens": 2, "prompt_tokens_details": None},
            Usage(input=64, output=2),
            id="vllm without details",
        ),
        pytest.param(
            {"prompt_tokens": 64, "completion_tokens": 2, "cached_tokens": 32},
            Usage(input=32, cache_read=32, output=2),
            id="cached tokens at the top",
        ),
        pytest.param({"prompt_tokens": 8, "total_tokens": 8}, Usage(input=8), id="embeddings"),
        pytest.param({"total_tokens": 8}, Usage(input=8), id="only a total"),
        pytest.param(
            {"total_tokens": 8, "completion_tokens": 3}, Usage(input=5, output=3), id="no prompt"
        ),
        pytest.param({"completion_tokens": 3}, Usage(output=3), id="only a completion"),
        pytest.param(
            {
                "type": "tokens",
                "input_tokens": 14,
                "input_token_details": {"text_tokens": 10, "audio_tokens": 4},
                "output_tokens": 101,
                "total_tokens": 115,
            },
            Usage(input=14, output=101),
            id="transcription by tokens",
        ),
        pytest.param({"type": "duration", "seconds": 9}, None, id="transcription by seconds"),
        pytest.param({}, None, id="nothing"),
        pytest.param({"prompt_tokens": None, "completion_tokens": None}, None, id="nulls"),
        pytest.param({"prompt_tokens": "12", "total_tokens": True}, None, id="not numbers"),
        pytest.param({"prompt_tokens": 10**30}, Usage(input=10**12), id="more than any answer"),
        pytest.param(
            {"prompt_tokens": 5, "completion_tokens": 10, "total_tokens": 99_999_015},
            Usage(input=5, output=10),
            id="a total above the sum",
        ),
        pytest.param({"prompt_tokens": 12.0}, Usage(input=12), id="a whole float"),
        pytest.param({"prompt_tokens": 12.5}, None, id="half a token"),
        pytest.param(
            {"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0}, Usage(), id="zeros"
        ),
        pytest.param(
            {"prompt_tokens": 10, "prompt_tokens_details": {"cached_tokens": 12}},
            Usage(cache_read=10),
            id="more cached than sent",
        ),
        pytest.param(
            {
                "prompt_tokens": 10,
                "prompt_tokens_details": {"cached_tokens": 6, "cache_write_tokens": 6},
            },
            Usage(cache_read=6, write_30m=4),
            id="more written than left",
        ),
        pytest.param({"prompt_tokens": -4, "completion_tokens": 2}, Usage(output=2), id="negative"),
    ],
)
def test_usage_of_each_providers_dialect_is_read(
    reported: dict[str, Any], usage: Usage | None
) -> None:
    assert openai_usage(reported) == usage


@pytest.mark.parametrize(
    ("reported", "usage"),
    [
        (
            {
                "prompt_tokens": 32,
                "completion_tokens": 9,
                "total_tokens": 135,
                "completion_tokens_details": {"reasoning_tokens": 94},
            },
            Usage(input=32, output=9, reasoning=94),
        ),
        (
            {"prompt_tokens": 5, "completion_tokens": 10, "total_tokens": 200},
            Usage(input=5, output=10, reasoning=185),
        ),
        (
            {
                "prompt_tokens": 5,
                "completion_tokens": 10,
                "total_tokens": 200,
                "completion_tokens_details": {"reasoning_tokens": 4},
            },
            Usage(input=5, output=6, reasoning=4),
        ),
    ],
    ids=["named by xai", "not named by gemini", "another count than the total explains"],
)
def test_reasoning_is_what_a_total_has_over_where_the_provider_says_so(
    reported: dict[str, Any], usage: Usage
) -> None:
    assert openai_usage(reported, reasoning_apart=True) == usage


junk: list[object] = [None, 3.0, 0.5, 1e308, float("nan"), float("inf"), 10**4298, "7", []]
counts: st.SearchStrategy[object] = st.integers(-5, 500) | st.sampled_from(junk)
details = st.none() | st.dictionaries(
    st.sampled_from(["cached_tokens", "cache_write_tokens", "reasoning_tokens", "audio_tokens"]),
    counts,
)
usages = st.fixed_dictionaries(
    {},
    optional={
        "prompt_tokens": counts,
        "input_tokens": counts,
        "completion_tokens": counts,
        "total_tokens": counts,
        "prompt_cache_hit_tokens": counts,
        "prompt_tokens_details": details,
        "completion_tokens_details": details,
    },
)


@given(usages, st.booleans())
def test_no_bucket_is_ever_negative_and_the_prompt_is_the_prompt(
    reported: dict[str, Any], apart: object
) -> None:
    usage = openai_usage(reported, reasoning_apart=bool(apart))

    if usage is not None:
        assert usage.prompt_tokens + usage.generated_tokens <= 3 * 10**12
        assert apart or usage.generated_tokens <= (
            token_count(reported, "completion_tokens", "output_tokens") or 0
        )
        assert min(usage.input, usage.cache_read, usage.write_30m, usage.write_12h) >= 0
        assert min(usage.output, usage.reasoning) >= 0
        prompt = reported.get("prompt_tokens")
        if isinstance(prompt, int) and prompt >= 0:
            assert usage.prompt_tokens == min(prompt, 10**12)


def test_later_usage_replaces_the_counts_it_names_and_null_names_none() -> None:
    fields: dict[str, Any] = {}
    for later in (
        {"input_tokens": 9, "output_tokens": 1, "cache_creation": {"1h": 20, "5m": 3}},
        {"input_tokens": None, "output_tokens": 30, "cache_creation": {"1h": None, "5m": 4}},
        {"cache_creation": None, "tier": "standard"},
    ):
        merge_usage(fields, later)

    assert fields == {
        "input_tokens": 9,
        "output_tokens": 30,
        "cache_creation": {"1h": 20, "5m": 4},
        "tier": "standard",
    }


def test_usage_nested_too_deep_is_replaced_as_a_whole() -> None:
    fields: dict[str, Any] = {"a": {"b": {"c": 1, "d": 2}}}
    merge_usage(fields, {"a": {"b": {"c": 3}}}, depth=1)

    assert fields == {"a": {"b": {"c": 3}}}
