"""Calls that begin with a prompt which was read ahead, and what they gained."""

from hypothesis import given
from hypothesis import strategies as st

from proxy.engines.routing.prompt_chain import PromptChain, chain_root, prompt_chain
from proxy.engines.warming.accounts import WarmingKind
from proxy.engines.warming.warmed_prefixes import WarmedPrefixes

SYSTEM, NEXT, TYPED = WarmingKind.SYSTEM_PROMPT, WarmingKind.NEXT_TURN, WarmingKind.TYPED


def chain(text: str) -> PromptChain:
    """A prompt in blocks of four letters, a token each letter."""
    return prompt_chain(chain_root("m", ""), text.encode(), len(text), block_bytes=4)


def test_a_call_that_begins_with_a_warmed_prompt_gained_what_was_computed_for_it():
    warmed = WarmedPrefixes()
    warmed.add(SYSTEM, chain("aaaabbbb"), 8)

    assert warmed.use(chain("aaaaccccdddd"), 4) == {}
    assert warmed.use(chain("aaaabbbbcccc"), 8) == {SYSTEM: 8}
    assert warmed.use(chain("aaaabbbbdddd"), 8) == {}


def test_a_call_gained_no_more_than_its_engine_read_from_the_cache():
    warmed = WarmedPrefixes()
    warmed.add(TYPED, chain("aaaa"), 4)
    warmed.add(TYPED, chain("aaaabbbb"), 4)
    warmed.add(NEXT, chain("aaaabbbbcccc"), 4)

    assert warmed.use(chain("aaaabbbbccccdddd"), 10) == {TYPED: 8, NEXT: 2}
    assert len(warmed) == 0


def test_a_warmed_prompt_that_the_engine_lost_gained_nothing():
    warmed = WarmedPrefixes()
    warmed.add(SYSTEM, chain("aaaa"), 4)

    assert warmed.use(chain("aaaabbbb"), 0) == {}


def test_prompts_shorter_than_a_block_or_for_which_nothing_was_computed_are_left_out():
    warmed = WarmedPrefixes()
    warmed.add(SYSTEM, chain("aaa"), 3)
    warmed.add(SYSTEM, chain("aaaa"), 0)

    assert len(warmed) == 0


@given(st.lists(st.text("ab", min_size=4, max_size=12), max_size=600))
def test_prompts_remembered_are_bounded_and_no_call_gains_more_than_it_read(texts):
    warmed = WarmedPrefixes()
    for number, text in enumerate(texts):
        warmed.add(TYPED, chain(f"{number:04d}{text}"), len(text))
        assert len(warmed) <= 256
    for number, text in enumerate(texts):
        assert sum(warmed.use(chain(f"{number:04d}{text}"), 3).values()) <= 3


def test_the_latest_256_warmed_prompts_are_remembered():
    warmed, sizes = WarmedPrefixes(), []
    for number in range(300):
        warmed.add(SYSTEM, chain(f"{number:04}"), 4)
        sizes.append(len(warmed))

    assert sizes[255] == sizes[299] == 256
