"""Costs of all attempts of a call, compared with its ceiling and with their prediction."""

import msgspec
import pytest

from proxy.calls.translation.translation import prepare
from tests.fakes.ceiling_harness import (
    DEAR,
    HALF,
    REFUSE,
    WORST,
    CeilingHarness,
    ceiling,
    expect_admitted,
)
from tests.fakes.refusals import refusing


def test_the_cost_of_earlier_attempts_counts_toward_the_ceiling():
    harness = CeilingHarness(ceiling(on_exceed=(REFUSE,)))
    first = harness.attempt()
    harness.check(first)
    harness.end(1, 5_000, final=False)

    with refusing(429) as refused:
        harness.check(msgspec.structs.replace(first, number=1))
    assert refused.value.details["sure"] == "0.000016"
    assert refused.value.details["predicted"] == "0.004016"


def test_costs_are_compared_with_the_ceiling_and_with_the_prediction():
    harness = CeilingHarness(ceiling(WORST + 100_000))
    for number, cost in enumerate((WORST // 2, WORST, 2 * WORST)):
        harness.check(harness.attempt(number))
        harness.end(number, cost)
    accuracy = harness.ceilings.prediction_accuracy("c")

    assert (accuracy.calls, accuracy.within) == (3, 2)
    assert accuracy.error_quantile(0.5) == pytest.approx(1, rel=0.03)
    figures = harness.figures()
    assert figures["thriftgate_ceiling_calls_total c yes"] == 2
    assert figures["thriftgate_ceiling_calls_total c no"] == 1
    assert figures["thriftgate_ceiling_decisions_total c fits"] == 3
    assert figures["thriftgate_ceiling_error_ratio c 50"] == pytest.approx(1, rel=0.03)
    assert {f"thriftgate_ceiling_error_ratio c {part}" for part in (95, 99)} <= figures.keys()


def test_a_clamped_call_is_predicted_as_it_is_clamped():
    harness = CeilingHarness(ceiling(HALF))
    harness.check(harness.attempt())
    harness.end(1, HALF)

    assert harness.ceilings.prediction_accuracy("c").error_quantile(0.5) == pytest.approx(
        1, rel=0.03
    )


def test_attempts_of_a_call_are_one_cost():
    harness = CeilingHarness(ceiling(WORST + 200_000))
    first = harness.attempt()
    harness.check(first)
    harness.end(1, 100_000, final=False)
    harness.check(msgspec.structs.replace(first, number=1))
    harness.end(1, WORST + 100_001, attempt=1)

    accuracy = harness.ceilings.prediction_accuracy("c")
    assert (accuracy.calls, accuracy.within) == (1, 0)


@pytest.mark.parametrize("costs", [(None, 5), (5, None)])
def test_a_cost_of_which_a_part_is_unknown_is_unknown(costs):
    harness = CeilingHarness(ceiling(10 * WORST))
    first = harness.attempt()
    for number, cost in enumerate(costs):
        harness.check(msgspec.structs.replace(first, number=number))
        harness.end(1, cost, attempt=number, final=number == 1)

    assert harness.ceilings.prediction_accuracy("c").unpriced == 1


def test_a_call_without_usage_does_not_judge_predictions():
    harness = CeilingHarness(ceiling())
    harness.check(harness.attempt())
    harness.end(1, None, usage=None)
    harness.end(2, 5)

    assert harness.ceilings.prediction_accuracy("c").calls == 0


def test_of_features_nobody_repeats_nothing_piles_up():
    harness = CeilingHarness(ceiling(feature="x"))
    for number in range(4_096):
        harness.check(harness.attempt(feature=f"f{number}"))
    assert len(harness.ceilings._applying) == 4_096
    harness.check(harness.attempt(feature="another"))

    assert len(harness.ceilings._applying) == 1


async def test_calls_that_never_settle_are_forgotten_after_many():
    harness = CeilingHarness(ceiling(10 * WORST))

    for number in range(20_010):
        attempt = harness.attempt(number)
        await harness.ceilings.check(attempt, prepare(attempt.call, DEAR), lambda _: True)
    assert len(harness.ceilings._open) == 20_000


def test_embeddings_have_a_ceiling_too():
    harness = CeilingHarness(ceiling(11_000))
    body = b'{"model":"m","input":"x"}'
    expect_admitted(harness.check(harness.attempt(body=body, endpoint="embeddings")))
    tight = CeilingHarness(ceiling(6_999))
    with refusing(429):
        tight.check(tight.attempt(body=body, endpoint="embeddings"))
