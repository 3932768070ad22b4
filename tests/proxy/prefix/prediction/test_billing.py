"""The expected cost of a prompt; its split by usage kind is tested with the prefix chains."""

import pytest

from proxy.prefix.prediction.billing import (
    expected_usage,
    prompt_cost,
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
