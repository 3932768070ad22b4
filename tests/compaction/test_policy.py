import msgspec

from compaction.policy import CompactionMode, CompactionPolicy, RelativePrices


def test_modes_are_said_as_people_write_them():
    assert [mode.value for mode in CompactionMode] == [
        "off",
        "trim",
        "facts",
        "facts+recall",
        "native",
    ]


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
