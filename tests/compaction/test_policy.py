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


def test_a_cache_of_coarse_steps_waits_for_one_of_them_to_be_saved():
    assert RelativePrices(block=2_048).min_spared_tokens == 2_048
    assert RelativePrices(block=128).min_spared_tokens == 0
    assert RelativePrices(block=0, least=4_096).min_spared_tokens == 0
