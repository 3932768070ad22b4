from dataclasses import replace
from typing import Any

import msgspec
import orjson
import pytest

from proxy.calls.metering.settlement import AttemptInfo
from proxy.calls.ports import Admitted, CheaperRoute
from slo.budgets.budget import UnpricedPolicy
from tests.fakes.admission_harness import BODY
from tests.fakes.call_dependencies import route
from tests.fakes.ceiling_harness import (
    CHEAPER,
    CLAMP,
    DEAR,
    HALF,
    REFUSE,
    WORST,
    CeilingHarness,
    ceiling,
    expect_admitted,
    model,
)
from tests.fakes.planned_calls import marked_call
from tests.fakes.refusals import refusing

UNPRICED = replace(DEAR, tariff=None, upstream=replace(DEAR.upstream, key_env="KEY"))


def limit(admitted: Admitted | CheaperRoute, field: str = "max_completion_tokens") -> Any:
    return orjson.loads(expect_admitted(admitted).prepared.body).get(field)


def test_a_call_within_its_ceiling_goes_unmodified():
    harness = CeilingHarness(ceiling())
    admitted = expect_admitted(harness.check(harness.attempt()))

    assert admitted.prepared.body is harness.attempt().call.body
    assert (admitted.headers, admitted.notes) == ({}, ())


def test_a_call_that_may_cost_too_much_is_clamped_and_notified():
    harness = CeilingHarness(ceiling(HALF))
    admitted = expect_admitted(harness.check(harness.attempt()))

    assert limit(admitted) == 500
    assert admitted.headers == {"x-thriftgate-clamped": "max_completion_tokens=500"}
    assert admitted.notes == (
        "lowered max_completion_tokens to 500: the ceiling c of $0.002011 a call",
    )


def test_several_choices_are_clamped_together():
    harness = CeilingHarness(ceiling(11_000 + 4_000 * 1_000))
    body = BODY.replace(b"}", b',"n":2}')

    assert limit(harness.check(harness.attempt(body=body))) == 500


def test_an_answer_that_is_mostly_longer_is_not_cut():
    harness = CeilingHarness(ceiling(HALF, on_exceed=(CLAMP, REFUSE)))
    harness.teach(*[600] * 20)

    with refusing(429) as refused:
        harness.check(harness.attempt())
    assert "Lower `max_completion_tokens` to 500, and it fits." in refused.value.message


def test_an_answer_that_is_mostly_shorter_is_cut_below_a_quarter():
    harness = CeilingHarness(ceiling(11_000 + 4_000 * 100))
    with refusing(429):
        harness.check(harness.attempt())
    harness = CeilingHarness(ceiling(11_000 + 4_000 * 300))
    harness.teach(*[20] * 20)
    assert limit(harness.check(harness.attempt())) == 300


def test_clamps_that_cut_answers_off_are_given_up():
    harness = CeilingHarness(ceiling(HALF, on_exceed=(CLAMP, REFUSE)))
    harness.teach(*[500] * 20)

    with refusing(429):
        harness.check(harness.attempt())


def test_where_nothing_is_learned_an_answer_is_cut_to_no_less_than_a_short_one():
    body = b'{"model":"m","messages":[]}'
    for tokens, fits in ((256, True), (255, False)):
        harness = CeilingHarness(ceiling(11_000 + 4_000 * tokens, on_exceed=(CLAMP,)))
        result = harness.check(harness.attempt(body=body))
        assert limit(result, "max_tokens") == (tokens if fits else None)


FEW = 11_000 + 4_000 * 300
LONG = BODY.replace(b"1000", b"4096")


def test_a_ceiling_far_below_what_is_asked_learns_whether_that_is_enough():
    for length, is_enough in ((40, True), (300, False)):
        harness = CeilingHarness(ceiling(FEW, on_exceed=(CLAMP, REFUSE)))
        for number in range(20):
            assert limit(harness.check(harness.attempt(number, LONG))) == 300
            harness.end(number, 0, length)
        if is_enough:
            assert limit(harness.check(harness.attempt(50, LONG))) == 300
        else:
            with refusing(429):
                harness.check(harness.attempt(50, LONG))


@pytest.mark.parametrize(("length", "is_cut"), [(100, True), (600, False)])
def test_output_of_other_calls_to_the_model_counts_until_more_is_learned(length, is_cut):
    harness = CeilingHarness(
        ceiling(11_000 + 4_000 * 200, feature="x", on_exceed=(CLAMP, REFUSE)),
        ceiling(10 * WORST, name="roomy"),
    )
    harness.teach(*[length] * 20)
    attempt = harness.attempt(feature="x")

    if is_cut:
        assert limit(harness.check(attempt)) == 200
    else:
        with refusing(429):
            harness.check(attempt)


def test_thinking_keeps_its_room():
    over = replace(
        route("one", "anthropic", max_output=8192, traits=frozenset({"budget_thinking"})),
        name="one/m",
    )
    body = orjson.dumps(
        {
            "model": "m",
            "messages": [{"role": "user", "content": "hi"}],
            "max_tokens": 4000,
            "thinking": {"type": "enabled", "budget_tokens": 2000},
        }
    )
    ceiling_harness = CeilingHarness(ceiling(11_000 + 4_000 * 2001))
    assert (
        limit(ceiling_harness.check(ceiling_harness.attempt(body=body, over=over)), "max_tokens")
        == 2001
    )
    tight = CeilingHarness(ceiling(11_000 + 4_000 * 2000))
    with refusing(429):
        tight.check(tight.attempt(body=body, over=over))


def test_a_guess_that_does_not_fit_is_counted():
    harness = CeilingHarness(ceiling(on_exceed=(REFUSE,)))

    expect_admitted(harness.check(harness.attempt()))
    assert len(harness.estimator.delivered) == 1
    roomy = CeilingHarness(ceiling(WORST + 400_000))
    roomy.check(roomy.attempt())
    assert roomy.estimator.delivered == []


def test_a_prompt_of_digits_is_counted_where_its_bytes_may_not_fit_and_a_guess_would():
    text = ",".join("4" for _ in range(4000))
    body = orjson.dumps(
        {"model": "m", "messages": [{"role": "user", "content": text}], "max_tokens": 10}
    )
    harness = CeilingHarness(ceiling(len(body) // 2 * 1_000, on_exceed=(REFUSE,)))

    harness.check(harness.attempt(body=body))

    assert len(harness.estimator.delivered) == 1


def test_cached_tokens_lower_the_predicted_cost():
    body = BODY.replace(b"[]", b'["' + b"x" * 20_000 + b'"]')
    harness = CeilingHarness(ceiling(WORST - 1, on_exceed=(REFUSE,)))
    warm = msgspec.structs.replace(
        harness.attempt(body=body), planned=marked_call("hi", there=10_000)
    )

    expect_admitted(harness.check(warm))
    with refusing(429):
        harness.check(harness.attempt(2, body))


def test_the_first_cheaper_model_that_fits_and_can_is_told():
    models = (model("a", 1_000), model("b", 900), model("c", 800))
    harness = CeilingHarness(
        ceiling(1_000_000, on_exceed=(CHEAPER, REFUSE), cheaper=("none", "a", "b", "c")),
        models=models,
    )

    cheaper = harness.check(harness.attempt(), "b")
    assert cheaper == CheaperRoute("c", "the ceiling c of $0.001 a call, and it may cost $0.004011")


def test_a_dated_snapshot_is_its_model():
    harness = CeilingHarness(
        ceiling(1_000_000, on_exceed=(CHEAPER, REFUSE), cheaper=("a-2026-01-31", "b-latest", "b")),
        models=(model("a", 1_000), model("b", 800)),
    )

    assert harness.check(harness.attempt()) == CheaperRoute(
        "b", "the ceiling c of $0.001 a call, and it may cost $0.004011"
    )
    with refusing(429, match="`b` would fit"):
        harness.check(AttemptInfo(call=harness.attempt(2).call, route=model("b", 2_000).routes[0]))


def test_on_the_cheaper_model_it_is_checked_again():
    cheap = model("a", 1_000)
    harness = CeilingHarness(
        ceiling(1_000_000, on_exceed=(CHEAPER, CLAMP), cheaper=("a",)), models=(cheap,)
    )
    first = harness.attempt()
    assert harness.check(first) == CheaperRoute(
        "a", "the ceiling c of $0.001 a call, and it may cost $0.004011"
    )
    again = AttemptInfo(call=first.call, route=cheap.routes[0])
    assert limit(harness.check(again)) == 989


def test_a_refusal_says_what_it_may_cost_and_what_would_be_cheaper():
    harness = CeilingHarness(
        ceiling(100_000, on_exceed=(REFUSE,)), models=(model("a", 90), model("b", 80))
    )

    with refusing(429) as refused:
        harness.check(harness.attempt(), "b")
    error = refused.value
    assert (error.status, error.code, error.retry_after) == (429, "cost_ceiling", None)
    assert not error.is_worth_retrying
    assert error.details == {
        "ceiling": "c",
        "limit": "0.0001",
        "predicted": "0.004011",
        "sure": "0.000011",
        "cheapest_alternative": {"model": "a", "predicted": "0.00009099"},
    }
    assert (
        "Lower `max_completion_tokens` to 22, and it fits. The model `a` would fit" in error.message
    )


def test_a_prompt_that_is_too_dear_by_itself_is_kept_apart():
    harness = CeilingHarness(ceiling(1_000))

    with refusing(429, match="Send a shorter prompt") as refused:
        harness.check(harness.attempt())
    assert refused.value.details["cheapest_alternative"] is None


def test_a_call_without_an_output_limit_field_is_told_to_ask_for_less():
    harness = CeilingHarness(ceiling(HALF))
    body = BODY.replace(b"}", b',"max_tokens":"x"}')

    with refusing(429, match="Ask for fewer tokens"):
        harness.check(harness.attempt(body=body))


def test_a_ceiling_without_steps_only_measures():
    harness = CeilingHarness(ceiling(1, on_exceed=()))

    assert expect_admitted(harness.check(harness.attempt())).notes == ()
    assert harness.figures() == {"thriftgate_ceiling_decisions_total c exceeds": 1}


def test_of_several_ceilings_the_lowest_acts_first():
    low = ceiling(HALF, name="low", on_exceed=())
    high = ceiling(HALF + 400_000, name="high")
    harness = CeilingHarness(high, low)

    assert limit(harness.check(harness.attempt())) == 600
    assert harness.figures() == {
        "thriftgate_ceiling_decisions_total low exceeds": 1,
        "thriftgate_ceiling_decisions_total high clamped": 1,
    }


@pytest.mark.parametrize(
    ("fields", "call_fields"),
    [
        ({"team": "other"}, {}),
        ({"feature": "other"}, {}),
        ({}, {"method": "DELETE"}),
    ],
)
def test_a_ceiling_is_for_the_calls_it_names(fields, call_fields):
    harness = CeilingHarness(ceiling(1, **fields))
    for _ in range(2):
        expect_admitted(harness.check(harness.attempt(**call_fields)))

    assert harness.figures() == {}


def test_a_call_without_a_route_is_nobodys():
    harness = CeilingHarness(ceiling(1))

    expect_admitted(harness.check(msgspec.structs.replace(harness.attempt(), route=None)))


@pytest.mark.parametrize("endpoint", ["chat/completions", "images/generations"])
def test_a_call_of_unknown_price_is_refused_where_it_is_sold(endpoint):
    harness = CeilingHarness(ceiling())
    attempt = harness.attempt(over=UNPRICED, endpoint=endpoint)

    with refusing(400) as refused:
        harness.check(attempt)
    assert refused.value.code == "price_unknown"
    assert refused.value.details == {"ceiling": "c", "upstream": "one"}


def test_a_call_whose_price_nobody_knows_may_go_where_it_is_known():
    harness = CeilingHarness(ceiling(cheaper=("a",)), models=(model("a", 1),))

    assert harness.check(harness.attempt(over=UNPRICED)) == CheaperRoute(
        "a", "the ceiling c of $0.004011 a call, and its price is unknown"
    )


@pytest.mark.parametrize(
    ("over", "fields"),
    [
        (UNPRICED, {"unpriced": UnpricedPolicy.ALLOW}),
        (UNPRICED, {"on_exceed": ()}),
        (replace(DEAR, tariff=None), {}),
    ],
)
def test_a_call_whose_price_nobody_knows_passes_where_that_is_meant(over, fields):
    harness = CeilingHarness(ceiling(**fields))

    expect_admitted(harness.check(harness.attempt(over=over)))
    harness.end(1, None)
    assert harness.ceilings.prediction_accuracy("c").unpriced == 1


def test_a_model_that_is_unknown_unpriced_or_too_short_is_passed_over():
    models = (model("a", 1, tariff=None), model("b", 1, window=5))
    harness = CeilingHarness(ceiling(1, cheaper=("none", "a", "b")), models=models)

    with refusing(429):
        harness.check(harness.attempt())
