from array import array

from hypothesis import given
from hypothesis import strategies as st

from proxy.engines.routing.kv_events import (
    AllBlocksCleared,
    BlockRemoved,
    BlockStored,
    KvEventIndex,
)
from proxy.engines.routing.prompt_chain import PromptChain, chain_of_token_ids, chain_root

BLOCK = 4
TOKENS = tuple(range(100, 113))


def prompt(tokens: tuple[int, ...] = TOKENS, salt: str = "") -> PromptChain:
    return chain_of_token_ids(chain_root("m", salt), array("I", tokens).tobytes(), BLOCK)


def block_stored(
    hashes: tuple[int, ...], start: int = 0, parent: int | None = None, salt: str = ""
):
    return BlockStored(
        block_hashes=hashes,
        parent_block_hash=parent,
        token_ids=TOKENS[start : start + BLOCK * len(hashes)],
        block_size=BLOCK,
        cache_salt=salt,
    )


def test_stored_blocks_are_matched_by_the_tokens_they_hold():
    index = KvEventIndex("m", 100)

    index.apply(0, [block_stored((11, 12))])

    assert index.matched_tokens(prompt()) == 8
    assert index.matched_tokens(prompt((*TOKENS[:4], 1, 2, 3, 4))) == 4
    assert index.matched_tokens(prompt(())) == 0


def test_blocks_stored_later_go_on_from_their_parent():
    index = KvEventIndex("m", 100)

    index.apply(0, [block_stored((11,)), block_stored((12, 13), 4, 11)])

    assert index.matched_tokens(prompt()) == 12


def test_blocks_of_another_salt_do_not_match():
    index = KvEventIndex("m", 100)

    index.apply(0, [block_stored((11,), salt="acme")])

    assert index.matched_tokens(prompt()) == 0
    assert index.matched_tokens(prompt(salt="acme")) == 4


def test_removed_blocks_and_cleared_caches_match_no_more():
    index = KvEventIndex("m", 100)
    index.apply(0, [block_stored((11, 12, 13)), BlockRemoved(block_hashes=(13, 99))])
    assert index.matched_tokens(prompt()) == 8

    index.apply(1, [AllBlocksCleared()])

    assert (index.matched_tokens(prompt()), len(index)) == (0, 0)


def test_after_a_lost_batch_nothing_older_is_known():
    index = KvEventIndex("m", 100)
    assert index.apply(5, [block_stored((11,))])

    assert not index.apply(7, [block_stored((12,), 4, 11)])

    assert index.matched_tokens(prompt()) == 0
    assert index.apply(8, [block_stored((11,))])
    assert index.matched_tokens(prompt()) == 4


@given(st.lists(st.lists(st.integers(0, 60), min_size=1, max_size=3, unique=True), max_size=40))
def test_an_index_never_holds_more_blocks_than_the_engine_has_room_for(batches):
    index = KvEventIndex("m", 10)
    for sequence, hashes in enumerate(batches):
        index.apply(sequence, [block_stored(tuple(hashes))])

        assert len(index) <= 10


def test_an_index_is_complete_once_nothing_older_can_be_held():
    from_start, later, cleared = (KvEventIndex("m", 3) for _ in range(3))
    from_start.apply(0, [])
    later.apply(9, [block_stored((11,))])
    cleared.apply(9, [AllBlocksCleared()])

    assert from_start.is_complete
    assert cleared.is_complete
    assert not later.is_complete
    later.apply(10, [block_stored((12, 13), 4, 11)])
    assert later.is_complete
    later.apply(12, [])
    assert not later.is_complete
    from_start.apply(5, [])
    assert not from_start.is_complete
    from_start.apply(0, [block_stored((11,))])
    assert from_start.is_complete
    assert (from_start.block_size, len(from_start)) == (BLOCK, 1)
