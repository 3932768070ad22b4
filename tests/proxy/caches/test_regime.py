"""Tests of what planning must know of a route's cache."""

from fractions import Fraction

import pytest

from proxy.caches.regime import Regime, prompt_cost, write_surcharge
from slo.usage import Usage


def test_a_cache_that_takes_marks_says_so():
    assert Regime(marks=4).takes_marks
    assert not Regime().takes_marks


def test_unknown_regime_saves_nothing_by_reading():
    assert Regime().read == 1
    assert Regime().writes == {}


def test_whole_blocks_are_read_and_the_last_token_never_is() -> None:
    engine = Regime(block=16, fresh=1)

    assert [engine.readable_tokens(160, total) for total in (160, 161, 200)] == [144, 160, 160]
    assert Regime().readable_tokens(2_000, 2_000) == 2_000


def test_a_prefix_below_the_minimum_is_not_read() -> None:
    assert Regime(least=4_096).readable_tokens(4_000, 5_000) == 0
    assert Regime(least=4_096).readable_tokens(4_096, 5_000) == 4_096


def test_a_mark_that_names_no_lifetime_has_the_shortest_sold() -> None:
    writes = {"1h": Fraction(2), "5m": Fraction(5, 4)}

    assert Regime(writes=writes, lifetimes={"1h": 3_600.0, "5m": 300.0}).usual_ttl == "5m"
    assert Regime().usual_ttl == ""


def test_a_prompt_costs_what_its_tokens_cost_in_fresh_ones() -> None:
    regime = Regime(read=Fraction(1, 10), writes={"5m": Fraction(5, 4), "1h": Fraction(2)})
    used = Usage(input=100, cache_read=1_000, write_5m=40, write_1h=10, output=7)

    assert prompt_cost(used, regime) == pytest.approx(100 + 100 + 50 + 20)
    assert write_surcharge(used, regime) == pytest.approx(10 + 10)
