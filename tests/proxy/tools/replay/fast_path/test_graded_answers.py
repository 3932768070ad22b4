"""Calls with grades of two models, sent by the rule for small models."""

from random import Random

import pytest

from proxy.tools.replay.fast_path.graded_answers import GradedAnswers, GradedTotals
from proxy.tools.replay.recorded_call import RecordedCall
from slo.usage import Usage
from tests.proxy.tools.replay.scene import CATALOG, body, user

LARGE, SMALL = "breakpoints", "uncached"
MODEL = CATALOG.models[LARGE]
USAGE = Usage(input=1_000, output=100)
#: Nano-dollars of such a call by either model, at two and ten dollars, and at one and two.
LARGE_NANOS, SMALL_NANOS = 1_000 * 2_000 + 100 * 10_000, 1_000 * 1_000 + 100 * 2_000


def graded_call(number: int, **grades: float) -> RecordedCall:
    text = f"Question {number}: may I keep it?"
    return RecordedCall(at=None, feature="f", body=body(user(text)), grades=tuple(grades.items()))


def replay_grades(*lines: RecordedCall) -> tuple[GradedTotals, ...]:
    answers = GradedAnswers(CATALOG.find, 0.0)
    for number, line in enumerate(lines):
        answers.add(line, MODEL, USAGE, float(number))
    return answers.totals()


def test_most_calls_go_small_once_it_is_proved_that_nothing_is_lost():
    (totals,) = replay_grades(*(graded_call(n, breakpoints=1, uncached=1) for n in range(6_000)))

    assert (totals.large, totals.small, totals.calls) == (LARGE, SMALL, 6_000)
    assert totals.small_calls > 1_500
    assert totals.compared_calls <= 600
    assert totals.lost == totals.always_lost == 0
    assert 0.0 < totals.proved_loss <= 0.01


def test_savings_have_comparisons_taken_off_and_the_simple_rule_has_none():
    (totals,) = replay_grades(*(graded_call(n, breakpoints=1, uncached=1) for n in range(200)))

    saved = LARGE_NANOS - SMALL_NANOS
    verdict = (1_000 + 200) * 2_000 + 10 * 10_000
    assert totals.small_calls == 0
    assert totals.compared_calls > 0
    assert totals.nanos == -totals.compared_calls * (SMALL_NANOS + 2 * verdict)
    assert totals.always_nanos == 200 * saved


def test_a_small_model_that_loses_gets_few_calls():
    rng = Random(3)  # noqa: S311 - seeded
    lines = [
        graded_call(n, breakpoints=1, uncached=float(rng.random() < 0.7)) for n in range(3_000)
    ]

    (totals,) = replay_grades(*lines)

    assert totals.always_lost > 800
    assert totals.lost <= 0.01 * totals.calls


@pytest.mark.parametrize(
    "grades", [{}, {"breakpoints": 1}, {"uncached": 1}, {"breakpoints": 1, "unknown": 0}]
)
def test_without_grades_of_two_known_models_nothing_is_guessed(grades: dict[str, float]):
    assert replay_grades(graded_call(1, **grades)) == ()


def test_of_several_other_models_the_cheapest_is_the_small_one():
    (totals,) = replay_grades(graded_call(1, breakpoints=1, marks=1, uncached=1))

    assert totals.small == SMALL


def test_a_dearer_model_is_no_small_one():
    answers = GradedAnswers(CATALOG.find, 0.0)
    answers.add(graded_call(1, breakpoints=1, uncached=1), CATALOG.models[SMALL], USAGE, 0.0)

    assert answers.totals() == ()


def test_a_model_of_known_price_is_small_before_one_of_unknown_price():
    (totals,) = replay_grades(graded_call(1, breakpoints=1, blocks=1, uncached=1))

    assert totals.small == SMALL


def test_an_unknown_price_makes_savings_unknown():
    (totals,) = replay_grades(graded_call(1, breakpoints=1, blocks=1))

    assert (totals.small, totals.nanos, totals.always_nanos) == ("blocks", 0, None)
