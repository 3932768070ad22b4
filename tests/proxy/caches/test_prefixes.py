from hypothesis import given
from hypothesis import strategies as st

from proxy.caches import prefixes
from proxy.caches.port import CachedPrompt, TokenBlock
from tests.proxy.caches.prompts import block, conversations, prompt, users


def test_a_digest_stands_for_the_owner_and_all_tokens_so_far() -> None:
    one = prefixes.block_ends(users(("a", 10), ("b", 5)))
    longer = prefixes.block_ends(users(("a", 10), ("b", 5), ("c", 1)))
    moved = prefixes.block_ends(users(("b", 5), ("a", 10)))

    assert [point.tokens for point in longer] == [10, 15, 16]
    assert longer[:2] == one
    assert moved[1].digest != one[1].digest


def test_cutting_a_prefix_into_other_blocks_changes_nothing() -> None:
    whole = prompt(block("a", 10))
    parts = prompt(*(TokenBlock(role="user", tokens=t, message=0) for t in _halves()))

    assert prefixes.block_ends(parts)[-1] == prefixes.block_ends(whole)[-1]


def _halves() -> tuple[tuple[int, ...], tuple[int, ...]]:
    tokens = block("a", 10).tokens
    return tokens[:4], tokens[4:]


@given(st.text(max_size=3), st.text(max_size=3), st.text(max_size=3), st.text(max_size=3))
def test_owners_are_the_same_only_when_scope_and_key_are(
    scope: str, key: str, other_scope: str, other_key: str
) -> None:
    one = prefixes.root_digest(prompt(scope=scope, key=key))
    other = prefixes.root_digest(prompt(scope=other_scope, key=other_key))

    assert (one == other) == ((scope, key) == (other_scope, other_key))


@given(conversations())
def test_cuts_at_the_ends_of_blocks_are_the_points(sent_prompt: CachedPrompt) -> None:
    points = prefixes.block_ends(sent_prompt)
    content = prefixes.prompt_bytes(sent_prompt)

    assert (
        prefixes.points_at_lengths(
            prefixes.root_digest(sent_prompt), content, [p.tokens for p in points]
        )
        == points
    )
    assert points[-1].tokens == len(content) // prefixes.WORD == sent_prompt.tokens


def test_a_chain_has_one_link_per_full_block() -> None:
    content = prefixes.prompt_bytes(users(("a", 100)))
    chain = prefixes.block_digests(b"root", content, 16)

    assert len(chain) == 6
    assert prefixes.block_digests(b"root", content[: 40 * prefixes.WORD], 16) == chain[:2]
    assert not set(prefixes.block_digests(b"other", content, 16)) & set(chain)


def test_chance_is_even_and_the_same_for_the_same_seed_and_parts() -> None:
    drawn = [prefixes.seeded_chance(1, bytes([n]), b"x") for n in range(250)]

    assert drawn == [prefixes.seeded_chance(1, bytes([n]), b"x") for n in range(250)]
    assert all(0 <= one < 1 for one in drawn)
    assert 0.4 < sum(drawn) / len(drawn) < 0.6
    assert prefixes.seeded_chance(2, b"a") != prefixes.seeded_chance(1, b"a")
