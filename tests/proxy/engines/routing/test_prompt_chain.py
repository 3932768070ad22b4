from array import array

from hypothesis import given
from hypothesis import strategies as st

from proxy.engines.routing.prompt_chain import ChainBuilder, chain_of_token_ids, chain_root

ROOT = chain_root("m", "acme")
SIZE = 64


def chain(content: bytes, builder: ChainBuilder | None = None, conversation: str = ""):
    made = builder or ChainBuilder(SIZE)
    return made.chain(ROOT, content, len(content) // 4, conversation)


def test_prompts_share_links_up_to_the_block_in_which_they_differ():
    one, two = chain(b"a" * 300), chain(b"a" * 200 + b"b" * 100)

    assert [a == b for a, b in zip(one.links, two.links, strict=True)] == [True] * 3 + [False]


def test_prompts_of_other_organisations_or_models_share_no_link():
    content = b"a" * 300
    roots = [chain_root("m", "acme"), chain_root("m", "other"), chain_root("n", "acme")]
    chains = [ChainBuilder(SIZE).chain(root, content, 75, "") for root in roots]

    assert len({link for each in chains for link in each.links}) == 3 * len(chains[0].links)


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


@given(st.lists(st.tuples(st.integers(0, 400), st.binary(max_size=300)), max_size=6))
def test_a_conversation_has_the_chain_of_its_prompt_whatever_was_hashed_before(turns):
    builder, content = ChainBuilder(SIZE), b""
    for cut, more in turns:
        content = content[:cut] + more

        assert chain(content, builder, "c") == chain(content)


def test_conversations_of_two_organisations_with_one_name_are_apart():
    builder, other = ChainBuilder(SIZE), chain_root("m", "other")
    chain(b"a" * 300, builder, "c")

    assert builder.chain(other, b"a" * 300, 75, "c").links != chain(b"a" * 300).links


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 800)), max_size=30))
def test_the_bytes_that_a_builder_keeps_are_bounded(calls):
    builder = ChainBuilder(SIZE, max_bytes=1_000)
    for conversation, length in calls:
        chain(b"x" * length, builder, str(conversation))

        assert builder.kept_bytes <= 1_000
        assert len(builder) <= 10


def test_a_prompt_larger_than_the_bound_is_not_kept():
    builder = ChainBuilder(SIZE, max_bytes=100)

    chain(b"x" * 1_000, builder, "c")

    assert (len(builder), builder.kept_bytes) == (0, 0)
