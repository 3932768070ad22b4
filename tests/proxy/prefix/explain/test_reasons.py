import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.prefix.explain.reasons import (
    FIXES,
    CacheMiss,
    MissReason,
    ProviderReason,
    ReasonConfidence,
    explanation_lines,
    provider_reason,
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


def test_fix_of_a_diverged_prompt_asks_for_no_approval_in_mode_auto():
    auto, others = FIXES[MissReason.DIVERGED].split("; ")

    assert auto.endswith("In mode `auto` the gateway applies the layout that it learns by itself")
    assert others.startswith("in `observe` or `apply`, approve it")


def test_every_miss_reason_has_a_fix():
    assert set(FIXES) == set(MissReason)
    assert all(fix.endswith(".") for fix in FIXES.values())


def answer(reason: object, tokens: object = 120) -> bytes:
    cause = {"type": reason, "cache_missed_input_tokens": tokens}
    return msgspec.json.encode({"id": "msg_1", "diagnostics": {"cache_miss_reason": cause}})


def response(**fields: object) -> bytes:
    diagnostics = {"type": "cache_miss", **fields}
    return msgspec.json.encode({"id": "resp_1", "prompt_cache_diagnostics": diagnostics})


@pytest.mark.parametrize(
    ("named", "reason"),
    [
        ("model_changed", MissReason.PARAMETER_CHANGED),
        ("system_changed", MissReason.DIVERGED),
        ("tools_changed", MissReason.DIVERGED),
        ("messages_changed", MissReason.DIVERGED),
    ],
)
def test_anthropics_diagnostics_map_to_miss_reasons(named, reason):
    given_reason = provider_reason(answer(named))

    assert given_reason is not None
    assert (given_reason.reason, given_reason.tokens) == (reason, 120)


@pytest.mark.parametrize(
    ("named", "reason"),
    [
        ("prompt_cache_key_changed", MissReason.ELSEWHERE),
        ("context_compacted", MissReason.COMPACTED),
        ("input_changed", MissReason.DIVERGED),
        ("service_tier_changed", MissReason.PARAMETER_CHANGED),
    ],
)
def test_openais_diagnostics_map_to_miss_reasons(named, reason):
    given_reason = provider_reason(response(reason=named, cache_missed_tokens=7))

    assert given_reason is not None
    assert (given_reason.reason, given_reason.tokens) == (reason, 7)


def test_the_reason_stands_at_the_start_of_anthropics_stream_and_in_openais_response():
    start = b'{"type": "message_start", "message": ' + answer("tools_changed") + b"}"
    end = b'{"type": "response.completed", "response": ' + response(reason="input_changed") + b"}"

    assert provider_reason(start) == ProviderReason(MissReason.DIVERGED, "the tools changed", 120)
    assert provider_reason(end) == ProviderReason(MissReason.DIVERGED, "the input changed")


@pytest.mark.parametrize(
    "silent",
    [
        b"{}",
        b'{"diagnostics": null}',
        b'{"diagnostics": {"cache_miss_reason": null}}',
        answer("previous_message_not_found"),
        answer("unavailable"),
        answer(["tools_changed"]),
        response(type="cache_hit"),
        response(type="comparison_response_not_found"),
        b'{"diagnostics": [1]}',
        b'{"diagnostics"',
        b"[" * 100_000 + b"diagnostics",
    ],
)
def test_an_answer_without_diagnostics_gives_no_reason(silent):
    assert provider_reason(silent) is None


@pytest.mark.parametrize("tokens", [-1, True, "7", None])
def test_a_token_count_that_is_no_number_is_left_out(tokens):
    assert provider_reason(answer("tools_changed", tokens)) == ProviderReason(
        MissReason.DIVERGED, "the tools changed"
    )


@given(st.binary())
def test_no_answer_makes_reading_diagnostics_fail(raw):
    provider_reason(raw + b"diagnostics")


def test_generated_text_is_not_read_as_diagnostics():
    encoded = msgspec.json.encode({"content": [{"text": answer("tools_changed").decode()}]})

    assert provider_reason(encoded) is None


@pytest.mark.parametrize(("size", "is_read"), [(8_388_608, True), (8_388_609, False)])
def test_diagnostics_are_read_of_answers_of_up_to_8_mebibytes(size: int, *, is_read: bool):
    answer = b'{"diagnostics":{"cache_miss_reason":{"type":"system_changed"}}}'

    assert (provider_reason(answer.ljust(size)) is not None) == is_read
