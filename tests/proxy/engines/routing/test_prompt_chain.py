from array import array

from hypothesis import given
from hypothesis import strategies as st

from proxy.engines.routing.prompt_chain import (
    block_links,
    chain_of_token_ids,
    chain_root,
    prompt_chain,
)

ROOT = chain_root("m", "acme")
SIZE = 64


def chain(content: bytes, root: int = ROOT):
    return prompt_chain(root, content, len(content) // 4, SIZE)


def test_prompts_share_links_up_to_the_block_in_which_they_differ():
    one, two = chain(b"a" * 300), chain(b"a" * 200 + b"b" * 100)

    assert [a == b for a, b in zip(one.links, two.links, strict=True)] == [True] * 3 + [False]


def test_prompts_of_other_organisations_or_models_share_no_link():
    content = b"a" * 300
    roots = [chain_root("m", "acme"), chain_root("m", "other"), chain_root("n", "acme")]
    chains = [chain(content, root) for root in roots]

    assert len({link for chain_ in chains for link in chain_.links}) == 3 * len(chains[0].links)


def test_an_owner_cannot_be_written_to_look_like_another():
    assert chain_root("a", "b") != chain_root("ab", "")


def test_a_prompt_shorter_than_a_block_has_no_links():
    assert chain(b"short").links == ()
    assert chain(b"").tokens_at(0) == 0


def test_tokens_of_a_match_are_never_more_than_the_prompt_has():
    made = chain(b"a" * 300)

    assert made.tokens_at(2) == 32
    assert made.tokens_at(100) == 75


def test_a_chain_of_token_ids_has_a_link_for_each_full_block():
    made = chain_of_token_ids(ROOT, array("I", range(70)).tobytes(), 16)

    assert (len(made.links), made.tokens, made.block_tokens) == (4, 70, 16)


@given(st.binary(max_size=400), st.binary(max_size=400), st.binary(max_size=300))
def test_prompts_have_exactly_the_links_of_the_full_blocks_with_which_both_begin_in_common(
    start, one, other
):
    ours, theirs = chain(start + one).links, chain(start + other).links
    shared = 0
    for a, b in zip(start + one, start + other, strict=False):
        if a != b:
            break
        shared += 1

    common = min(shared // SIZE, len(ours), len(theirs))
    assert ours[:common] == theirs[:common]
    assert not set(ours[common:]) & set(theirs[common:])


@given(st.binary(max_size=700), st.integers(0, 10))
def test_a_chain_goes_on_from_any_of_its_links(content, place):
    links = chain(content).links
    place = min(place, len(links))
    start = links[place - 1] if place else ROOT

    assert (*links[:place], *block_links(start, content[place * SIZE :], SIZE)) == links
