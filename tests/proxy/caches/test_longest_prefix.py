"""Section numbers are those of the provider reference the rules were taken from."""

from dataclasses import replace

import pytest

from proxy.caches.longest_prefix import (
    FIREWORKS,
    GEMINI,
    GROQ,
    SGLANG,
    LongestPrefix,
    LongestPrefixRules,
)
from tests.proxy.caches.prompts import call, tokens, users


def test_7_2_the_longest_prefix_is_read_to_the_token() -> None:
    cache = LongestPrefix(SGLANG)
    call(cache, users(("a", 777), ("b", 300)))
    served = cache.serve(users(("a", 777), ("c", 300)), 0)

    assert (served.read, served.fresh, served.written) == (777, 300, {})


@pytest.mark.parametrize(("page", "read"), [(1, 777), (16, 768), (64, 768)])
def test_7_2_hits_are_whole_pages(page: int, read: int) -> None:
    cache = LongestPrefix(replace(SGLANG, page=page))
    call(cache, users(("a", 777), ("b", 300)))

    assert cache.serve(users(("a", 777), ("c", 300)), 0).read == read


def test_7_2_one_token_of_a_repeat_is_always_fresh() -> None:
    cache = LongestPrefix(SGLANG)
    call(cache, users(("a", 100)))

    assert cache.serve(users(("a", 100)), 0).read == 99
    assert cache.serve(users(), 0).fresh == 0


def test_7_2_the_answer_is_kept_but_for_its_last_token() -> None:
    cache = LongestPrefix(SGLANG)
    call(cache, users(("a", 100)), generated=tokens("answer", 50))

    assert cache.serve(users(("a", 100), ("answer", 50), ("b", 9)), 0).read == 149


def test_7_2_a_salt_parts_the_tree() -> None:
    cache = LongestPrefix(SGLANG)
    call(cache, users(("a", 100), key="one"))

    assert cache.serve(users(("a", 100), key="two"), 0).read == 0


@pytest.mark.parametrize(
    ("rules", "least"), [(GEMINI, 4_096), (replace(GEMINI, least=2_048), 2_048)]
)
def test_3_gemini_reads_from_its_least_tokens_on_exactly(
    rules: LongestPrefixRules, least: int
) -> None:
    cache = LongestPrefix(rules)
    call(cache, users(("a", least + 10)))

    assert cache.serve(users(("a", least), ("x", 50)), 0).read == least
    assert cache.serve(users(("a", least - 1), ("x", 50)), 0).read == 0


def test_3_prompts_below_the_least_tokens_are_not_kept() -> None:
    cache = LongestPrefix(GEMINI)
    call(cache, users(("a", 4_095)))

    assert len(cache) == 0


def test_3_answers_are_not_kept_by_the_opaque_caches() -> None:
    cache = LongestPrefix(GEMINI)
    call(cache, users(("a", 5_000)), generated=tokens("answer", 500))

    assert cache.serve(users(("a", 5_000), ("answer", 500)), 0).read == 5_000


def test_6_groq_forgets_after_two_idle_hours() -> None:
    cache = LongestPrefix(GROQ)
    sent_prompt = users(("a", 2_000))
    call(cache, sent_prompt, now=0)

    assert call(cache, sent_prompt, now=7_200).read == 1_999
    assert call(cache, sent_prompt, now=14_400).read == 1_999
    assert call(cache, sent_prompt, now=21_601).read == 0


def test_6_fireworks_replicas_share_nothing() -> None:
    one, other = LongestPrefix(FIREWORKS), LongestPrefix(FIREWORKS)
    call(one, users(("a", 2_000)))

    assert other.serve(users(("a", 2_000)), 0).read == 0


def test_cache_entry_is_read_only_once_the_answer_that_stores_it_began() -> None:
    cache = LongestPrefix(SGLANG)
    cache.serve(users(("a", 100)), 0)

    assert cache.serve(users(("a", 100)), 0).read == 0


def test_the_tokens_kept_are_bounded() -> None:
    cache = LongestPrefix(replace(SGLANG, room=1_000))
    for n in range(20):
        call(cache, users((f"a{n}", 300)), now=n)

    assert len(cache) == 900
    assert cache.serve(users(("a17", 300)), 20).read == 299
    assert cache.serve(users(("a16", 300)), 20).read == 0
