from fractions import Fraction

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.calls.settlement import (
    AttemptInfo,
    AttemptOutcome,
    Pseudonymizer,
    attempt_cost,
    billing_terms,
    build_receipt,
    estimate_from_length,
)
from proxy.catalog.entries import Route, Upstream
from proxy.prefix.explain.reasons import CacheMiss, MissReason
from proxy.prefix.planned import Passthrough, Planned
from proxy.providers.engine_timings import EngineTimings
from proxy.records.compaction_result import CompactionResult
from proxy.records.receipt import Outcome, PhasesFrom, Receipt
from proxy.records.timeline import Timeline
from slo.price import (
    STANDARD_TERMS,
    BillingTerms,
    CallCost,
    PricePeriod,
    PriceSheet,
    Tariff,
    TokenRates,
)
from slo.replica_cost import CostShare
from slo.usage import Usage
from tests.fakes.call_dependencies import KEY, RATES, call, route
from tests.proxy.prefix.planning_requests import (
    TARGETS,
    PlanningProcess,
    body,
    conversation_messages,
    planning_request,
)

DEAR = TokenRates(input=2_000_000_000, cache_read=200_000_000, output=8_000_000_000)
TARIFF = Tariff(
    periods=(
        PricePeriod(
            sheets={"": PriceSheet(rates=RATES), "priority": PriceSheet(rates=DEAR)},
            regions={"eu": Fraction(11, 10)},
        ),
    ),
    discount=Fraction(1, 10),
)
USAGE = Usage(input=100, cache_read=50, output=10)
SEAL = Pseudonymizer(b"secret")
BODY = b'{"model":"m","user":"ann","service_tier":"priority"}'


class Ticks:
    def __init__(self) -> None:
        self.at = 5.0

    def __call__(self) -> float:
        return self.at


def there(kind: str = "openai", region: str = "") -> Route:
    upstream = Upstream(
        name="up",
        kind="anthropic" if kind == "anthropic" else "openai",
        base_url="http://up/v1",
        region=region,
    )
    return route("up", upstream=upstream, tariff=TARIFF)


def ended(**fields: object) -> AttemptOutcome:
    return AttemptOutcome(**{"outcome": Outcome.ANSWERED, "status": 200, "usage": USAGE, **fields})  # type: ignore[arg-type]


def test_an_attempt_is_priced_by_its_routes_tariff():
    paid = attempt_cost(AttemptInfo(call=call(BODY), route=there()), ended())

    assert paid == CallCost(145_000, 130_500)


def test_an_attempt_is_priced_on_the_terms_it_was_served_on():
    dear = ended(terms=BillingTerms(service_tier="priority", region="eu"))

    assert attempt_cost(AttemptInfo(call=call(BODY), route=there()), dear) == CallCost(
        319_000, 287_100
    )


@pytest.mark.parametrize(
    ("attempt", "end"),
    [
        (AttemptInfo(call=call(BODY)), ended()),
        (AttemptInfo(call=call(BODY), route=route(tariff=None)), ended()),
        (AttemptInfo(call=call(BODY), route=there()), ended(usage=None)),
        (
            AttemptInfo(call=call(BODY), route=there()),
            ended(terms=BillingTerms(service_tier="flex")),
        ),
    ],
)
def test_a_price_nobody_knows_is_not_zero(attempt, end):
    assert attempt_cost(attempt, end) is None
    assert build_receipt(attempt, end, Timeline(Ticks()), SEAL).cost_nanos is None


@pytest.mark.parametrize(
    ("asked", "answered", "region", "expected"),
    [
        (b'{"model":"m"}', "", "", STANDARD_TERMS),
        (b'{"model":"m","service_tier":"auto"}', "default", "", STANDARD_TERMS),
        (b'{"model":"m","service_tier":"flex"}', "", "", BillingTerms(service_tier="flex")),
        (b'{"model":"m","service_tier":"priority"}', "default", "", STANDARD_TERMS),
        (b'{"model":"m"}', "priority", "eu", BillingTerms(service_tier="priority", region="eu")),
        (b'{"model":"m"}', "", "eu", BillingTerms(region="eu")),
        (b'{"model":"m"}', "brand_new", "", BillingTerms(service_tier="brand_new")),
    ],
)
def test_an_openai_answers_own_tier_goes_before_the_one_asked_for(
    asked, answered, region, expected
):
    attempt = AttemptInfo(call=call(asked), route=there(region=region))

    assert billing_terms(attempt, answered, {}) == expected


@pytest.mark.parametrize(
    ("usage", "expected"),
    [
        ({}, BillingTerms(region="eu")),
        ({"service_tier": "standard", "inference_geo": "global"}, BillingTerms(region="eu")),
        (
            {"service_tier": "batch", "inference_geo": "us"},
            BillingTerms(service_tier="batch", region="us"),
        ),
        ({"service_tier": ["batch"], "speed": "fast"}, BillingTerms(region="eu", fast=True)),
        ({"service_tier": "brand_new"}, BillingTerms(service_tier="brand_new", region="eu")),
        ({"service_tier": None}, BillingTerms(region="eu")),
    ],
)
def test_anthropics_usage_names_the_terms(usage, expected):
    assert (
        billing_terms(AttemptInfo(call=call(BODY), route=there("anthropic", "eu")), "", usage)
        == expected
    )


def test_a_tier_nobody_knows_has_no_price():
    attempt = AttemptInfo(call=call(b'{"model":"m"}'), route=there())

    assert attempt_cost(attempt, ended(terms=billing_terms(attempt, "brand_new", {}))) is None


def test_a_call_without_a_route_or_a_body_for_us_has_standard_terms():
    assert billing_terms(AttemptInfo(call=call(BODY)), "", {}) == STANDARD_TERMS
    assert (
        billing_terms(AttemptInfo(call=call(b"", fields=None), route=there()), "", {})
        == STANDARD_TERMS
    )


def test_a_receipt_says_what_was_asked_taken_and_paid():
    ticks = Ticks()
    timeline = Timeline(ticks)
    ticks.at = 6.0
    timeline.mark_first_content()
    with timeline.waiting:
        ticks.at = 8.0
    attempt = AttemptInfo(call=call(BODY), route=there(), number=1, notes=("dropped seed",))
    made = build_receipt(attempt, ended(upstream_id="chatcmpl-1", estimated=True), timeline, SEAL)

    assert (made.call_id, made.attempt, made.final) == ("call_1", 1, True)
    assert (made.team, made.key_id, made.feature) == ("team_1", "key_1", "chat")
    assert (made.endpoint, made.model, made.streamed) == ("chat/completions", "m", False)
    assert (made.route, made.upstream, made.upstream_id) == ("up/m", "up", "chatcmpl-1")
    assert (made.outcome, made.status, made.error) == (Outcome.ANSWERED, 200, "")
    assert (made.usage, made.estimated) == (USAGE, True)
    assert (made.list_nanos, made.cost_nanos) == (145_000, 130_500)
    assert (made.ttft, made.duration, made.overhead) == (1.0, 3.0, 1.0)
    assert (made.notes, made.started) == (("dropped seed",), 1_790_000_000.0)
    assert made.user == SEAL.pseudonym("team_1", b"ann")
    assert made.fingerprint == SEAL.pseudonym("team_1", BODY)


def test_usage_of_a_background_answer_is_unknown_and_not_estimated():
    later = call(b'{"model":"m","background":true}', "responses")
    attempt = AttemptInfo(call=later, route=there(), notes=("dropped seed",))
    made = build_receipt(attempt, ended(estimated=True), Timeline(Ticks()), SEAL)

    assert (made.usage, made.cost_nanos, made.estimated) == (None, None, False)
    assert made.notes == (
        "dropped seed",
        "answered in the background: what it used is not known here",
    )


def test_a_background_call_that_reported_its_usage_is_priced_and_one_cut_off_is_estimated():
    attempt = AttemptInfo(call=call(b'{"background":true}', "responses"), route=there())
    told, cut = (
        build_receipt(attempt, end, Timeline(Ticks()), SEAL)
        for end in (ended(), ended(outcome=Outcome.BROKEN, estimated=True))
    )

    assert (told.cost_nanos, told.notes) == (130_500, ())
    assert (cut.cost_nanos, cut.estimated, len(cut.notes)) == (130_500, True, 1)


def test_a_receipt_says_that_fees_of_hosted_tools_are_not_in_its_cost():
    body = b'{"tools":[{"type":"web_search"}]}'
    attempt = AttemptInfo(call=call(body, "responses"), route=there())

    assert build_receipt(attempt, ended(), Timeline(Ticks()), SEAL).notes == (
        "it offered hosted tools: their fees, where it used them, are not in the cost",
    )


def test_clocks_that_disagree_make_no_negative_overhead():
    timeline = Timeline(Ticks())
    timeline.waiting.seconds = 9.0

    assert build_receipt(AttemptInfo(call=call(BODY)), ended(), timeline, SEAL).overhead == 0.0


def test_prompts_are_kept_only_for_teams_that_ask_for_it():
    keeps = msgspec.structs.replace(KEY, keeps_prompts=True)
    kept = [
        build_receipt(
            AttemptInfo(call=call(body, key=key, fields=None)), ended(), Timeline(Ticks()), SEAL
        )
        for key, body in ((KEY, BODY), (keeps, BODY), (keeps, b"\xff" * 5_000_000))
    ]

    assert [each.prompt for each in kept[:2]] == [None, BODY.decode()]
    assert len(kept[2].prompt or "") == 4 * 1024 * 1024


@given(st.binary(min_size=1), st.binary(min_size=1))
def test_a_seal_tells_equal_texts_and_nothing_else(one, other):
    assert (SEAL.pseudonym("t", one) == SEAL.pseudonym("t", other)) == (one == other)
    assert SEAL.pseudonym("t", one) != SEAL.pseudonym("u", one)
    assert SEAL.pseudonym("t", one) != Pseudonymizer(b"other").pseudonym("t", one)
    assert len(SEAL.pseudonym("t", one)) == 32


def test_no_text_has_no_seal():
    assert SEAL.pseudonym("t", b"") == ""


def test_four_letters_are_about_a_token():
    assert estimate_from_length(call(b'{"model":"m"}'), "x" * 9) == Usage(input=3, output=2)


def again(share: float = 0.0) -> Planned:
    """The second call of a conversation, planned."""
    process = PlanningProcess(TARGETS["block-chain"], share=share)
    process.answered(planning_request(body(*conversation_messages(0))))
    return process.planned(planning_request(body(*conversation_messages(1))))


def told(planned: Planned | Passthrough, **fields: object) -> Receipt:
    attempt = AttemptInfo(call=call(BODY), route=there(), planned=planned)
    return build_receipt(attempt, ended(**fields), Timeline(Ticks()), SEAL)


def test_a_receipt_says_what_was_planned():
    planned = again()
    made = told(planned)

    assert made.conversation == planned.draft.conversation.hex()
    assert (made.arm, made.layout) == ("treated", 0)
    assert (made.miss, made.miss_detail, made.miss_tokens, made.miss_nanos) == ("", "", None, None)
    assert told(again(share=1.0)).arm == "control"


def test_the_expected_cache_read_is_reported_in_the_providers_own_tokens():
    planned = again()
    total = planned.evidence.sent.estimate
    expected = planned.evidence.expected.tokens

    assert expected > 0
    assert told(planned, usage=None).expected_read == expected
    assert told(planned, usage=Usage(input=2 * total)).expected_read == pytest.approx(
        2 * expected, rel=0.01
    )


def test_a_receipt_says_why_the_cache_missed():
    miss = CacheMiss(reason=MissReason.DIVERGED, detail="tools[3] moved", tokens=900, nanos=810_000)
    made = told(again(), miss=miss)

    assert (made.miss, made.miss_detail) == ("diverged", "tools[3] moved")
    assert (made.miss_tokens, made.miss_nanos) == (900, 810_000)


def test_a_call_that_was_not_planned_says_nothing_of_it():
    made = told(Passthrough("too large"))

    assert (made.conversation, made.arm, made.layout, made.expected_read) == ("", "", 0, None)
    assert made.unplanned_why == "too large"


def test_a_small_call_that_was_not_planned_has_the_reason_in_its_receipt():
    made = told(Passthrough(reason="under_2_kb"))

    assert (made.unplanned_why, told(Passthrough()).unplanned_why) == ("under_2_kb", "")


def test_a_compacted_call_says_what_was_sent_and_what_that_saved():
    compaction = CompactionResult(
        mode="facts",
        why="pays",
        is_compacted=True,
        messages=12,
        before=600,
        after=150,
        needed=4,
        lost=1,
    )
    kept = build_receipt(
        AttemptInfo(call=call(BODY), route=there(), compaction=compaction),
        ended(),
        Timeline(Ticks()),
        SEAL,
    )
    guessed = build_receipt(
        AttemptInfo(call=call(BODY), route=there(), compaction=compaction),
        ended(estimated=True),
        Timeline(Ticks()),
        SEAL,
    )

    assert (kept.compaction, kept.compaction_why, kept.compacted) == ("facts", "pays", True)
    assert kept.compacted_messages == 12
    assert (kept.tokens_before, kept.tokens_after, kept.needed, kept.lost) == (600, 150, 4, 1)
    assert kept.compaction_nanos == 450 * 90
    assert guessed.compaction_nanos is None


def warm() -> Planned:
    """A call that reads by our marks what Anthropic would not have stored without them."""
    process = PlanningProcess(TARGETS["anthropic-breakpoint"])
    for turns in range(6):
        call = planning_request(body(*conversation_messages(turns, "Read the rules. " * 2_000)))
        planned = process.planned(call)
        process.answered(call)
    return planned


def test_a_receipt_says_what_planning_should_have_saved():
    planned = warm()
    total = planned.evidence.sent.estimate
    rates = msgspec.structs.replace(RATES, write_5m=1_250_000_000)
    tariff = Tariff(periods=(PricePeriod(sheets={"": PriceSheet(rates=rates)}),))
    attempt = AttemptInfo(call=call(BODY), route=route("up", tariff=tariff), planned=planned)
    end = ended(usage=Usage(input=100, cache_read=total - 100, output=5))
    made = build_receipt(attempt, end, Timeline(Ticks()), SEAL)

    assert planned.direct is not None
    assert made.planning_nanos is not None
    assert made.cost_nanos is not None
    assert made.planning_nanos > made.cost_nanos
    assert told(planned, usage=None).planning_nanos is None
    assert told(again(), usage=Usage(input=100)).planning_nanos == 0
    assert told(again(share=1.0), usage=Usage(input=100)).planning_nanos is None


def test_a_receipt_has_its_engine_s_phases_and_draft_tokens():
    report = EngineTimings(queue=0.5, prefill=0.25, decode=1.0, draft_tokens=8, accepted_tokens=6)
    ticks = Ticks()
    timeline = Timeline(ticks)
    with timeline.waiting:
        ticks.at += 2.0
    attempt = AttemptInfo(call=call(BODY), route=there(), sent_at=5.0)
    made = build_receipt(attempt, ended(timings=report), timeline, SEAL)

    assert (made.queue, made.prefill, made.decode, made.transfer) == (0.5, 0.25, 1.0, 0.25)
    assert (made.draft_tokens, made.accepted_tokens) == (8, 6)
    assert made.phases_from is PhasesFrom.ENGINE


def test_a_receipt_of_a_provider_has_no_phases():
    made = build_receipt(
        AttemptInfo(call=call(BODY), route=there(), sent_at=5.0), ended(), Timeline(Ticks()), SEAL
    )

    assert (made.queue, made.prefill, made.phases_from) == (None, None, PhasesFrom.NOBODY)


SHARE = CostShare(ns=2 * 10**9, nanos=1_234, gpu_seconds=2.0)


def test_a_call_of_an_engine_costs_its_share_of_the_replica():
    attempt = AttemptInfo(call=call(BODY), route=route(tariff=None))
    made = build_receipt(attempt, ended(share=SHARE), Timeline(Ticks()), SEAL)

    assert (made.list_nanos, made.cost_nanos, made.gpu_seconds) == (1_234, 1_234, 2.0)


def test_a_price_per_token_goes_before_the_share_of_the_replica():
    attempt = AttemptInfo(call=call(BODY), route=there())

    assert attempt_cost(attempt, ended(share=SHARE)) == CallCost(145_000, 130_500)


def test_a_share_of_unknown_price_is_not_free():
    share = CostShare(ns=10**9, nanos=None, gpu_seconds=1.0)
    attempt = AttemptInfo(call=call(BODY), route=route(tariff=None))
    made = build_receipt(attempt, ended(share=share), Timeline(Ticks()), SEAL)

    assert (made.cost_nanos, made.gpu_seconds) == (None, 1.0)
