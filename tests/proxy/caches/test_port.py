"""Tests of what every cache keeps to, whatever its rules."""

from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.caches.anthropic_breakpoint import AnthropicBreakpoints, AnthropicRules
from proxy.caches.block_chain import MISTRAL, BlockChain
from proxy.caches.longest_prefix import GROQ, LongestPrefix
from proxy.caches.longest_prefix import LongestPrefixRules as PrefixRules
from proxy.caches.openai_breakpoint import OpenAIBreakpointRules as BreakpointRules
from proxy.caches.openai_breakpoint import OpenAIBreakpoints
from proxy.caches.openai_interval import OpenAIIntervalRules as IntervalRules
from proxy.caches.openai_interval import OpenAIIntervals
from proxy.caches.port import Cache, CachedPrompt, TokenBlock
from proxy.caches.prefix_unit import PrefixUnitRules as UnitRules
from proxy.caches.prefix_unit import PrefixUnits
from proxy.caches.slots import ServerSlots, SlotRules
from tests.examples import examples
from tests.proxy.caches.prompts import (
    block,
    call,
    conversations,
    prompt,
    tokens,
    users,
    written_tokens,
)

CACHES: dict[str, Callable[[], Cache]] = {
    "openai breakpoints": OpenAIBreakpoints,
    "openai breakpoints from one token": lambda: OpenAIBreakpoints(BreakpointRules(least=1)),
    "openai intervals": lambda: OpenAIIntervals(IntervalRules(interval=256)),
    "anthropic breakpoints": AnthropicBreakpoints,
    "anthropic breakpoints from one token": lambda: AnthropicBreakpoints(AnthropicRules(least=1)),
    "block chain": BlockChain,
    "block chain of mistral": lambda: BlockChain(MISTRAL),
    "prefix units": PrefixUnits,
    "prefix units at once": lambda: PrefixUnits(UnitRules(build=0)),
    "radix tree": LongestPrefix,
    "implicit prefixes": lambda: LongestPrefix(GROQ),
    "slots": lambda: ServerSlots(SlotRules(similarity=0.0)),
}
#: Each property is tried on every cache, so fewer examples each will do.
few = examples(12)
every_cache = pytest.mark.parametrize("make", CACHES.values(), ids=CACHES)

SMALL: dict[str, tuple[Callable[[], Cache], int]] = {
    "openai breakpoints": (lambda: OpenAIBreakpoints(BreakpointRules(least=1, most=5)), 5),
    "openai intervals": (
        lambda: OpenAIIntervals(IntervalRules(interval=128, least=128, machines=2, most=5)),
        10,
    ),
    "anthropic breakpoints": (lambda: AnthropicBreakpoints(AnthropicRules(least=1, most=5)), 5),
    "block chain": (lambda: BlockChain(replace(MISTRAL, blocks=5)), 5),
    "prefix units": (lambda: PrefixUnits(UnitRules(most=5, endings=2)), 10),
    "radix tree": (lambda: LongestPrefix(PrefixRules(room=3_000)), 3_000),
}


def with_last_marked(sent_prompt: CachedPrompt) -> CachedPrompt:
    *blocks, last = sent_prompt.blocks
    return replace(sent_prompt, blocks=(*blocks, replace(last, mark="5m")))


def as_sent_by_caller(make: Callable[[], Cache], sent_prompt: CachedPrompt) -> CachedPrompt:
    """The prompt as a caller of this cache would send it: Anthropic's marks its last block."""
    return (
        with_last_marked(sent_prompt) if isinstance(make(), AnthropicBreakpoints) else sent_prompt
    )


def paid(cache: Cache, sent_prompt: CachedPrompt, now: float) -> float:
    """The cost of a call, where writes are a quarter dearer and reads a tenth."""
    served = call(cache, sent_prompt, now)
    return served.fresh + 1.25 * written_tokens(served) + 0.1 * served.read


@pytest.mark.slow
@every_cache
@few
@given(dialogues=st.lists(conversations(), min_size=1, max_size=6))
def test_read_written_and_fresh_tokens_add_up_to_the_prompt(
    make: Callable[[], Cache], dialogues: list[CachedPrompt]
) -> None:
    cache = make()
    for now, talk in enumerate(dialogues):
        sent_prompt = as_sent_by_caller(make, talk)
        served = call(cache, sent_prompt, now * 10, tokens("answer", 40))

        assert served.read + served.fresh + written_tokens(served) == sent_prompt.tokens
        assert min(served.read, served.fresh, *served.written.values(), 0) == 0


@pytest.mark.slow
@every_cache
@few
@given(before=st.lists(conversations(), max_size=3), talk=conversations())
def test_a_repeat_within_the_lifetime_never_costs_more_than_the_first(
    make: Callable[[], Cache], before: list[CachedPrompt], talk: CachedPrompt
) -> None:
    cache = make()
    for now, one in enumerate(before):
        call(cache, as_sent_by_caller(make, one), now)
    sent_prompt = as_sent_by_caller(make, talk)
    first = paid(cache, sent_prompt, 10)

    assert paid(cache, sent_prompt, 20) <= first


@every_cache
@few
@given(talk=conversations())
def test_cache_never_serves_another_scope_or_key(
    make: Callable[[], Cache], talk: CachedPrompt
) -> None:
    cache = make()
    sent_prompt = as_sent_by_caller(make, talk)
    call(cache, sent_prompt, 0)

    assert cache.serve(replace(sent_prompt, scope="elsewhere"), 10).read == 0
    assert cache.serve(replace(sent_prompt, key="another"), 10).read == 0


@every_cache
@few
@given(sizes=st.lists(st.integers(1, 900), min_size=1, max_size=8))
def test_a_growing_conversation_reads_ever_more(
    make: Callable[[], Cache], sizes: list[int]
) -> None:
    cache = make()
    reads = []
    for turn in range(len(sizes)):
        talk = users(*((f"turn {n}", size) for n, size in enumerate(sizes[: turn + 1])))
        reads.append(call(cache, as_sent_by_caller(make, talk), now=turn * 10).read)

    assert reads == sorted(reads)


@pytest.mark.slow
@given(st.lists(conversations(), max_size=4), conversations())
def test_2_1_anthropic_reads_nothing_that_has_not_begun(
    failed: list[CachedPrompt], talk: CachedPrompt
) -> None:
    cache = AnthropicBreakpoints(AnthropicRules(least=1))
    for one in failed:
        cache.serve(with_last_marked(one), 0)

    assert cache.serve(with_last_marked(talk), 1).read == 0


@given(talk=conversations(), lengths=st.lists(st.sampled_from([0, 4, 9]), max_size=3))
def test_2_1_anthropic_reads_end_only_where_something_was_written(
    talk: CachedPrompt, lengths: list[int]
) -> None:
    cache = AnthropicBreakpoints(AnthropicRules(least=1))
    ends = {0}
    for length in lengths:
        part = with_last_marked(replace(talk, blocks=talk.blocks[: length + 1]))
        call(cache, part, 0)
        ends.add(part.tokens)

    assert cache.serve(with_last_marked(talk), 1).read in ends


@pytest.mark.slow
@pytest.mark.parametrize(("make", "max_entries"), SMALL.values(), ids=SMALL)
@few
@given(dialogues=st.lists(conversations(), max_size=8))
def test_the_entries_of_a_cache_are_bounded(
    make: Callable[[], Cache], max_entries: int, dialogues: list[CachedPrompt]
) -> None:
    cache = make()
    for now, talk in enumerate(dialogues):
        call(cache, as_sent_by_caller(make, talk), now, tokens("answer", 200))

        assert len(cache) <= max_entries  # type: ignore[arg-type]  # all of these have a length


@every_cache
def test_an_empty_prompt_is_served_as_nothing(make: Callable[[], Cache]) -> None:
    served = call(make(), prompt())

    assert (served.read, served.fresh, served.written) == (0, 0, {})


def test_a_prompt_counts_its_tokens() -> None:
    assert prompt(block("a", 3), TokenBlock(role="user", tokens=(), message=1)).tokens == 3
