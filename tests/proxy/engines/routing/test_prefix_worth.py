from hypothesis import given
from hypothesis import strategies as st

from proxy.engines.routing.policy import DEFAULT_POLICY
from proxy.engines.routing.prefix_worth import RecentPrompts, prefix_worth
from proxy.engines.routing.prompt_chain import PromptChain

BLOCK = 256


def chain(*links: int) -> PromptChain:
    return PromptChain(links, BLOCK, BLOCK * len(links))


def noted_prompts(*prompts: tuple[int, ...]) -> RecentPrompts:
    noted = RecentPrompts()
    for links in prompts:
        noted.note(chain(*links))
    return noted


def test_a_prefix_that_all_calls_have_is_worth_nothing():
    calls = noted_prompts(*((1, 2, own) for own in range(100, 132)))
    worth = prefix_worth(chain(1, 2, 9), [2 * BLOCK, 0, 0, 0], calls, DEFAULT_POLICY)

    assert worth.missing_tokens(0) == 0
    assert worth.common_links == 2


def test_a_prefix_of_one_conversation_is_worth_far_more_than_its_tokens():
    calls = noted_prompts((1, 2, 3), *((own,) for own in range(100, 131)))
    worth = prefix_worth(chain(1, 2, 3), [3 * BLOCK, 0, 0, 0], calls, DEFAULT_POLICY)

    assert worth.missing_tokens(0) > 10 * 3 * BLOCK
    assert worth.common_links == 0


def test_of_a_conversation_with_common_tools_only_its_own_part_is_worth_waiting_for():
    calls = noted_prompts((1, 2, 3), *((1, 2, own) for own in range(100, 131)))
    worth = prefix_worth(chain(1, 2, 3), [3 * BLOCK, 2 * BLOCK, 0], calls, DEFAULT_POLICY)

    tools, own = worth.missing_tokens(0) - worth.missing_tokens(2 * BLOCK), worth.parts[-1]
    assert tools < own.weighted_tokens / 10


def test_earlier_turns_of_a_conversation_do_not_make_its_prefix_common():
    turns = [tuple(range(1, length)) for length in range(3, 20)]
    worth = prefix_worth(
        chain(*range(1, 20)), [18 * BLOCK, 0], noted_prompts(*turns), DEFAULT_POLICY
    )

    assert worth.missing_tokens(0) == 18 * BLOCK * DEFAULT_POLICY.rare_weight


def test_a_prompt_that_many_send_again_and_again_is_common():
    worth = prefix_worth(chain(1, 2), [2 * BLOCK, 0], noted_prompts(*[(1, 2)] * 20), DEFAULT_POLICY)

    assert worth.missing_tokens(0) == 0


def test_a_prefix_loses_worth_only_until_enough_replicas_hold_it():
    calls = noted_prompts(*((1, own) if own % 4 == 0 else (own,) for own in range(100, 132)))

    def weight(holders: int) -> float:
        matches = [BLOCK] * holders + [0] * (8 - holders)
        return prefix_worth(chain(1, 7), matches, calls, DEFAULT_POLICY).missing_tokens(0)

    assert weight(1) < weight(6) < weight(7)


def test_a_prefix_is_worth_less_the_more_of_the_prompt_has_to_be_read_anyway():
    calls = noted_prompts((1, 2), *((own,) for own in range(100, 131)))
    worth = prefix_worth(chain(1, 2, *range(10, 16)), [2 * BLOCK, 0], calls, DEFAULT_POLICY)

    assert worth.missing_tokens(0, 6 * BLOCK) == worth.missing_tokens(0) / 4
    assert worth.missing_tokens(2 * BLOCK, 6 * BLOCK) == 0


def test_prompts_of_which_nothing_is_held_are_worth_nothing():
    for prompt in (chain(1, 2), chain()):
        worth = prefix_worth(prompt, [0, 0], noted_prompts((1, 2)), DEFAULT_POLICY)
        assert (worth.missing_tokens(0), worth.common_links) == (0, 0)


@given(
    st.lists(st.lists(st.integers(1, 3), max_size=6), max_size=300),
    st.lists(st.integers(1, 3), min_size=1, max_size=6),
    st.lists(st.integers(0, 6), min_size=1, max_size=8),
)
def test_a_replica_that_holds_more_never_lacks_more(prompts, links, held):
    chained = [
        tuple(hash((tuple(prompt[: n + 1]),)) for n in range(len(prompt))) for prompt in prompts
    ]
    own = chain(*(hash((tuple(links[: n + 1]),)) for n in range(len(links))))
    matches = [min(count, len(links)) * BLOCK for count in held]
    worth = prefix_worth(own, matches, noted_prompts(*chained), DEFAULT_POLICY)

    missing = [worth.missing_tokens(match) for match in sorted(matches)]
    assert missing == sorted(missing, reverse=True)
    assert missing[-1] == 0
