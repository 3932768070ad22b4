"""The verdict on an objective, and the words for its counts."""

from typing import Any

import msgspec
import pytest

from slo.budgets.tally import GoodBadCounts
from slo.objectives.objective import Metric, Objective
from slo.objectives.verdict import (
    VERDICT_MEANINGS,
    ObjectiveVerdict,
    allowance_text,
    fact_text,
    objective_verdict,
)

OBJECTIVE = Objective(name="chat-ttft", metric=Metric.TTFT, target=0.95, under=0.5)
GOOD, BAD = GoodBadCounts(200, 1), GoodBadCounts(100, 30)


def objective_with(**fields: Any) -> Objective:
    return msgspec.structs.replace(OBJECTIVE, **fields)


def verdict_of(
    *windows: GoodBadCounts, objective: Objective = OBJECTIVE, **facts: bool
) -> ObjectiveVerdict:
    defaults = {"is_missed": False, "is_doubtful": False, "has_fallen_back": False}
    return objective_verdict(objective, list(windows), **(defaults | facts))


@pytest.mark.parametrize(
    ("windows", "facts", "verdict"),
    [
        ((GOOD,), {"is_missed": True}, ObjectiveVerdict.MISSED),
        ((GOOD,), {"is_doubtful": True}, ObjectiveVerdict.AT_RISK),
        ((GOOD,), {"has_fallen_back": True}, ObjectiveVerdict.AT_RISK),
        ((GOOD, BAD), {}, ObjectiveVerdict.AT_RISK),
        ((GOOD, GoodBadCounts()), {}, ObjectiveVerdict.OK),
        ((GoodBadCounts(2, 1),), {}, ObjectiveVerdict.OK),
        ((GoodBadCounts(),), {}, ObjectiveVerdict.NO_DATA),
        ((), {}, ObjectiveVerdict.NO_DATA),
    ],
)
def test_a_verdict_is_the_worst_that_is_known(
    windows: tuple[GoodBadCounts, ...], facts: dict[str, Any], verdict: ObjectiveVerdict
) -> None:
    assert verdict_of(*windows, **facts) is verdict


def test_tokens_of_a_cache_are_no_calls_and_put_no_floor_at_risk() -> None:
    floor = objective_with(metric=Metric.CACHE, target=0.7, under=None)

    assert verdict_of(GoodBadCounts(60_000, 40_000), objective=floor) is ObjectiveVerdict.OK


def test_every_verdict_has_a_meaning() -> None:
    assert VERDICT_MEANINGS.keys() == set(ObjectiveVerdict)


@pytest.mark.parametrize(
    ("objective", "text"),
    [
        (OBJECTIVE, "30 of 130 calls had no first token within 500 ms in the last 1 h; 5 % may"),
        (
            objective_with(metric=Metric.TOTAL, under=2.0, target=0.999),
            "30 of 130 calls took more than 2 s in the last 1 h; 0.1 % may",
        ),
        (
            objective_with(metric=Metric.QUEUE),
            "30 of 130 calls took more than 500 ms of queue in the last 1 h; 5 % may",
        ),
        (
            objective_with(metric=Metric.ERRORS, under=None),
            "30 of 130 calls failed in the last 1 h; 5 % may",
        ),
        (
            objective_with(metric=Metric.COST, under=None, under_nanos=10**7),
            "30 of 130 calls cost more than $0.01 in the last 1 h; 5 % may",
        ),
        (
            objective_with(metric=Metric.CACHE, under=None, target=0.7),
            "76.9 % of input tokens were read from caches in the last 1 h; 70 % is the floor",
        ),
    ],
)
def test_a_fact_has_its_counts_its_window_and_what_is_allowed(
    objective: Objective, text: str
) -> None:
    assert f"{fact_text(objective, BAD, '1 h')}; {allowance_text(objective)}" == text


def test_a_window_without_calls_says_so() -> None:
    assert fact_text(OBJECTIVE, GoodBadCounts(), "10 min") == "no calls in the last 10 min"
