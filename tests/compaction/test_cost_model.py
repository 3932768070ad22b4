"""The gate against calls that are counted one by one, and against the design's own figures."""

from dataclasses import dataclass
from math import ceil, inf

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from compaction.cost_model import (
    STRICT_SAFETY_FACTOR,
    CompactionReason,
    CostInputs,
    ShownCut,
    break_even_calls,
    call_savings,
    decide_by_built_segment,
    decide_compaction,
    high_water_tokens,
    optimal_period_calls,
    repayment_calls,
    rewrite_cost,
)
from compaction.policy import CompactionPolicy, RelativePrices
from tests.compaction.cost_cases import CLAUDE, FIELD, OLD, UNCACHED

CLAUDE_5_5 = RelativePrices(read=0.05, write=1.25)
GEMINI = RelativePrices(read=0.1, write=1.0)
GPT_4_1 = RelativePrices(read=0.25, write=1.0)
CODING = CostInputs(
    calls=80,
    calls_since=80,
    fixed=25_000,
    earlier_segments=0,
    region=120_000,
    segment=5_000,
    tail=20_000,
    growth=1_500,
)


@pytest.mark.parametrize(
    ("prices", "inputs", "calls"),
    [
        (CLAUDE, FIELD, 2.6),
        (CLAUDE_5_5, FIELD, 5.3),
        (GEMINI, FIELD, 2.0),
        (GPT_4_1, FIELD, 0.7),
        (CLAUDE, CODING, 2.5),
    ],
)
def test_calls_that_pay_a_compaction_back_are_the_designs(prices, inputs, calls):
    assert round(break_even_calls(prices, inputs), 1) == calls


@pytest.mark.parametrize(
    ("policy", "tokens", "is_due"),
    [
        (CompactionPolicy(prices=CLAUDE), 7_300, True),
        (CompactionPolicy(prices=CLAUDE), 7_400, False),
        (CompactionPolicy(prices=CLAUDE, target=10_300), 7_300, False),
    ],
    ids=["up to 5 % longer", "longer", "its size is a guess"],
)
def test_decision_by_a_likely_size_stands_where_the_built_segment_is_hardly_longer(
    policy, tokens, is_due
):
    likely = replace(FIELD, segment=7_000, growth=0)
    calls = ceil(10 * repayment_calls(CLAUDE, likely))
    likely = replace(likely, calls=calls, calls_since=calls)
    built = replace(likely, segment=tokens)

    assert decide_compaction(policy, likely).is_due
    assert not decide_compaction(policy, built).is_due
    assert decide_by_built_segment(policy, built, likely).is_due is is_due


def test_clearing_a_little_in_the_middle_hardly_ever_pays():
    cleared = replace(FIELD, region=4_000, segment=0, tail=30_000)

    assert round(break_even_calls(CLAUDE, cleared)) == 86


def test_a_model_that_is_asked_makes_a_compaction_dearer():
    model_cost = 0.05 * (
        9_600 + 5 * 600
    )  # a model at a twentieth of the price, output at five times

    assert round(break_even_calls(CLAUDE, FIELD, model_cost), 1) == 3.3


def test_without_a_cache_a_compaction_is_paid_back_at_once():
    assert break_even_calls(UNCACHED, FIELD) == 0
    assert decide_compaction(
        CompactionPolicy(prices=UNCACHED), replace(FIELD, calls=4, calls_since=4)
    ).is_due


def test_the_high_water_mark_is_the_designs():
    assert round(high_water_tokens(CLAUDE, FIELD), -2) == 8_300
    assert round(high_water_tokens(CLAUDE, CODING), -3) == 79_000


def test_about_nine_calls_lie_between_two_compactions_of_the_fields_case():
    assert round(optimal_period_calls(CLAUDE, FIELD)) == 9


def test_nothing_is_free_where_reading_costs_nothing():
    free = RelativePrices(read=0.0, write=1.0)

    assert break_even_calls(free, FIELD) == inf
    assert optimal_period_calls(free, FIELD) == inf
    assert high_water_tokens(free, FIELD) == inf
    assert repayment_calls(free, FIELD) == inf
    assert decide_compaction(CompactionPolicy(prices=free), OLD).break_even is None


def _cost_of_calls(
    prices: RelativePrices, inputs: CostInputs, calls: int, *, compacts: bool
) -> float:
    """The cost of so many calls with a warm cache; the first writes the fresh suffix either way."""
    front = inputs.fixed + inputs.earlier_segments
    raw = front + inputs.region + inputs.tail
    if not compacts:
        return (
            prices.read * (raw - inputs.fresh)
            + prices.write * inputs.fresh
            + prices.read * raw * (calls - 1)
        )
    short = raw - inputs.gain
    first = prices.read * front + prices.write * (inputs.segment + inputs.tail)
    return first + prices.read * short * (calls - 1)


@given(
    region=st.integers(1_000, 200_000),
    share=st.floats(0.0, 0.9),
    tail=st.integers(1, 50_000),
    fresh=st.floats(0.0, 1.0),
    read=st.floats(0.02, 1.0),
    write=st.floats(1.0, 2.0),
)
def test_break_even_is_the_first_call_at_which_counting_says_so(
    region, share, tail, fresh, read, write
):
    prices = RelativePrices(read=read, write=write)
    inputs = replace(
        FIELD, region=region, segment=int(share * region), tail=tail, fresh=int(fresh * tail)
    )
    needed = break_even_calls(prices, inputs)
    after = max(ceil(needed * (1 + 1e-9)), 1)

    assert _cost_of_calls(prices, inputs, after, compacts=True) <= _cost_of_calls(
        prices, inputs, after, compacts=False
    ) * (1 + 1e-9)
    if needed > 1:
        before = ceil(needed * (1 - 1e-9)) - 1
        if before >= 1:
            assert _cost_of_calls(prices, inputs, before, compacts=True) >= _cost_of_calls(
                prices, inputs, before, compacts=False
            ) * (1 - 1e-9)


@given(
    calls=st.integers(1, 500),
    calls_since=st.integers(1, 500),
    fixed=st.integers(0, 50_000),
    earlier_segments=st.integers(0, 50_000),
    region=st.integers(0, 200_000),
    segment=st.integers(0, 200_000),
    tail=st.integers(0, 50_000),
    growth=st.floats(0, 10_000),
    bank=st.floats(-1e6, 1e6),
    failed=st.integers(0, 200_000),
    policy=st.builds(
        CompactionPolicy,
        prices=st.sampled_from(
            [CLAUDE, CLAUDE_5_5, GEMINI, GPT_4_1, UNCACHED, RelativePrices(read=0.0)]
        ),
        target=st.sampled_from([0, 3_000, 100_000]),
        window=st.sampled_from([0, 8_000, 200_000]),
        force=st.booleans(),
    ),
)
def test_no_decision_makes_a_prompt_longer_or_contradicts_itself(policy, **figures):
    inputs = CostInputs(**figures)
    decision = decide_compaction(policy, inputs)

    assert decision.is_due == (
        decision.reason
        in {
            CompactionReason.PAYS,
            CompactionReason.BANKED,
            CompactionReason.FORCED,
            CompactionReason.WINDOW,
        }
    )
    if decision.is_due:
        assert inputs.gain > 0
    assert decision == decide_compaction(policy, inputs)


@dataclass
class SimulatedConversation:
    """A conversation under way: what was sent, and what it would have cost unmodified."""

    sent: float = 0.0
    unmodified: float = 0.0
    bank: float = 0.0


@given(
    steps=st.lists(st.integers(200, 6_000), min_size=5, max_size=60),
    trim=st.floats(0.02, 0.4),
    share=st.floats(0.05, 0.4),
    prices=st.sampled_from([CLAUDE, CLAUDE_5_5, GEMINI, GPT_4_1]),
)
def test_compactions_that_the_bank_pays_never_make_a_session_dearer_wherever_it_ends(
    steps, trim, share, prices
):
    conversation = SimulatedConversation()
    raw = sent_tokens = compacted = cut = last = 0
    for call, step in enumerate(steps, 1):
        new = int(step * (1 - trim))
        conversation.bank += call_savings(prices, raw - sent_tokens, step - new)
        conversation.unmodified += prices.read * raw + prices.write * step
        conversation.sent += prices.read * sent_tokens + prices.write * new
        raw, sent_tokens = raw + step, sent_tokens + new
        region = sent_tokens - compacted - new - cut
        inputs = CostInputs(
            calls=call,
            calls_since=call - last,
            fixed=0,
            earlier_segments=compacted,
            region=max(region, 0),
            segment=int(share * max(region, 0)),
            tail=new,
            fresh=new,
            growth=float(new),
            bank=conversation.bank,
        )
        if (
            decide_compaction(CompactionPolicy(prices=prices), inputs).reason
            is CompactionReason.BANKED
        ):
            conversation.bank += call_savings(prices, inputs.gain, 0) - rewrite_cost(prices, inputs)
            conversation.sent += rewrite_cost(prices, inputs) - prices.read * inputs.gain
            compacted, sent_tokens, last = (
                compacted + inputs.segment,
                sent_tokens - inputs.gain,
                call,
            )

        assert conversation.sent <= conversation.unmodified + 1e-6
        assert conversation.bank == pytest.approx(
            conversation.unmodified - conversation.sent, abs=1e-3
        )


def test_a_conversation_that_went_on_long_is_compacted():
    assert decide_compaction(CompactionPolicy(prices=CLAUDE), OLD).reason is CompactionReason.PAYS


@pytest.mark.parametrize(
    ("safety", "calls", "reason"),
    [
        (0.0, 25, CompactionReason.DOES_NOT_PAY),
        (0.0, 26, CompactionReason.PAYS),
        (STRICT_SAFETY_FACTOR, 76, CompactionReason.DOES_NOT_PAY),
        (STRICT_SAFETY_FACTOR, 77, CompactionReason.PAYS),
    ],
)
def test_a_compaction_has_to_be_paid_back_ten_times_or_thirty_by_the_strict_rule(
    safety, calls, reason
):
    """Calls that pay it back: 1.15 x 2,000 tokens written, 0.1 x 9,000 saved, so 2.56."""
    session = replace(FIELD, calls=calls, calls_since=calls)
    policy = CompactionPolicy(prices=CLAUDE, safety=safety)

    assert decide_compaction(policy, session).reason is reason


@pytest.mark.parametrize(
    ("calls", "reason"), [(12, CompactionReason.DOES_NOT_PAY), (13, CompactionReason.BANKED)]
)
def test_the_bank_pays_for_a_compaction_that_would_be_paid_back_five_times(calls, reason):
    session = replace(FIELD, calls=calls, calls_since=calls, bank=rewrite_cost(CLAUDE, FIELD))

    assert decide_compaction(CompactionPolicy(prices=CLAUDE), session).reason is reason
    assert repayment_calls(CLAUDE, session) == 0


def test_a_conversation_that_may_end_before_the_payback_is_not_compacted():
    young = replace(FIELD, calls=25, calls_since=25)
    decision = decide_compaction(CompactionPolicy(prices=CLAUDE), young)

    assert decision.reason is CompactionReason.DOES_NOT_PAY
    assert decision.break_even == pytest.approx(2.6, abs=0.05)


def test_no_compaction_makes_a_prompt_too_short_to_be_cached():
    picky = replace(CLAUDE, least=3_001)

    assert (
        decide_compaction(CompactionPolicy(prices=picky), OLD).reason
        is CompactionReason.BELOW_LEAST
    )
    assert decide_compaction(CompactionPolicy(prices=replace(CLAUDE, least=3_000)), OLD).is_due


def test_a_prefix_too_short_to_be_read_is_written_too():
    alone, read = replace(GEMINI, least=FIELD.fixed + 1), replace(GEMINI, least=FIELD.fixed)

    assert rewrite_cost(read, FIELD) == rewrite_cost(GEMINI, FIELD)
    assert rewrite_cost(alone, FIELD) == pytest.approx(
        rewrite_cost(GEMINI, FIELD) + 0.9 * FIELD.fixed
    )


def test_a_prefix_that_no_cache_reads_by_itself_is_written_too():
    steps, whole = replace(GEMINI, block=768), replace(GEMINI, block=0)

    assert rewrite_cost(steps, FIELD) == pytest.approx(
        rewrite_cost(GEMINI, FIELD) + 0.9 * (FIELD.fixed - 768)
    )
    assert rewrite_cost(whole, FIELD) == pytest.approx(
        rewrite_cost(GEMINI, FIELD) + 0.9 * FIELD.fixed
    )


def test_regrowth_of_the_suffix_is_written_and_is_no_gain():
    returning = replace(FIELD, regrowth=500)

    assert returning.total == FIELD.total
    assert returning.gain == FIELD.gain - 500
    assert rewrite_cost(CLAUDE, returning) == pytest.approx(
        rewrite_cost(CLAUDE, FIELD) + 1.15 * 500
    )
    all_of_it = replace(OLD, regrowth=OLD.gain)
    assert (
        decide_compaction(CompactionPolicy(prices=CLAUDE, force=True), all_of_it).reason
        is CompactionReason.NO_PROGRESS
    )


def test_a_bank_that_owes_is_made_good_before_the_next_compaction():
    owing = replace(FIELD, bank=-10_000.0)

    assert repayment_calls(CLAUDE, owing) > break_even_calls(CLAUDE, owing)


def test_a_cut_of_a_shown_result_writes_what_stays_of_it():
    cut = ShownCut(ahead=5_000, before=8_000, after=5_200)

    assert cut.cost(CLAUDE) == pytest.approx(1.15 * 200)
    assert cut.pays(CLAUDE, 0.0, calls=1)


def test_a_cut_is_paid_by_what_was_saved_and_soon_paid_back():
    cut = ShownCut(ahead=5_000, before=6_000, after=5_140)  # costs 161, saves 86 a call

    assert not cut.pays(CLAUDE, 70.0, calls=1)
    assert cut.pays(CLAUDE, 80.0, calls=1)


def test_a_slower_cut_pays_once_twice_as_many_calls_were_made_as_pay_it_back():
    cut = ShownCut(ahead=5_000, before=6_000, after=5_300)  # costs 345, saves 70 a call

    assert not cut.pays(CLAUDE, 1e9, calls=9)
    assert cut.pays(CLAUDE, 1e9, calls=10)
    assert not cut.pays(CLAUDE, 270.0, calls=100)


def test_a_cut_that_shortens_nothing_does_not_pay():
    assert not ShownCut(ahead=10, before=10, after=10).pays(CLAUDE, 1e9, calls=100)


def test_a_cut_on_a_cache_of_whole_prompts_reads_the_prompt_before():
    cut = ShownCut(ahead=5_000, before=8_000, after=5_200)

    assert cut.cost(replace(CLAUDE, block=0)) == pytest.approx(1.15 * 200)


def test_a_cut_on_a_cache_of_coarse_steps_writes_from_the_last_step_on():
    cut = ShownCut(ahead=5_000, before=8_200, after=5_200)  # 904 of 5,000; 8 are unread before

    assert cut.cost(replace(CLAUDE, block=2_048)) == pytest.approx(1.15 * (200 + 904 - 8))


def test_costs_without_more_inputs_count_nothing_fresh_and_an_empty_bank():
    assert rewrite_cost(CLAUDE, FIELD) == pytest.approx(1.15 * 2_000, rel=1e-9)
    assert repayment_calls(CLAUDE, FIELD) == pytest.approx(2_300 / 900, rel=1e-9)


def test_a_cut_that_two_calls_pay_back_pays_and_a_dearer_one_does_not():
    prices = RelativePrices(read=0.1, write=1.1)

    assert ShownCut(ahead=800, before=2_000, after=1_000).pays(prices, 1_000, 2)
    assert not ShownCut(ahead=799, before=2_000, after=1_000).pays(prices, 1_000, 2)
