"""Places where caches store and look prefixes up, and prefixes that were not stored."""

import msgspec
import pytest

from proxy.caches.entries import BY_MARK, BY_RULE
from proxy.prefix.prediction.lookups import (
    UnstoredPrefixes,
    has_stored_nothing,
    lifetime_s,
    lookup_places,
    stores_at_breakpoints,
    written_breakpoints,
)
from proxy.prefix.prediction.prefix_chains import PrefixChainIndex
from proxy.prefix.prediction.sent_call import SentCall
from slo.usage import Usage
from tests.proxy.prefix.sent_calls import (
    ANTHROPIC,
    DEEPSEEK,
    OPENAI,
    VLLM,
    sent_chat,
    users,
)

MANY = tuple((f"m{at}", 100) for at in range(40))
REFUSED = Usage(input=1_200)


def test_a_mark_at_block_35_looks_at_blocks_35_to_16():
    assert list(lookup_places(users(ANTHROPIC, *MANY, marks={34: "5m"}))) == list(range(35, 15, -1))


def test_a_regime_without_lookback_looks_at_its_marks_only():
    regime = msgspec.structs.replace(ANTHROPIC, lookback=0)

    assert list(lookup_places(users(regime, *MANY, marks={34: "5m", 3: "1h"}))) == [35, 4]


def test_a_call_with_other_marks_shares_its_prefixes_and_looks_at_other_places():
    one = users(ANTHROPIC, *MANY, marks={34: "5m"})
    assert (len(lookup_places(one)), len(one.points)) == (20, 41)

    other = msgspec.structs.replace(one, marks={3: "5m"})
    other.share(one)

    assert list(lookup_places(other)) == [4, 3, 2, 1]
    assert other.points is one.points


@pytest.mark.parametrize(("provider", "furthest"), [("anthropic", 1), ("bedrock", 11)])
def test_a_run_of_tool_results_is_one_position_but_on_bedrock(provider, furthest):
    regime = msgspec.structs.replace(ANTHROPIC, provider=provider)
    talk = [("user", "a"), *[("tool", f"{n}") for n in range(28)], ("user", "b")]

    assert min(lookup_places(sent_chat(regime, *talk, marks={29: "5m"}))) == furthest


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
    call = sent_chat(OPENAI, ("developer", "a"), *[("user", "b")] * 30)

    assert sorted(set(lookup_places(call))) == [1, *range(11, 32)]


def test_openai_looks_up_the_last_21_ends_alone_where_no_text_leads():
    assert sorted(set(lookup_places(users(OPENAI, *MANY)))) == list(range(20, 41))


@pytest.mark.parametrize(("provider", "count"), [("openai", 80), ("azure", 50)])
def test_each_provider_looks_up_its_own_number_of_marks(provider, count):
    regime = msgspec.structs.replace(OPENAI, provider=provider)
    many = tuple((f"m{index}", 100) for index in range(100))
    call = users(regime, *many, marks=dict.fromkeys(range(100), "30m"), explicit=True)

    assert len(set(lookup_places(call))) == count


def test_the_lifetime_asked_for_the_whole_call_is_the_one_of_its_own_end():
    call = users(OPENAI, *MANY, ttl="12h")

    assert list(written_breakpoints(call, 0)) == [(40, "12h", BY_RULE)]


def test_openai_takes_the_last_of_consecutive_tool_responses():
    call = sent_chat(OPENAI, ("user", "a"), ("assistant", "b"), ("tool", "c"), ("tool", "d"))

    assert sorted(set(lookup_places(call))) == [1, 4]


def test_deepseek_stores_the_shared_prefix_and_the_whole_prompt():
    assert {at for at, _, _ in written_breakpoints(users(DEEPSEEK, *MANY), 7)} == {7, 40}
    assert {at for at, _, _ in written_breakpoints(users(DEEPSEEK, *MANY), 0)} == {40}


def test_a_cache_bounded_by_room_has_no_lifetime():
    assert lifetime_s(VLLM, "") == float("inf")
    assert lifetime_s(OPENAI, "") == 1_800


def test_a_bill_tells_that_nothing_was_stored_only_where_writes_have_a_price():
    assert has_stored_nothing(ANTHROPIC, Usage(input=5))
    assert not has_stored_nothing(ANTHROPIC, Usage(cache_read=5))
    assert not has_stored_nothing(ANTHROPIC, None)
    assert not has_stored_nothing(VLLM, Usage(input=5))
    assert stores_at_breakpoints(DEEPSEEK)


def call(tokens: int = 1_100, regime=ANTHROPIC) -> SentCall:
    """Rules of so many tokens with a mark at their end, and a short question."""
    return users(regime, ("rules", tokens), ("question", 100), marks={0: next(iter(regime.writes))})


def record_answer(unstored: UnstoredPrefixes, sent: SentCall, usage: Usage, hit: int = 0) -> bool:
    return unstored.record_answer(
        sent, hit, sent.scale().with_total(usage.prompt_tokens), usage, 0.0
    )


def test_a_marked_prefix_near_the_least_that_was_not_stored_is_known():
    unstored, sent = UnstoredPrefixes(), call()

    assert record_answer(unstored, sent, REFUSED)
    assert unstored.is_unstored(sent.points[1], 0.0)
    assert not unstored.is_unstored(sent.points[2], 0.0)
    assert unstored.indexes[0].size_bytes == 140


@pytest.mark.parametrize(("tokens", "is_unstored"), [(1_433, True), (1_434, False)])
def test_a_refused_prefix_is_unstored_up_to_four_tenths_above_the_least(
    tokens: int,
    is_unstored: bool,  # noqa: FBT001 - a parameter
):
    unstored, sent = UnstoredPrefixes(), call(tokens)

    assert record_answer(unstored, sent, Usage(input=tokens + 100)) is is_unstored


def test_an_unstored_prefix_is_tried_again_after_an_hour():
    unstored, sent = UnstoredPrefixes(), call()
    record_answer(unstored, sent, REFUSED)

    assert unstored.is_unstored(sent.points[1], 3_599.0)
    assert not unstored.is_unstored(sent.points[1], 3_601.0)


def test_a_prefix_written_again_where_it_should_be_read_is_unstored():
    unstored, sent = UnstoredPrefixes(), call()

    assert record_answer(unstored, sent, Usage(input=10, write_5m=1_190), hit=1)
    assert unstored.is_unstored(sent.points[1], 0.0)


def test_images_behind_a_short_prefix_do_not_make_it_long():
    unstored, sent = UnstoredPrefixes(), call()

    assert record_answer(unstored, sent, Usage(input=10, write_5m=9_000), hit=1)
    assert unstored.is_unstored(sent.points[1], 0.0)


def test_a_prefix_that_is_read_is_no_longer_unstored():
    unstored, sent = UnstoredPrefixes(), call()
    record_answer(unstored, sent, REFUSED)

    assert not record_answer(unstored, sent, Usage(input=100, cache_read=1_100), hit=1)
    assert not unstored.is_unstored(sent.points[1], 0.0)


@pytest.mark.parametrize(
    ("sent", "usage"),
    [
        (call(5_000), Usage(input=5_100)),
        (call(regime=OPENAI), REFUSED),
        (call(), Usage(input=100, write_5m=1_100)),
    ],
    ids=["long enough by far", "stored without marks, too", "written"],
)
def test_a_long_prefix_or_a_billed_write_is_never_taken_for_unstored(sent: SentCall, usage: Usage):
    unstored = UnstoredPrefixes()

    assert not record_answer(unstored, sent, usage)
    assert not unstored.is_unstored(sent.points[1], 0.0)


def test_no_read_is_expected_of_an_unstored_prefix():
    unstored, sent = UnstoredPrefixes(), call()
    chains = PrefixChainIndex(unstored=unstored)
    chains.record_call(sent, Usage(input=100, write_5m=1_100), 0.0)
    before = chains.expect_read(sent, 1.0)
    record_answer(unstored, sent, Usage(input=100, write_5m=1_100), hit=before.hit)
    after = chains.expect_read(sent, 1.0)

    assert (before.hit, before.tokens > 0) == (1, True)
    assert (after.hit, after.tokens) == (0, 0)
