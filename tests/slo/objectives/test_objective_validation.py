from typing import Any

import pytest
from hypothesis import given

from slo.budgets.stages import Stage, StageBudget
from slo.objectives.objective import BurnAlert, Enforce, Metric, Objective
from slo.objectives.objective_validation import alert_problem, target_key, validate_objective
from tests.fakes.objectives import objective, objectives


def keys_and_problems(**fields: Any) -> list[tuple[str, str]]:
    return [(flaw.key, flaw.what) for flaw in validate_objective(objective(**fields))]


@pytest.mark.slow
@given(objectives())
def test_a_sound_objective_has_no_flaw(drawn: Objective) -> None:
    assert validate_objective(drawn) == ()


def test_a_target_has_a_name_for_each_metric() -> None:
    named = ["p", "p", "at_most", "p", "floor", *["p"] * 4]

    assert [target_key(metric) for metric in Metric] == named


@pytest.mark.parametrize(
    ("metric", "stage", "under", "what"),
    [
        (Metric.TTFT, Stage.DECODE, 0.1, "has decode, which comes after the first token"),
        (Metric.TTFT, Stage.QUEUE, 0.6, "gives queue more time than the whole call, or none"),
        (Metric.TOTAL, Stage.QUEUE, 0.0, "gives queue more time than the whole call, or none"),
    ],
)
def test_a_stage_s_budget_that_cannot_make_a_call_late_is_a_problem(
    metric: Metric, stage: Stage, under: float, what: str
) -> None:
    (problem,) = validate_objective(
        objective(metric=metric, under=0.5, stages=(StageBudget(stage, under),))
    )

    assert (problem.key, problem.what) == ("stages", what)


@pytest.mark.parametrize(
    ("metric", "target", "key", "what", "mend"),
    [
        (Metric.TTFT, 0.0, "p", "is kept whatever happens", "write from 1 to 99.999 percent"),
        (Metric.TTFT, 1.0, "p", "leaves nothing to go wrong", "write from 1 to 99.999 percent"),
        (Metric.COST, 0.0095, "p", "nearer to nothing", "write from 1 to 99.999 percent"),
        (Metric.ERRORS, 1.0, "at_most", "leaves nothing", "write from 0.001 to 99 percent"),
        (Metric.CACHE, 0.995, "floor", "or to all than can be", "write from 0.01 to 0.99"),
    ],
)
def test_target_that_cannot_be_missed_or_kept_is_reported(
    metric: Metric, target: float, key: str, what: str, mend: str
) -> None:
    alerts = () if metric is Metric.CACHE else (BurnAlert(burn=99, over=1),)
    (flaw,) = validate_objective(objective(metric=metric, target=target, alerts=alerts))
    assert flaw.key == key
    assert what in flaw.what
    assert flaw.fix == mend


@pytest.mark.parametrize(
    ("fields", "what"),
    [
        ({"metric": Metric.TOTAL, "under": 0.0}, "is above a day, or nothing"),
        ({"metric": Metric.TOTAL, "under": float("inf")}, "is above a day, or nothing"),
        ({"metric": Metric.TOTAL, "under": float("nan")}, "is above a day, or nothing"),
    ],
)
def test_limit_of_no_time_or_over_a_day_is_reported(fields: dict[str, Any], what: str) -> None:
    assert keys_and_problems(**fields) == [("under", what)]


@pytest.mark.parametrize(
    ("fields", "key", "what"),
    [
        ({"enforce": Enforce.DEGRADE, "ladder": ("small",)}, "enforce", "change the model"),
        ({"clear": 0.7}, "clear", "is not above the floor"),
        ({"clear": 0.995}, "clear", "would never be kept again"),
        ({"ladder": ("requested",)}, "ladder", "names what is asked for"),
    ],
)
def test_an_invalid_cache_objective_is_reported(
    fields: dict[str, Any], key: str, what: str
) -> None:
    ((problem_key, problem),) = keys_and_problems(
        **{"metric": Metric.CACHE, "target": 0.7, **fields}
    )
    assert problem_key == key
    assert what in problem


MOST = "3.33333"
NEVER = (
    "burn: is {}, which can never come: where a share of {} is wanted, the largest possible burn"
    " is {}; write a burn from 1 to {}; usual are {}"
)
UNCOUNTED = 'over: is no time that is counted; write whole minutes, from "2m" to "3d"'
ALWAYS = "burn: is 0.9, which comes while the objective is kept; write a burn from 1 to 20"


@pytest.mark.parametrize(
    ("target", "burn", "over", "problems"),
    [
        (0.95, 20, 600, []),
        (0.95, 1, 120, []),
        (0.7, 3.333333, 259_200, []),
        (0.95, 20.1, 600, [NEVER.format("20.1", "0.95", "20", "20", "6, 3, 1.5")]),
        (0.7, 14.4, 600, [NEVER.format("14.4", "0.7", MOST, MOST, "2.055, 1.555, 1.177")]),
        (0.95, 0.9, 600, [ALWAYS]),
        (0.95, 6, 60, [UNCOUNTED]),
        (0.95, 6, 121, [UNCOUNTED]),
        (0.95, 6, 259_260, [UNCOUNTED]),
    ],
)
def test_alert_that_could_not_come_or_always_would_is_reported(
    target: float, burn: float, over: float, problems: list[str]
) -> None:
    alert = BurnAlert(burn=burn, over=over)
    flawed_objective = objective(target=target, alerts=(alert,))
    assert [
        f"{flaw.key}: {flaw.what}; {flaw.fix}" for flaw in alert_problem(alert, flawed_objective)
    ] == problems
    assert list(validate_objective(flawed_objective)) == alert_problem(alert, flawed_objective)


def test_a_burn_that_is_no_number_can_never_come() -> None:
    (flaw,) = alert_problem(BurnAlert(burn=float("nan"), over=600), objective())
    assert "can never come" in flaw.what
