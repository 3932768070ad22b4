import pytest

from proxy.caches.regime import Regime
from proxy.prefix.breakpoints.plan import BreakpointPolicy
from proxy.prefix.breakpoints.policies import (
    conversation_cache_key,
    fixed_marks,
    marks_up_to,
    writes_unread_ends,
)
from proxy.prefix.prediction.sent_call import PromptStart
from tests.proxy.prefix.sent_calls import ANTHROPIC, INTERVAL, OPENAI

KEY = BreakpointPolicy(key="k")


def marks(
    regime: Regime, *, back: int = 0, explicit: bool = False, ends_early: bool = False
) -> tuple[str, int, int, bool]:
    """The lifetime of so many places, the blocks left out, and if OpenAI's choice is off."""
    marked_blocks = fixed_marks(
        regime, KEY, left_out=back, explicit=explicit, ends_early=ends_early
    )
    assert marked_blocks.key == "k"
    return (
        marked_blocks.ttl,
        marked_blocks.places,
        marked_blocks.back,
        marked_blocks.explicit,
    )


def test_every_place_is_marked_for_the_shortest_lifetime():
    assert marks(ANTHROPIC, back=2) == ("5m", 4, 2, False)


def test_openai_writes_the_end_by_itself():
    assert marks(OPENAI) == ("30m", 3, 0, False)


def test_openai_gets_a_mark_before_an_end_that_is_not_repeated():
    assert marks(OPENAI, back=1) == ("30m", 4, 1, False)


def test_openai_gets_a_mark_before_text_that_moved_into_a_users_message():
    assert marks(OPENAI, ends_early=True) == ("30m", 4, 0, False)


def test_openai_stores_no_conversation_where_its_own_choice_is_switched_off():
    assert marks(OPENAI, back=1, explicit=True) == ("30m", 3, 1, True)


def test_free_writes_need_no_marks():
    assert fixed_marks(INTERVAL, KEY, left_out=1, explicit=False) is KEY


def test_fewer_places_are_marked_from_the_end_on():
    marked_blocks = fixed_marks(ANTHROPIC, KEY, left_out=0, explicit=False)

    assert marks_up_to(marked_blocks, 4) is marked_blocks
    assert marks_up_to(marked_blocks, 1) == BreakpointPolicy(key="k", ttl="5m", places=1)
    assert marks_up_to(marks_up_to(marked_blocks, 1), 3).places == 1


def test_keys_route_or_are_left_out_as_the_cache_wants():
    def of(name: str, provider: str) -> str:
        return conversation_cache_key(Regime(name=name, provider=provider), "t", "f")

    assert of("block-chain", "mistral") == "t"
    assert of("block-chain", "xai") == "f"
    assert of("block-chain", "vllm") == of("implicit", "sglang") == ""
    assert of("implicit", "fireworks") == "t"
    assert of("prefix-unit", "deepseek") == of("implicit", "google") == ""
    assert of("anthropic-breakpoint", "anthropic") == ""


@pytest.mark.parametrize("name", ["openai-interval", "openai-breakpoint"])
@pytest.mark.parametrize("provider", ["openai", "azure"])
def test_openai_and_azure_route_by_the_prompt_alone_however_busy_a_prefix_is(name, provider):
    assert conversation_cache_key(Regime(name=name, provider=provider), "t", "f") == ""


def starts(*firsts: int) -> list[PromptStart]:
    return [PromptStart(tools=3, stable=4, head=first, first=first) for first in firsts]


def test_openai_writes_ends_that_are_not_read_once_six_calls_all_began_in_another_way():
    (now,) = starts(9)

    assert writes_unread_ends(OPENAI, starts(*range(6)), now)
    assert not writes_unread_ends(ANTHROPIC, starts(*range(6)), now)


@pytest.mark.parametrize(
    "firsts", [(1,), (1, 2, 3, 4, 5), (1, 1, 1, 2, 2, 2), (1, 2, 3, 4, 5, 1, 2, 3)]
)
def test_ends_of_few_calls_or_of_some_that_begin_alike_may_be_read(firsts):
    (now,) = starts(9)

    assert not writes_unread_ends(OPENAI, starts(*firsts), now)
