import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.caches.regime import Regime
from proxy.prefix.breakpoints.plan import BreakpointPolicy
from proxy.prefix.breakpoints.policies import (
    CacheKeySource,
    ConversationShape,
    blocks_left_unmarked,
    choose_policy,
    conversation_cache_key,
    decision_stage,
    policy_names,
    revise_policy,
    without_unread_marks,
)
from proxy.prefix.breakpoints.reuse_statistics import ExpectedUses, ReuseStatistics, SeenCall
from proxy.prefix.prediction.sent_call import PromptStart
from tests.proxy.prefix.sent_calls import ANTHROPIC, INTERVAL, OPENAI

ROAD = CacheKeySource(team="t", feature="f")
LONG = ConversationShape(stable=8_000, semi=500, history=300)


def test_policies_are_named_by_their_cache_and_stage_the_latest_first():
    kind = f"{OPENAI.name}/{OPENAI.provider}"

    assert list(policy_names(OPENAI, 2)) == [f"{kind}/2", f"{kind}/1", kind]
    assert list(policy_names(OPENAI, 0)) == [kind]
    assert policy_names(OPENAI, decision_stage(0, 10**6))[0] == f"{kind}/20"


def uses(
    stable: float = 0.0,
    semi: float = 0.0,
    history: float = 0.0,
    *,
    is_lone: bool = False,
) -> ExpectedUses:
    def both(count: float) -> dict[str, float]:
        return dict.fromkeys(("5m", "1h", "30m", "12h"), count)

    return ExpectedUses(
        stable=both(stable),
        semi=both(semi),
        history=both(history),
        is_lone=is_lone,
    )


def choose(
    found: ExpectedUses, regime: Regime = ANTHROPIC, shape: ConversationShape = LONG
) -> BreakpointPolicy:
    return choose_policy(shape, found, regime, ROAD)


def lifetimes(found: BreakpointPolicy) -> tuple[str, str, str]:
    return found.stable, found.semi, found.history


def test_text_that_will_not_be_read_again_is_not_marked():
    found = choose(uses())

    assert lifetimes(found) == ("", "", "")
    assert "nothing is expected" in found.why


def test_a_conversation_that_goes_on_marks_its_end_and_what_others_share():
    found = choose(uses(stable=0.3, history=3.0))

    assert lifetimes(found) == ("5m", "", "5m")
    assert "go on" in found.why


def test_a_question_asked_once_marks_what_others_share():
    found = choose(uses(stable=5.0, history=0.1))

    assert lifetimes(found) == ("5m", "", "")
    assert "other conversations" in found.why


def test_an_hour_is_bought_where_gaps_ask_for_it():
    patient = ExpectedUses(stable={}, semi={}, history={"5m": 0.2, "1h": 5.0})

    assert choose(patient).history == "1h"


def test_semi_stable_text_is_marked_where_the_conversation_is_rewritten():
    assert choose(uses(semi=3.0)).semi == "5m"


def test_a_stable_slot_under_the_least_is_not_marked_but_the_growing_conversation_is():
    short = ConversationShape(stable=200, semi=100, history=50)

    assert lifetimes(choose(uses(3.0, 3.0, 3.0), shape=short)) == ("", "", "5m")


def test_openai_writes_the_end_by_itself_and_the_stable_mark_is_free_then():
    found = choose(uses(history=3.0, is_lone=True), OPENAI)

    assert (lifetimes(found), found.explicit) == (("30m", "", ""), False)


def test_openai_is_told_to_write_only_what_others_share_once_questions_are_known_to_be_lone():
    found = choose(uses(stable=5.0, is_lone=True), OPENAI)

    assert (lifetimes(found), found.explicit) == (("30m", "", ""), True)


def test_openai_is_told_to_write_nothing_where_nothing_is_read_again():
    found = choose(uses(is_lone=True), OPENAI)

    assert (lifetimes(found), found.explicit) == (("", "", ""), True)


def test_openai_keeps_its_own_choice_while_nothing_is_known():
    found = choose(uses(stable=5.0), OPENAI)

    assert (lifetimes(found), found.explicit) == (("30m", "", ""), False)
    assert "too little is known" in found.why


def test_a_mark_pays_for_itself_where_a_caller_switched_openais_own_choice_off():
    unread = choose_policy(LONG, uses(), OPENAI, ROAD, explicit=True)
    shared = choose_policy(LONG, uses(stable=5.0), OPENAI, ROAD, explicit=True)

    assert choose(uses(), OPENAI).stable == "30m"
    assert (unread.stable, shared.stable) == ("", "30m")


def test_no_longer_lifetime_is_bought_at_openai_than_what_it_writes_anyway():
    patient = ExpectedUses(stable={}, semi={}, history={"30m": 0.2, "12h": 9.0})
    hour = ExpectedUses(stable={}, semi={}, history={"5m": 0.2, "1h": 9.0})

    assert choose(patient, OPENAI).history == ""
    assert choose(hour, ANTHROPIC).history == "1h"


def test_tools_alone_cannot_be_marked_at_openai():
    tools = ConversationShape(stable=8_000, history=300, ends_system=False)

    assert choose(uses(stable=5.0, history=3.0), OPENAI, tools).stable == ""
    assert choose(uses(stable=5.0, is_lone=True), OPENAI, tools).stable == ""
    assert choose(uses(stable=5.0), ANTHROPIC, tools).stable == "5m"


def test_short_stable_text_is_not_marked_at_openai():
    assert (
        choose(uses(history=3.0), OPENAI, ConversationShape(stable=500, history=900)).stable == ""
    )


def test_free_writes_need_no_marks():
    found = choose(uses(9.0, 9.0, 9.0), INTERVAL)

    assert (lifetimes(found), found.key) == (("", "", ""), "")


def test_once_a_conversation_went_on_the_first_call_of_the_next_is_marked_for_five_minutes():
    habits = ReuseStatistics()
    habits.observe(0.0, SeenCall(shares=False))
    habits.observe(10.0, SeenCall(before=1, gap=10.0))
    habits.observe(20.0, SeenCall())

    assert lifetimes(choose(habits.expected_uses(ANTHROPIC.lifetimes, is_open=True))) == (
        "5m",
        "5m",
        "5m",
    )


def test_the_first_lone_question_of_a_feature_never_marks_what_only_it_says():
    habits = ReuseStatistics()
    habits.observe(0.0, SeenCall())

    assert choose(habits.expected_uses(ANTHROPIC.lifetimes, is_open=False)).history == ""
    assert not choose(habits.expected_uses(OPENAI.lifetimes, is_open=False), OPENAI).explicit


def test_keys_route_or_are_left_out_as_the_cache_wants():
    def of(name: str, provider: str) -> str:
        return conversation_cache_key(Regime(name=name, provider=provider), ROAD)

    assert of("block-chain", "mistral") == "t"
    assert of("block-chain", "xai") == "f"
    assert of("block-chain", "vllm") == of("implicit", "sglang") == ""
    assert of("implicit", "fireworks") == "t"
    assert of("prefix-unit", "deepseek") == of("implicit", "google") == ""
    assert of("anthropic-breakpoint", "anthropic") == ""


@given(
    st.sampled_from([ANTHROPIC, OPENAI, INTERVAL, Regime()]),
    st.integers(0, 10**7),
    st.integers(0, 10**7),
    st.integers(0, 10**7),
    st.tuples(st.floats(0, 100), st.floats(0, 100), st.floats(0, 100)),
)
def test_a_policy_says_why_and_buys_what_is_sold(regime, stable, semi, history, expected):
    shape = ConversationShape(stable=stable, semi=semi, history=history)

    found = choose(uses(*expected), regime, shape)

    assert found.why
    assert set(lifetimes(found)) <= {"", *regime.writes}


def test_a_policy_is_decided_again_whenever_there_are_twice_as_many_answers():
    found = [decision_stage(turns) for turns in (0, 1, 2, 3, 4, 7, 8, 1_000)]

    assert found == [0, 1, 2, 2, 3, 3, 4, 4]


def test_a_first_call_that_comes_again_is_decided_apart():
    assert decision_stage(0, 1) not in {decision_stage(turns) for turns in range(1_000)}
    assert decision_stage(3, 9) == decision_stage(3)


@pytest.mark.parametrize("name", ["openai-interval", "openai-breakpoint"])
@pytest.mark.parametrize("provider", ["openai", "azure"])
def test_openai_and_azure_route_by_the_prompt_alone_however_busy_a_prefix_is(name, provider):
    assert conversation_cache_key(Regime(name=name, provider=provider), ROAD) == ""


def test_a_revised_policy_keeps_its_key_and_never_switches_openais_own_choice_off():
    before = BreakpointPolicy(key="a")
    found = revise_policy(BreakpointPolicy(stable="30m", explicit=True, key="b"), before)

    assert found == BreakpointPolicy(stable="30m", key="a")
    assert revise_policy(BreakpointPolicy(explicit=True), BreakpointPolicy(explicit=True)).explicit


EQUIPPED = ConversationShape(tools=5_000, stable=8_000, history=300)


def of_tools(count: float) -> ExpectedUses:
    return ExpectedUses(
        stable={}, semi={}, history={}, tools=dict.fromkeys(("5m", "1h", "30m"), count)
    )


def test_tools_are_marked_where_only_they_are_read_again():
    found = choose(of_tools(5.0), shape=EQUIPPED)

    assert (found.tools, lifetimes(found)) == ("5m", ("", "", ""))
    assert "tools (5m)" in found.why


def test_tools_are_not_marked_where_that_does_not_pay_or_cannot_be():
    alone, few = (
        ConversationShape(tools=5_000, stable=5_000),
        ConversationShape(tools=300, stable=8_000),
    )

    assert choose(of_tools(0.2), shape=EQUIPPED).tools == ""
    assert choose(of_tools(5.0), shape=few).tools == ""
    assert choose(of_tools(5.0), shape=alone).tools == ""
    assert choose(of_tools(5.0), OPENAI, EQUIPPED).tools == ""


EVERYWHERE = BreakpointPolicy(
    tools="5m", stable="5m", semi="5m", history="5m", key="k", why="It pays."
)
BEGAN = PromptStart(tools=3, stable=4, head=1, first=2)


def test_a_conversation_that_begins_as_before_is_marked_as_decided():
    assert without_unread_marks(EVERYWHERE, ANTHROPIC, [BEGAN], BEGAN) is EVERYWHERE


def test_behind_a_stable_slot_that_changes_nothing_is_marked():
    now = PromptStart(tools=3, stable=4, head=7, first=8)
    found = without_unread_marks(EVERYWHERE, ANTHROPIC, [BEGAN], now)

    assert (found.tools, lifetimes(found), found.key) == ("5m", ("", "", ""), "k")
    assert "begins in another way" in found.why


def test_where_only_what_follows_the_stable_slot_changes_that_stays_marked():
    found = without_unread_marks(
        EVERYWHERE, ANTHROPIC, [BEGAN], PromptStart(tools=3, stable=4, head=1, first=8)
    )

    assert lifetimes(found) == ("5m", "", "")
    assert not found.explicit


def begun(*firsts: int) -> list[PromptStart]:
    return [PromptStart(tools=3, stable=4, head=first, first=first) for first in firsts]


def test_openai_is_told_to_write_nothing_where_many_calls_all_begin_in_another_way():
    (now,) = begun(9)

    assert without_unread_marks(
        BreakpointPolicy(history="30m"), OPENAI, begun(*range(6)), now
    ).explicit
    assert without_unread_marks(
        BreakpointPolicy(key="k"), INTERVAL, begun(*range(6)), now
    ) == BreakpointPolicy(key="k")


@pytest.mark.parametrize("firsts", [(1,), (1, 2, 3), (1, 1, 1, 2, 2, 2), (1, 2, 3, 4, 5, 1, 2, 3)])
def test_openais_own_choice_stays_where_few_begin_otherwise_or_some_begin_alike(firsts):
    (now,) = begun(9)

    assert not without_unread_marks(
        BreakpointPolicy(history="30m"), OPENAI, begun(*firsts), now
    ).explicit


def test_callers_that_take_turns_in_one_conversation_each_go_on():
    helper = PromptStart(tools=0, stable=1, head=7, first=8)

    assert without_unread_marks(EVERYWHERE, ANTHROPIC, [BEGAN, helper], BEGAN) is EVERYWHERE
    assert without_unread_marks(EVERYWHERE, ANTHROPIC, [], BEGAN) is EVERYWHERE


def test_a_stable_slot_that_few_of_the_latest_calls_had_is_not_marked():
    others = [PromptStart(tools=3, stable=4, head=head, first=head) for head in (5, 6, 7)]
    now = PromptStart(tools=3, stable=4, head=7, first=8)

    assert without_unread_marks(EVERYWHERE, ANTHROPIC, others, now).stable == ""
    assert without_unread_marks(EVERYWHERE, ANTHROPIC, others[1:], now).stable == "5m"


WITHOUT_ITS_END = ConversationShape(stable=8_000, history=300, back=1)


def test_a_mark_leaves_out_what_is_not_repeated_where_more_is_read_of_it_then():
    assert blocks_left_unmarked([0.1, 0.9, 0.9], [300, 250, 200]) == 1
    assert blocks_left_unmarked([0.9, 0.95, 0.95], [300, 299, 200]) == 0
    assert blocks_left_unmarked([0.1, 0.9, 0.9], [300, 10, 0]) == 0
    assert blocks_left_unmarked([0.1, 0.9], [0, 0]) == 0


def test_blocks_left_unmarked_are_part_of_the_policy():
    found = choose(uses(history=3.0), shape=WITHOUT_ITS_END)

    assert (found.history, found.back) == ("5m", 1)
    assert "without its last 1 block:" in found.why
    assert choose(uses(), shape=WITHOUT_ITS_END).back == 0


def test_openais_own_choice_stays_beside_a_mark_before_an_end_that_is_not_repeated():
    found = choose(uses(history=3.0), OPENAI, WITHOUT_ITS_END)

    assert (found.history, found.back, found.explicit) == ("30m", 1, False)
