"""The expected cost of a prompt; its split by usage kind is tested with the prefix chains."""

import pytest

from proxy.prefix.prediction.billing import (
    expected_usage,
    payable_blocks,
    prompt_cost,
    storable_blocks,
    write_surcharge,
)
from proxy.prefix.prediction.prefix_chains import PrefixChainIndex
from slo.usage import Usage
from tests.proxy.prefix.sent_calls import ANTHROPIC, INTERVAL, OPENAI, users


def test_a_first_prompt_is_written_up_to_its_last_mark_and_fresh_behind_it():
    call = users(ANTHROPIC, ("a", 2_000), ("b", 500), ("c", 100), marks={0: "1h", 1: "5m"})

    found = expected_usage(call, PrefixChainIndex().expect_read(call, 0.0), 2_600)

    assert found == Usage(write_1h=2_000, write_5m=500, input=100)


def test_a_prompt_too_short_for_its_cache_writes_nothing():
    call = users(OPENAI, ("a", 900))

    assert expected_usage(call, PrefixChainIndex().expect_read(call, 0.0), 900) == Usage(input=900)


def test_where_writes_are_free_nothing_is_charged_for_them():
    call = users(INTERVAL, ("a", 5_000))

    assert expected_usage(call, PrefixChainIndex().expect_read(call, 0.0), 5_000) == Usage(
        input=5_000
    )


def test_a_prompt_costs_what_its_tokens_cost_in_fresh_ones():
    used = Usage(input=100, cache_read=1_000, write_5m=40, write_1h=10, output=7)

    assert prompt_cost(used, ANTHROPIC) == pytest.approx(100 + 100 + 50 + 20)
    assert write_surcharge(used, ANTHROPIC) == pytest.approx(10 + 10)


def test_a_prompt_is_stored_from_its_first_thousand_tokens_on():
    call = users(ANTHROPIC, ("a", 600), ("b", 600), ("c", 600))

    assert storable_blocks(call, PrefixChainIndex().expect_read(call, 0.0)) == 2


def test_a_prompt_too_short_to_be_stored_has_no_part_that_is():
    call = users(ANTHROPIC, ("a", 300), ("b", 300))

    assert storable_blocks(call, PrefixChainIndex().expect_read(call, 0.0)) == 3


def test_a_call_that_reads_nothing_writes_no_more_than_may_be_lost():
    call = users(ANTHROPIC, ("a", 1_000), ("b", 1_000), ("c", 9_000), marks={2: "5m"})
    expected = PrefixChainIndex().expect_read(call, 0.0)

    assert payable_blocks(call, expected, 0.0) == 0
    assert payable_blocks(call, expected, 250.0) == 1
    assert payable_blocks(call, expected, 499.0) == 1
    assert payable_blocks(call, expected, 500.0) == 2


@pytest.mark.parametrize(("ttl", "blocks"), [("5m", 4), ("1h", 2)])
def test_what_a_call_saves_by_reading_pays_for_writing_what_follows(ttl: str, blocks: int):
    chains = PrefixChainIndex()
    sizes = (("a", 1_100), ("b", 900), ("c", 1_000), ("d", 2_000), ("e", 1_000))
    before = users(ANTHROPIC, *sizes, marks={0: ttl})
    chains.record_call(before, expected_usage(before, chains.expect_read(before, 0.0), 6_000), 0.0)
    call = users(ANTHROPIC, *sizes, marks={4: ttl})

    assert payable_blocks(call, chains.expect_read(call, 1.0), 0.0) == blocks


def test_where_writing_costs_no_more_than_sending_all_of_it_is_payable():
    call = users(INTERVAL, ("a", 1_000), ("b", 1_000), marks={1: ""})

    assert payable_blocks(call, PrefixChainIndex().expect_read(call, 0.0), 0.0) == 2
