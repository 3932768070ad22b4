"""Calls that begin at once write their prefix once, where waiting for that pays; through HTTP.

``python -m tests.bench.prefix_fanout`` prints the table.
"""

from collections.abc import Iterator
from statistics import median

import pytest

from tests.bench.prefix_fanout import MARKS, Fan, fan_out, pace
from tests.fakes.prefix_harness import PrefixHarness, prefix_harness

CALLS = 20
#: Seconds that a simulated one takes: all calls are there before the first byte, on any machine.
PACE = 3.0
#: Some 20,000 tokens, and some 900.
LONG, SHORT = 180, 8


@pytest.fixture(scope="module")
def harness(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PrefixHarness]:
    with prefix_harness(tmp_path_factory.mktemp("fans")) as running:
        yield running


@pytest.fixture(scope="module", params=MARKS)
def ways(request: pytest.FixtureRequest, harness: PrefixHarness) -> tuple[Fan, Fan]:
    """As sent, and held back."""
    regime = request.param
    pace(harness, PACE)
    unmodified = fan_out(harness, regime, "as sent", CALLS, LONG)
    return unmodified, fan_out(harness, regime, "held back", CALLS, LONG)


def test_a_fan_out_as_sent_writes_the_prefix_with_every_call(ways: tuple[Fan, Fan]) -> None:
    unmodified, _ = ways

    assert (unmodified.writers, unmodified.calls_held_back) == (CALLS, 0)
    assert {used.cache_read for used in unmodified.charged} == {0}


def test_a_held_back_prefix_is_written_once_and_read_by_all_other_calls(
    ways: tuple[Fan, Fan],
) -> None:
    _, held_back = ways
    first, *later = held_back.charged

    assert (held_back.writers, held_back.calls_held_back) == (1, CALLS - 1)
    assert first.cache_read == 0
    assert all(used.cache_read > 0.97 * used.prompt_tokens for used in later)


def test_a_held_back_fan_out_costs_a_fifth_and_less_than_a_second(ways: tuple[Fan, Fan]) -> None:
    unmodified, held_back = ways

    assert held_back.dollars < 0.2 * unmodified.dollars
    assert median(held_back.firsts) - median(unmodified.firsts) < PACE


def test_a_pair_of_short_prompts_does_not_wait(harness: PrefixHarness) -> None:
    pace(harness, 2.0)
    pair = fan_out(harness, "anthropic-breakpoint", "held back", 2, SHORT)

    assert (pair.writers, pair.calls_held_back) == (2, 0)
