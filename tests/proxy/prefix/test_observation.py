"""Reuse observations and misses of answered calls."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.caches.anthropic_breakpoint import AnthropicBreakpoints
from proxy.caches.port import CachedPrompt
from proxy.caches.port import TokenBlock as CachedBlock
from proxy.caches.regime import Regime
from proxy.prefix.conversations import ConversationState
from proxy.prefix.explain.findings import CallEvidence
from proxy.prefix.explain.reasons import CacheMiss, MissReason, ProviderReason, ReasonConfidence
from proxy.prefix.observation import (
    CallObservation,
    explain_miss,
    lost_nanos,
    observe_call,
    provider_miss,
)
from proxy.prefix.planned import Planned
from proxy.prefix.prediction.changes import CallTraces
from proxy.prefix.prediction.prefix_chains import PrefixChainIndex
from proxy.prefix.prediction.sent_call import SentCall
from slo.price import TokenRates
from slo.usage import Usage
from tests.examples import examples
from tests.proxy.caches.prompts import tokens
from tests.proxy.prefix.planning_requests import (
    RULES,
    TARGETS,
    PlanningProcess,
    body,
    conversation_messages,
    planning_request,
)
from tests.proxy.prefix.sent_calls import ANTHROPIC, INTERVAL, VLLM, users

RATES = TokenRates(
    input=2_000_000_000, cache_read=200_000_000, write_5m=2_500_000_000, write_1h=4_000_000_000
)
LONG = RULES * 3


def evidence(call: SentCall, *before: SentCall) -> CallEvidence:
    chains, traces = PrefixChainIndex(), CallTraces()
    for earlier_call in before:
        chains.record_call(earlier_call, None, 0)
        traces.record_call(earlier_call, 0)
    return CallEvidence(
        sent=call, expected=chains.expect_read(call, 1), before=traces.previous_call(call), now=1
    )


@pytest.mark.parametrize(
    ("again", "new", "read"),
    [(1_600, 0, 1_520), (640, 0, 575), (1_600, 1_600, 1_280)],
    ids=["a twentieth", "64 tokens of a short prompt", "a fifth of what else there is"],
)
def test_a_little_less_than_could_be_read_is_an_error_of_estimates(again: int, new: int, read: int):
    call, before = (users(VLLM, ("a", again), (name, new)) for name in "bc")
    total = again + new

    for cache_read, is_miss in ((read, False), (read - 1, True)):
        usage = Usage(input=total - cache_read, cache_read=cache_read)
        assert (explain_miss(evidence(call, before), usage) is not None) is is_miss


def test_a_call_read_as_far_as_possible_has_no_miss():
    call = users(VLLM, ("a", 1_600))

    assert explain_miss(evidence(call, call), Usage(input=16, cache_read=1_584)) is None
    assert explain_miss(evidence(call, call), Usage(input=80, cache_read=1_520)) is None
    assert explain_miss(evidence(call), Usage(input=16, cache_read=1_584)) is None


def test_an_unknown_cache_and_an_empty_call_miss_nothing():
    call = users(Regime(), ("a", 1_600))

    assert explain_miss(evidence(call, call), Usage(input=1_600)) is None
    assert explain_miss(evidence(users(VLLM, ("a", 1_600))), Usage()) is None


def test_lost_tokens_are_readable_less_read_ones():
    call = users(VLLM, ("a", 1_600), ("b", 1_600))
    miss = explain_miss(evidence(call, call), Usage(input=2_600, cache_read=600))

    assert miss is not None
    assert miss.tokens == 3_199 - 600
    assert miss.nanos is None


def test_evidence_is_scaled_to_what_the_provider_counted():
    call = users(VLLM, ("a", 1_600), ("b", 1_600))
    miss = explain_miss(evidence(call, call), Usage(input=6_400), RATES)

    assert miss is not None
    assert miss.tokens == 6_399
    assert miss.nanos == 6_399 * 1_800


def test_interval_steps_of_a_cache_are_no_miss():
    call = users(INTERVAL, ("a", 5_000))

    assert explain_miss(evidence(call, call), Usage(input=1_500, cache_read=3_500)) is None
    assert explain_miss(evidence(call, call), Usage(input=5_000)) is not None


def test_a_provider_that_agrees_makes_the_reason_certain():
    call = users(VLLM, ("a", 1_600))
    reason = ProviderReason(MissReason.PROVIDER_SIDE, "it was evicted")
    miss = explain_miss(evidence(call, call), Usage(input=1_600), provider_reason=reason)

    assert miss is not None
    assert (miss.reason, miss.confidence) == (MissReason.PROVIDER_SIDE, ReasonConfidence.CERTAIN)


def test_the_reason_of_a_provider_that_knows_better_holds():
    call = users(VLLM, ("a", 1_600))
    reason = ProviderReason(MissReason.DIVERGED, "the tools changed")
    miss = explain_miss(evidence(call, call), Usage(input=1_600), provider_reason=reason)

    assert miss is not None
    assert miss.reason is MissReason.DIVERGED
    assert miss.detail == "the provider says the tools changed"


SAID = ProviderReason(MissReason.PARAMETER_CHANGED, "the model changed", 1_200)


def test_a_loss_that_only_the_provider_knows_is_a_miss():
    call = users(VLLM, ("a", 1_600))
    unread = explain_miss(evidence(call), Usage(input=1_600), RATES, provider_reason=SAID)
    read = Usage(input=1_500, cache_read=100)

    assert unread is not None
    assert (unread.reason, unread.tokens) == (MissReason.PARAMETER_CHANGED, 1_200)
    assert unread.nanos == 1_200 * 1_800
    assert explain_miss(evidence(call), read, RATES, provider_reason=SAID) == provider_miss(
        SAID, read, RATES
    )


def test_a_providers_lost_tokens_are_a_minimum_up_to_all_unread_ones():
    call = users(VLLM, ("a", 1_600))
    ours = explain_miss(evidence(call, call), Usage(input=1_600), provider_reason=SAID)
    capped = explain_miss(evidence(call), Usage(input=900), provider_reason=SAID)

    assert ours is not None
    assert capped is not None
    assert (ours.tokens, capped.tokens) == (1_599, 900)


@pytest.mark.parametrize(
    ("lost", "usage", "nanos"),
    [
        (0, Usage(input=5), 0),
        (1_000, Usage(input=1_000), 1_800_000),
        (1_000, Usage(write_5m=3_000), 2_300_000),
        (1_000, Usage(write_5m=500, input=2_000), 500 * 2_300 + 500 * 1_800),
        (1_000, Usage(write_5m=1_000, write_1h=1_000), 3_050_000),
        (1_000, Usage(write_30m=1_000), None),
    ],
)
def test_the_cost_of_a_miss_is_fresh_price_less_read_price(lost, usage, nanos):
    assert lost_nanos(lost, usage, RATES) == nanos


def test_a_miss_at_an_unknown_price_has_unknown_cost():
    usage = Usage(input=10)

    assert lost_nanos(5, usage, None) is None
    assert lost_nanos(5, usage, TokenRates(input=1)) is None
    assert lost_nanos(5, usage, TokenRates(cache_read=1)) is None


@examples(21, deadline=None)
@given(st.lists(st.integers(20, 900), min_size=3, max_size=12), st.integers(1, 299))
def test_a_conversation_that_is_marked_at_its_end_misses_nothing_after_its_first_call(sizes, gap):
    cache, chains, traces = AnthropicBreakpoints(), PrefixChainIndex(), CallTraces()
    for n in range(1, len(sizes) + 1):
        stretches = [
            ("rules", 2_000),
            *((f"m{index}", size) for index, size in enumerate(sizes[:n])),
        ]
        call = users(ANTHROPIC, *stretches, marks={n: "5m"}, conversation=b"one")
        blocks = [
            CachedBlock(role="user", tokens=tokens(f"{name}{size}", size), message=index)
            for index, (name, size) in enumerate(stretches)
        ]
        blocks[-1] = CachedBlock(role="user", tokens=blocks[-1].tokens, message=n, mark="5m")
        now = n * gap
        evidence = CallEvidence(
            sent=call,
            expected=chains.expect_read(call, now),
            before=traces.previous_call(call),
            now=now,
        )
        prompt = CachedPrompt(blocks=tuple(blocks))
        served = cache.serve(prompt, now)
        cache.begin_answer(prompt, now)
        usage = Usage(
            input=served.fresh, cache_read=served.read, write_5m=served.written.get("5m", 0)
        )

        miss = explain_miss(evidence, usage, RATES)
        assert (miss is None) == (n > 1)
        chains.record_call(call, usage, now)
        traces.record_call(call, now)


def test_a_miss_shows_our_reason_beside_the_providers():
    call, other = users(VLLM, ("a", 1_600)), users(VLLM, ("b", 1_600))
    ours = explain_miss(evidence(other, call), Usage(input=1_600))
    reason = ProviderReason(MissReason.PARAMETER_CHANGED, "the model changed")
    theirs = explain_miss(evidence(other, call), Usage(input=1_600), provider_reason=reason)
    same = ProviderReason(ours.reason, "the input changed") if ours is not None else reason
    agreed = explain_miss(evidence(other, call), Usage(input=1_600), provider_reason=same)

    assert ours is not None
    assert theirs is not None
    assert agreed is not None
    assert theirs.detail == f"the provider says the model changed; by our account {ours.detail}"
    assert agreed.detail == f"{ours.detail}; the provider says the input changed"
    assert (theirs.reason, agreed.confidence) == (
        MissReason.PARAMETER_CHANGED,
        ReasonConfidence.CERTAIN,
    )


def test_a_provider_that_sees_another_model_does_not_blame_the_caller_for_a_fallback():
    before, call = (
        msgspec.structs.replace(
            users(VLLM, ("a", 1_600)), early={"model": model}, asked_model=b'"m"', conversation=b"c"
        )
        for model in (b"a", b"b")
    )
    reason = ProviderReason(MissReason.PARAMETER_CHANGED, "the model changed")
    miss = explain_miss(evidence(call, before), Usage(input=1_600), provider_reason=reason)

    assert miss is not None
    assert (miss.reason, miss.confidence) == (MissReason.REROUTED, ReasonConfidence.CERTAIN)
    assert miss.detail.endswith("the provider says the model changed")


def test_the_providers_reason_stands_alone_without_our_account():
    reason = ProviderReason(MissReason.PARAMETER_CHANGED, "the model changed", 1_000)
    rates = TokenRates(input=1_000_000_000, cache_read=100_000_000)
    miss = provider_miss(reason, Usage(input=9_000), rates)

    assert miss == CacheMiss(
        reason=MissReason.PARAMETER_CHANGED,
        detail="the provider says the model changed",
        confidence=ReasonConfidence.LIKELY,
        tokens=1_000,
        nanos=900_000,
    )


@pytest.mark.parametrize(("tokens", "usage"), [(None, Usage(input=9_000)), (7, None)])
def test_the_cost_of_a_miss_is_unknown_without_usage(tokens: int | None, usage: Usage | None):
    miss = provider_miss(ProviderReason(MissReason.DIVERGED, "the tools changed", tokens), usage)

    assert miss is not None
    assert (miss.tokens, miss.nanos) == (tokens or 0, None)


def test_no_miss_where_the_provider_gives_no_reason():
    assert provider_miss(None, Usage(input=9_000)) is None


def test_lost_tokens_never_exceed_unread_ones():
    miss = provider_miss(
        ProviderReason(MissReason.DIVERGED, "", 9_000), Usage(input=100, cache_read=900), RATES
    )

    assert miss is not None
    assert miss.tokens == 100


def observe(process: PlanningProcess, turns: int, read: float | None = None) -> CallObservation:
    """Observation of a call after so many answers; None reads as many tokens as expected."""
    planned = process.plan(planning_request(body(*conversation_messages(turns, LONG))))
    states = process.planner.memory.of(planned.draft.request.team).states
    state = states.peek(planned.draft.conversation) or ConversationState()
    observation = observe_call(planned, usage_of(planned, read), state)
    process.planner.learn(planned, usage_of(planned, read))
    return observation


def usage_of(planned: Planned, read: float | None) -> Usage:
    total, expected = planned.evidence.sent.estimate, planned.evidence.expected.tokens
    count = int(expected if read is None else expected * read)
    return Usage(write_5m=total - count, cache_read=count)


def test_a_call_that_goes_on_says_how_far_its_conversation_came_and_what_it_repeats():
    process = PlanningProcess(TARGETS["anthropic-breakpoint"])
    first, second, third = (observe(process, turns) for turns in range(3))

    assert [evidence.before for evidence in (first, second, third)] == [0, 1, 2]
    assert [evidence.left_out for evidence in (first, second, third)] == [None, 0, 0]


def test_answers_in_a_prompt_that_nobody_knew_are_no_calls_of_its_conversation():
    observation = observe(PlanningProcess(TARGETS["anthropic-breakpoint"]), 4)

    assert observation.before == 0


@pytest.mark.parametrize(("gap_s", "is_silent"), [(0.9, True), (1.0, False)])
def test_a_call_sent_again_within_a_second_of_another_says_nothing_of_what_is_repeated(
    gap_s: float,
    is_silent: bool,  # noqa: FBT001 - a parameter
):
    planned = PlanningProcess(TARGETS["anthropic-breakpoint"]).plan(
        planning_request(body(*conversation_messages(0)))
    )
    state = ConversationState()
    state.record_call(planned.evidence.sent, planned.evidence.now - gap_s, tokens=9, turns=0)

    assert (observe_call(planned, None, state).left_out is None) is is_silent
