import pytest

from proxy.prefix.explain.reasons import (
    FIXES,
    CacheMiss,
    MissReason,
    ReasonConfidence,
    explanation_lines,
)
from slo.usage import Usage

USAGE = Usage(input=7_500, cache_read=2_500)
MISS = CacheMiss(
    reason=MissReason.EXPIRED,
    detail="idle for 612 s; entries live 300 s",
    confidence=ReasonConfidence.LIKELY,
    tokens=5_000,
    nanos=11_250_000,
)


def test_miss_reasons_are_stored_as_text():
    assert f"{MissReason.FIRST_SEEN}" == "first_seen"
    assert MissReason("provider_side") is MissReason.PROVIDER_SIDE
    assert f"{ReasonConfidence.LIKELY}" == "likely"


def test_a_miss_read_from_a_ledger_may_lack_its_confidence():
    assert CacheMiss(reason=MissReason.EXPIRED).confidence is None


def test_an_explained_miss_has_five_lines():
    assert explanation_lines(MISS, 7_500, USAGE) == [
        "Read from the cache: 2,500 of 10,000 tokens, 25 %.",
        "To be expected, as the prompt was sent: 7,500 tokens.",
        "Why not more: what was stored had expired (likely): idle for 612 s; entries live 300 s.",
        "Could have been read besides: 5,000 tokens; that would have saved $0.01125.",
        f"Fix: {FIXES[MissReason.EXPIRED]}",
    ]


def test_an_explanation_says_none_where_no_read_was_expected():
    assert explanation_lines(None, 0, USAGE)[1] == "To be expected, as the prompt was sent: none."


def test_an_explanation_leaves_unknown_values_out():
    bare = CacheMiss(reason=MissReason.FIRST_SEEN)

    assert explanation_lines(None, None, None) == []
    assert explanation_lines(None, None, Usage()) == ["Read from the cache: 0 of 0 tokens."]
    assert explanation_lines(bare, None, USAGE)[1:] == [
        "Why not more: it was seen for the first time.",
        FIXES[MissReason.FIRST_SEEN],
    ]


def test_explanations_give_prices_in_dollars():
    def cost_line(nanos: int | None) -> str:
        return explanation_lines(
            CacheMiss(reason=MissReason.DIVERGED, tokens=5, nanos=nanos), None, USAGE
        )[2]

    assert (
        cost_line(None)
        == "Could have been read besides: 5 tokens; what that would have saved is not known."
    )
    assert (
        cost_line(2_000_000_000)
        == "Could have been read besides: 5 tokens; that would have saved $2.00."
    )
    assert (
        cost_line(1_500_000_000)
        == "Could have been read besides: 5 tokens; that would have saved $1.50."
    )
    assert (
        cost_line(-3)
        == "Could have been read besides: 5 tokens; that would have cost another $0.000000003."
    )


def test_an_explanation_of_a_certain_reason_names_no_confidence():
    sure = CacheMiss(
        reason=MissReason.UNMARKED, detail="no mark", confidence=ReasonConfidence.CERTAIN
    )

    assert "certain" not in " ".join(explanation_lines(sure, None, USAGE))


@pytest.mark.parametrize("reason", [MissReason.UNMARKED, MissReason.REROUTED])
def test_callers_are_not_asked_to_fix_the_gateways_own_decisions(reason: MissReason):
    assert FIXES[reason].startswith("Nothing to fix")


def test_a_first_call_is_no_fault_but_a_prompt_that_begins_with_a_clock_is():
    fix = FIXES[MissReason.FIRST_SEEN]

    assert fix.startswith("Nothing to fix where the text is new;")
    assert "`thriftgate layout list`" in fix


def test_every_miss_reason_has_a_fix_of_one_sentence():
    assert set(FIXES) == set(MissReason)
    assert all(mend.endswith(".") for mend in FIXES.values())
