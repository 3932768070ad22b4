"""An attempt costs what its route and its terms say, or what it has of a replica."""

import msgspec
import pytest

from proxy.calls.metering.attempt_receipts import build_receipt
from proxy.calls.metering.settlement import (
    AttemptInfo,
    attempt_cost,
    billing_terms,
    estimate_from_length,
    upstream_words,
)
from proxy.errors import CallerError
from proxy.providers.failures import openai_failure
from proxy.records.timeline import Timeline
from slo.price import (
    STANDARD_TERMS,
    BillingTerms,
    CallCost,
)
from slo.replica_cost import CostShare
from slo.usage import Usage
from tests.fakes.call_dependencies import call, route
from tests.fakes.clock import ManualClock
from tests.proxy.calls.settled_calls import BODY, SEAL, attempt_outcome, there

SHARE = CostShare(ns=2 * 10**9, nanos=1_234, gpu_seconds=2.0)


def test_an_attempt_is_priced_by_its_routes_tariff():
    paid = attempt_cost(AttemptInfo(call=call(BODY), route=there()), attempt_outcome())

    assert paid == CallCost(145_000, 130_500)


def test_an_attempt_is_priced_on_the_terms_it_was_served_on():
    dear = attempt_outcome(terms=BillingTerms(service_tier="priority", region="eu"))

    assert attempt_cost(AttemptInfo(call=call(BODY), route=there()), dear) == CallCost(
        319_000, 287_100
    )


@pytest.mark.parametrize(
    ("attempt", "end"),
    [
        (AttemptInfo(call=call(BODY)), attempt_outcome()),
        (AttemptInfo(call=call(BODY), route=route(tariff=None)), attempt_outcome()),
        (AttemptInfo(call=call(BODY), route=there()), attempt_outcome(usage=None)),
        (
            AttemptInfo(call=call(BODY), route=there()),
            attempt_outcome(terms=BillingTerms(service_tier="flex")),
        ),
    ],
)
def test_a_price_nobody_knows_is_not_zero(attempt, end):
    assert attempt_cost(attempt, end) is None
    assert build_receipt(attempt, end, Timeline(ManualClock(5.0)), SEAL).cost_nanos is None


@pytest.mark.parametrize(
    ("body", "answered", "region", "expected"),
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
def test_an_openai_answers_own_tier_goes_before_the_one_asked_for(body, answered, region, expected):
    attempt = AttemptInfo(call=call(body), route=there(region=region))

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


def test_an_absurd_cost_is_unknown():
    attempt = AttemptInfo(call=call(BODY), route=there())

    assert attempt_cost(attempt, attempt_outcome(usage=Usage(output=10**12))) is not None
    assert attempt_cost(attempt, attempt_outcome(usage=Usage(output=10**13))) is None


def test_a_tier_nobody_knows_has_no_price():
    attempt = AttemptInfo(call=call(b'{"model":"m"}'), route=there())

    assert (
        attempt_cost(attempt, attempt_outcome(terms=billing_terms(attempt, "brand_new", {})))
        is None
    )


def test_a_call_without_a_route_or_a_body_for_us_has_standard_terms():
    assert billing_terms(AttemptInfo(call=call(BODY)), "", {}) == STANDARD_TERMS
    assert (
        billing_terms(AttemptInfo(call=call(b"", fields=None), route=there()), "", {})
        == STANDARD_TERMS
    )


def test_four_letters_are_about_a_token():
    assert estimate_from_length(call(b'{"model":"m"}'), "x" * 9) == Usage(input=3, output=2)
    assert estimate_from_length(call(b'{"model":"m"}'), "好" * 9).output == 6


def test_encoded_pictures_and_what_is_beyond_the_window_are_no_estimated_tokens():
    url = {"url": f"data:image/png;base64,{'A' * 400_000}"}
    parts = [{"type": "image_url", "image_url": url}, {"type": "text", "text": "a" * 8_000}]
    pictured = call(
        msgspec.json.encode({"model": "m", "messages": [{"role": "user", "content": parts}]})
    )

    assert 2_000 <= estimate_from_length(pictured, "").input < 2_100
    assert estimate_from_length(pictured, "", route(window=1_000)).input == 1_000


def test_a_price_per_token_goes_before_the_share_of_the_replica():
    attempt = AttemptInfo(call=call(BODY), route=there())

    assert attempt_cost(attempt, attempt_outcome(share=SHARE)) == CallCost(145_000, 130_500)


def test_words_of_an_upstream_are_short_and_without_secrets_and_others_have_none():
    failure = openai_failure(
        401, {}, b'{"error": {"message": "Incorrect API key provided: sk-abcdefgh", "code": "key"}}'
    )
    long = openai_failure(503, {}, b"<h1>no healthy upstream</h1>" + b" word" * 900)

    assert upstream_words(failure, call(BODY)) == "it answered 401 key 'Incorrect [redacted]'"
    assert upstream_words(long, call(BODY)).startswith("it answered 503 'no healthy upstream word")
    assert len(upstream_words(long, call(BODY))) == 400
    assert upstream_words(None, call(BODY)) == ""
    assert upstream_words(CallerError("No.", code="no"), call(BODY)) == ""


def test_an_upstreams_message_about_the_call_is_kept_only_of_teams_that_keep_prompts():
    quoted = b'{"error": {"message": "bad value: my diagnosis", "type": "BadRequest", "code": 42}}'
    failure = openai_failure(400, {}, quoted)
    kept = call(BODY, key=msgspec.structs.replace(call(BODY).key, keeps_prompts=True))

    assert upstream_words(failure, call(BODY)) == "it answered 400 BadRequest 42"
    assert "my diagnosis" in upstream_words(failure, kept)
