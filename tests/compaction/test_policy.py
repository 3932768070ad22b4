import msgspec
from msgspec.structs import replace

from compaction.cost_model import (
    CompactionReason,
    call_savings,
    decide_compaction,
    rewrite_cost,
)
from compaction.policy import CompactionMode, CompactionPolicy, RelativePrices
from tests.compaction.cost_cases import CLAUDE, FIELD, OLD


def test_modes_are_said_as_people_write_them():
    assert [mode.value for mode in CompactionMode] == [
        "off",
        "trim",
        "facts",
        "facts+recall",
        "native",
    ]


def test_three_turns_stay_and_an_answers_token_costs_four_by_default():
    assert (CompactionPolicy().keep_turns, RelativePrices().output) == (3, 4.0)


def test_equal_policies_are_written_alike():
    one, other = (
        CompactionPolicy(prices=RelativePrices(read=0.1, write=1.25), window=1000) for _ in range(2)
    )

    assert one == other
    assert msgspec.msgpack.encode(one) == msgspec.msgpack.encode(other)


def test_only_caches_of_large_steps_are_coarse():
    assert RelativePrices(block=2_048).coarse_step_tokens == 2_048
    assert RelativePrices(block=128).coarse_step_tokens == 0
    assert RelativePrices(block=0, least=4_096).coarse_step_tokens == 0


def test_results_are_shortened_from_some_steps_on_or_once_the_prompt_is_surely_cached():
    assert RelativePrices(least=1_024, block=2_048).min_trim_tokens == 8_192
    assert RelativePrices(least=4_096).min_trim_tokens == 4_505
    assert RelativePrices(least=1_024, block=128).min_trim_tokens == 1_126
    assert RelativePrices(block=0).min_trim_tokens == 0


def test_shown_results_are_cut_from_the_first_step_on():
    assert RelativePrices(least=1_024, block=2_048).min_cut_tokens == 2_048
    assert RelativePrices(least=4_096).min_cut_tokens == 4_505
    assert RelativePrices(block=0).min_cut_tokens == 1


def test_a_cache_is_coarse_from_steps_of_1024_tokens_on():
    assert RelativePrices(block=1_024).coarse_step_tokens == 1_024
    assert RelativePrices(block=1_023).coarse_step_tokens == 0


def test_prices_that_are_not_known_are_those_of_input_without_a_cache():
    assert call_savings(RelativePrices(), 10, 0) == call_savings(RelativePrices(), 0, 10) == 10


def test_a_cache_of_unknown_blocks_has_all_that_stands_before_a_cut():
    prices = RelativePrices(read=0.1, write=1.25)

    assert rewrite_cost(prices, replace(FIELD, fixed=1_001)) == rewrite_cost(prices, FIELD)


def test_the_usual_policy_has_no_target_and_no_window_and_waits_for_ten_times_the_calls():
    policy = CompactionPolicy(prices=CLAUDE)

    def reason(calls: int) -> CompactionReason:
        return decide_compaction(policy, replace(FIELD, calls=calls, calls_since=calls)).reason

    assert reason(26) is CompactionReason.PAYS
    assert reason(25) is CompactionReason.DOES_NOT_PAY


def test_the_usual_policy_compacts_from_2048_tokens_on():
    small = replace(OLD, fixed=0, region=1_648, segment=100, tail=400, growth=10)
    policy = CompactionPolicy(prices=CLAUDE)

    assert decide_compaction(policy, small).is_due
    assert decide_compaction(policy, replace(small, tail=399)).reason is (
        CompactionReason.BELOW_LEAST
    )
