"""Section numbers are those of the provider reference the rules were taken from."""

from dataclasses import replace

import pytest

from proxy.caches.block_chain import MISTRAL, VLLM, XAI, BlockChain, BlockChainRules
from tests.proxy.caches.prompts import call, tokens, users


@pytest.mark.parametrize(("rules", "block"), [(VLLM, 16), (MISTRAL, 64), (XAI, 128)])
def test_6_and_7_1_hits_are_full_blocks_of_each_provider_s_size(
    rules: BlockChainRules, block: int
) -> None:
    cache = BlockChain(rules)
    call(cache, users(("a", 1_000), key="one"))
    served = call(cache, users(("a", 1_000), ("b", 10), key="one"))

    assert served.read == 1_000 // block * block
    assert (served.fresh, served.written) == (1_010 - served.read, {})


@pytest.mark.parametrize(("count", "read"), [(1_600, 1_584), (1_601, 1_600), (16, 0), (17, 16)])
def test_7_1_an_aligned_repeat_computes_its_last_block_again(count: int, read: int) -> None:
    cache = BlockChain()
    call(cache, users(("a", count)))

    assert cache.serve(users(("a", count)), 0).read == read


def test_7_1_a_prompt_below_one_block_is_never_cached() -> None:
    cache = BlockChain()
    call(cache, users(("a", 15)))

    assert len(cache) == 0
    assert cache.serve(users(("a", 15), ("b", 100)), 0).read == 0
    assert cache.serve(users(), 0).fresh == 0


def test_7_1_a_block_is_hit_only_behind_all_blocks_before_it() -> None:
    cache = BlockChain()
    call(cache, users(("a", 16), ("b", 160)))

    assert cache.serve(users(("x", 16), ("b", 160)), 0).read == 0
    assert cache.serve(users(("a", 16), ("x", 16), ("b", 160)), 0).read == 16


def test_7_1_a_salt_in_the_first_block_parts_the_whole_chain() -> None:
    cache = BlockChain()
    call(cache, users(("a", 1_000), key="team-1"))

    assert cache.serve(users(("a", 1_000), key="team-2"), 0).read == 0
    assert cache.serve(users(("a", 1_000)), 0).read == 0
    assert cache.serve(users(("a", 1_000), key="team-1"), 0).read == 992


def test_7_1_blocks_filled_by_the_answer_are_kept_but_for_its_last_token() -> None:
    for generated, read in ((16, 32), (17, 48)):
        cache = BlockChain()
        call(cache, users(("a", 32)), generated=tokens("answer", generated))
        grown = users(("a", 32), ("answer", generated), ("b", 100))

        assert cache.serve(grown, 0).read == read


@pytest.mark.parametrize("rules", [MISTRAL, XAI, replace(VLLM, generated=False)])
def test_6_others_do_not_keep_answers(rules: BlockChainRules) -> None:
    cache = BlockChain(rules)
    call(cache, users(("a", 256), key="one"), generated=tokens("answer", 320))

    assert cache.serve(users(("a", 256), ("answer", 320), key="one"), 0).read == 256


def test_7_1_eight_calls_at_once_all_hit_a_warm_prefix_and_share_a_cold_one() -> None:
    cache = BlockChain()
    sent_prompt = [users(("stem", 2_000), (f"q{n}", 20)) for n in range(8)]
    reads = [cache.serve(one, 0).read for one in sent_prompt]

    assert reads == [0] + [2_000] * 7


@pytest.mark.parametrize(("rules", "read"), [(MISTRAL, 960), (XAI, 896)])
def test_6_elsewhere_blocks_are_shared_once_the_answer_has_begun(
    rules: BlockChainRules, read: int
) -> None:
    cache = BlockChain(rules)
    sent_prompt = users(("a", 1_000), key="one")
    cache.serve(sent_prompt, 0)

    assert cache.serve(sent_prompt, 0).read == 0
    cache.begin_answer(sent_prompt, 0)
    assert cache.serve(sent_prompt, 0).read == read


def test_7_1_the_least_recently_used_blocks_go_first_and_tails_before_heads() -> None:
    cache = BlockChain(replace(VLLM, blocks=15))
    call(cache, users(("a", 160)))
    call(cache, users(("b", 160)))

    assert len(cache) == 15
    probe = replace(VLLM, at_once=False)
    cache._rules = probe
    assert cache.serve(users(("b", 160), ("x", 1)), 0).read == 160
    assert cache.serve(users(("a", 160), ("x", 1)), 0).read == 80


def test_7_1_using_a_chain_keeps_it() -> None:
    cache = BlockChain(replace(VLLM, blocks=20))
    for name in ("a", "b", "a", "c"):
        call(cache, users((name, 160)))

    assert cache.serve(users(("a", 160), ("x", 1)), 0).read == 160


def test_6_a_lifetime_can_be_set_where_a_provider_has_one() -> None:
    cache = BlockChain(replace(XAI, lifetime=60))
    sent_prompt = users(("a", 1_000))
    call(cache, sent_prompt, now=0)

    assert call(cache, sent_prompt, now=60).read == 896
    assert call(cache, sent_prompt, now=120).read == 896
    assert call(cache, sent_prompt, now=181).read == 0


@pytest.mark.parametrize(("count", "cached"), [(63, 0), (64, 1)])
def test_6_mistral_caches_from_64_tokens(count: int, cached: int) -> None:
    cache = BlockChain(MISTRAL)
    call(cache, users(("a", count), key="one"))

    assert len(cache) == cached


def test_6_mistral_caches_nothing_without_a_key() -> None:
    cache = BlockChain(MISTRAL)
    call(cache, users(("a", 1_000)))

    assert len(cache) == 0
    assert cache.serve(users(("a", 1_000)), 0).read == 0


def test_7_1_replicas_share_nothing() -> None:
    one, other = BlockChain(), BlockChain()
    call(one, users(("a", 1_000)))

    assert other.serve(users(("a", 1_000)), 0).read == 0
