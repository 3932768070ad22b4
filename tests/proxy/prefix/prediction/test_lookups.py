"""Against the models of the caches these rules are tested in test_chains."""

import msgspec
import pytest

from proxy.prefix.prediction.lookups import (
    BY_MARK,
    BY_RULE,
    has_stored_nothing,
    lifetime_s,
    lookup_places,
    readable_tokens,
    stores_at_breakpoints,
    written_breakpoints,
)
from slo.usage import Usage
from tests.proxy.prefix.sendings import ANTHROPIC, DEEPSEEK, GEMINI, OPENAI, VLLM, sent, users

MANY = tuple((f"m{at}", 100) for at in range(40))


def test_a_mark_at_block_35_looks_at_blocks_35_to_16():
    assert list(lookup_places(users(ANTHROPIC, *MANY, marks={34: "5m"}))) == list(range(35, 15, -1))


def test_a_regime_without_lookback_looks_at_its_marks_only():
    regime = msgspec.structs.replace(ANTHROPIC, lookback=0)

    assert list(lookup_places(users(regime, *MANY, marks={34: "5m", 3: "1h"}))) == [4, 35]


@pytest.mark.parametrize(("provider", "furthest"), [("anthropic", 1), ("bedrock", 11)])
def test_a_run_of_tool_results_is_one_position_but_on_bedrock(provider, furthest):
    regime = msgspec.structs.replace(ANTHROPIC, provider=provider)
    talk = [("user", "a"), *[("tool", f"{n}") for n in range(28)], ("user", "b")]

    assert min(lookup_places(sent(regime, *talk, marks={29: "5m"}))) == furthest


def test_openai_writes_three_marks_beside_its_own():
    call = users(OPENAI, *MANY, marks=dict.fromkeys(range(6), "30m"))

    assert list(written_breakpoints(call, 0)) == [
        (4, "30m", BY_MARK),
        (5, "30m", BY_MARK),
        (6, "30m", BY_MARK),
        (40, "", BY_RULE),
    ]


def test_openai_writes_four_marks_in_explicit_mode_and_none_besides():
    call = users(OPENAI, *MANY, marks=dict.fromkeys(range(6), "30m"), explicit=True)

    assert [at for at, _, _ in written_breakpoints(call, 0)] == [3, 4, 5, 6]


def test_openai_looks_up_the_end_of_the_leading_texts_and_the_last_21_ends():
    call = sent(OPENAI, ("developer", "a"), *[("user", "b")] * 30)

    assert sorted(set(lookup_places(call))) == [1, *range(11, 32)]


def test_openai_takes_the_last_of_consecutive_tool_responses():
    call = sent(OPENAI, ("user", "a"), ("assistant", "b"), ("tool", "c"), ("tool", "d"))

    assert sorted(set(lookup_places(call))) == [1, 4]


def test_deepseek_keeps_what_is_shared_and_the_whole():
    assert {at for at, _, _ in written_breakpoints(users(DEEPSEEK, *MANY), 7)} == {7, 40}
    assert {at for at, _, _ in written_breakpoints(users(DEEPSEEK, *MANY), 0)} == {40}


def test_at_least_one_token_is_fresh_where_any_prefix_is_read():
    assert readable_tokens(users(VLLM, ("a", 160)), 160, 160) == 144
    assert readable_tokens(users(ANTHROPIC, ("a", 2_000)), 2_000, 2_000) == 2_000


def test_less_than_the_least_is_not_read():
    assert readable_tokens(users(GEMINI, ("a", 5_000)), 4_000, 5_000) == 0


def test_where_only_room_matters_nothing_says_how_long_entries_live():
    assert lifetime_s(VLLM, "") == float("inf")
    assert lifetime_s(OPENAI, "") == 1_800


def test_a_bill_tells_that_nothing_was_stored_only_where_writes_have_a_price():
    assert has_stored_nothing(ANTHROPIC, Usage(input=5))
    assert not has_stored_nothing(ANTHROPIC, Usage(cache_read=5))
    assert not has_stored_nothing(ANTHROPIC, None)
    assert not has_stored_nothing(VLLM, Usage(input=5))
    assert stores_at_breakpoints(DEEPSEEK)
