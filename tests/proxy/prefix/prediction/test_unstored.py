"""Prefixes that an answer said are not stored, though they were marked."""

import pytest

from proxy.prefix.prediction.prefix_chains import PrefixChainIndex
from proxy.prefix.prediction.sent import SentCall
from proxy.prefix.prediction.unstored import UnstoredPrefixes
from slo.usage import Usage
from tests.proxy.prefix.sendings import ANTHROPIC, OPENAI, users

REFUSED = Usage(input=1_200)


def call(tokens: int = 1_100, regime=ANTHROPIC) -> SentCall:
    """Rules of so many tokens with a mark at their end, and a short question."""
    return users(regime, ("rules", tokens), ("question", 100), marks={0: next(iter(regime.writes))})


def observed(unstored: UnstoredPrefixes, sent: SentCall, usage: Usage, hit: int = 0) -> bool:
    return unstored.observe(sent, hit, sent.scale().of(usage.prompt_tokens), usage, 0.0)


def test_a_marked_prefix_near_the_least_that_was_not_stored_is_known():
    unstored, sent = UnstoredPrefixes(), call()

    assert observed(unstored, sent, REFUSED)
    assert unstored.has(sent.points[1], 0.0)
    assert not unstored.has(sent.points[2], 0.0)


def test_it_is_given_another_chance_after_an_hour():
    unstored, sent = UnstoredPrefixes(), call()
    observed(unstored, sent, REFUSED)

    assert unstored.has(sent.points[1], 3_599.0)
    assert not unstored.has(sent.points[1], 3_601.0)


def test_one_that_should_be_there_and_is_written_again_is_not_stored_by_itself():
    unstored, sent = UnstoredPrefixes(), call()

    assert observed(unstored, sent, Usage(input=10, write_5m=1_190), hit=1)
    assert unstored.has(sent.points[1], 0.0)


def test_images_behind_a_short_prefix_do_not_make_it_long():
    unstored, sent = UnstoredPrefixes(), call()

    assert observed(unstored, sent, Usage(input=10, write_5m=9_000), hit=1)
    assert unstored.has(sent.points[1], 0.0)


def test_what_is_read_after_all_is_stored():
    unstored, sent = UnstoredPrefixes(), call()
    observed(unstored, sent, REFUSED)

    assert not observed(unstored, sent, Usage(input=100, cache_read=1_100), hit=1)
    assert not unstored.has(sent.points[1], 0.0)


@pytest.mark.parametrize(
    ("sent", "usage"),
    [
        (call(5_000), Usage(input=5_100)),
        (call(regime=OPENAI), REFUSED),
        (call(), Usage(input=100, write_5m=1_100)),
    ],
    ids=["long enough by far", "stored without marks, too", "written"],
)
def test_a_refusal_of_a_long_prefix_and_a_write_say_nothing(sent: SentCall, usage: Usage):
    unstored = UnstoredPrefixes()

    assert not observed(unstored, sent, usage)
    assert not unstored.has(sent.points[1], 0.0)


def test_nothing_is_expected_to_be_read_of_it():
    unstored, sent = UnstoredPrefixes(), call()
    chains = PrefixChainIndex(unstored=unstored)
    chains.record_call(sent, Usage(input=100, write_5m=1_100), 0.0)
    before = chains.expect_read(sent, 1.0)
    observed(unstored, sent, Usage(input=100, write_5m=1_100), hit=before.hit)
    after = chains.expect_read(sent, 1.0)

    assert (before.hit, before.tokens > 0) == (1, True)
    assert (after.hit, after.tokens) == (0, 0)
