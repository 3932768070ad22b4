"""Finds objectives that are invalid: those that could never be missed, met or reported."""

from collections.abc import Callable
from typing import NamedTuple

import msgspec

from slo.budgets.stages import STAGES_OF_TTFT
from slo.objectives import ladder_levels
from slo.objectives.burn import (
    FLOAT_TOLERANCE,
    MAX_ALERT_WINDOW_S,
    MAX_CACHE_SHARE,
    MIN_ALERT_WINDOW_S,
    burn_alerts,
    clear_share,
    max_burn_rate,
)
from slo.objectives.objective import BurnAlert, Enforce, Metric, Objective

#: Targets that can be shown to be missed: of less than one event in 100,000 nothing is known soon.
_LEAST, _MOST = 0.01, 0.99999
_DAY = 86_400.0
_TARGETS = {Metric.ERRORS: "at_most", Metric.CACHE: "floor"}


class ObjectiveProblem(NamedTuple):
    """One thing that is unsound.

    Attributes:
        key: The entry at fault, as policies files name it.
        what: Defect, as the rest of a sentence about it.
        fix: Fix, as an imperative sentence.
    """

    key: str
    what: str
    fix: str


def validate_objective(objective: Objective) -> tuple[ObjectiveProblem, ...]:
    """Everything that is unsound; () for an objective that can be kept watch over."""
    problems = [flaw for check in _CHECKS for flaw in check(objective)]
    if not any(flaw.key == target_key(objective.metric) for flaw in problems):
        problems += [flaw for alert in objective.alerts for flaw in alert_problem(alert, objective)]
        problems += _floor_problem(objective)
    return tuple(problems)


def target_key(metric: Metric) -> str:
    """The key of this metric's target in policies files: ``p``, ``at_most`` or ``floor``."""
    return _TARGETS.get(metric, "p")


def alert_problem(alert: BurnAlert, objective: Objective) -> list[ObjectiveProblem]:
    """Reason that this alert could never come, or always would; its keys are ``burn`` and ``over``.

    Args:
        alert: It need not be one of the objective's.
        objective: One with a sound target.
    """
    max_burn = max_burn_rate(objective.target)
    advice = f"write a burn from 1 to {max_burn:.6g}"
    problems = []
    if not alert.burn <= max_burn + FLOAT_TOLERANCE:
        what = (
            f"is {alert.burn:g}, which can never come: where a share of {objective.target:.6g}"
            f" is wanted, the largest possible burn is {max_burn:.6g}"
        )
        usual = burn_alerts(msgspec.structs.replace(objective, alerts=()))
        named = ", ".join(f"{usual_alert.burn:g}" for usual_alert in usual)
        problems.append(ObjectiveProblem("burn", what, f"{advice}; usual are {named}"))
    elif alert.burn < 1:
        what = f"is {alert.burn:g}, which comes while the objective is kept"
        problems.append(ObjectiveProblem("burn", what, advice))
    if not MIN_ALERT_WINDOW_S <= alert.over <= MAX_ALERT_WINDOW_S or alert.over % 60:
        what = "is no time that is counted"
        fix = 'write whole minutes, from "2m" to "3d"'
        problems.append(ObjectiveProblem("over", what, fix))
    return problems


def _target_problem(objective: Objective) -> list[ObjectiveProblem]:
    key = target_key(objective.metric)
    least, highest = _LEAST, MAX_CACHE_SHARE if objective.metric is Metric.CACHE else _MOST
    if objective.target <= 0:
        what = "is kept whatever happens"
    elif objective.target >= 1:
        what = "leaves nothing to go wrong, so one bad event breaks it for good"
    elif not least <= objective.target <= highest:
        what = "is nearer to nothing or to all than can be counted"
    else:
        return []
    low, high = (1 - highest, 1 - least) if key == "at_most" else (least, highest)
    percents = "" if key == "floor" else " percent"
    scale = 1 if key == "floor" else 100
    fix = f"write from {low * scale:.6g} to {high * scale:.6g}{percents}"
    return [ObjectiveProblem(key, what, fix)]


def _limit_problem(objective: Objective) -> list[ObjectiveProblem]:
    if objective.under is None or 0 < objective.under <= _DAY:
        return []
    return [ObjectiveProblem("under", "is above a day, or nothing", 'write under = "500ms"')]


def _cache_problem(objective: Objective) -> list[ObjectiveProblem]:
    if objective.metric is not Metric.CACHE or objective.enforce in {
        Enforce.OBSERVE,
        Enforce.ALERT,
    }:
        return []
    what = "would change the model, whose cache then knows even less"
    return [ObjectiveProblem("enforce", what, 'write enforce = "alert"')]


def _floor_problem(objective: Objective) -> list[ObjectiveProblem]:
    if objective.metric is not Metric.CACHE:
        return []
    edge = clear_share(objective)
    if not objective.target < edge:
        what = "is not above the floor, which would be missed and kept at once"
        return [ObjectiveProblem("clear", what, f"write more than {objective.target:g}")]
    if edge > MAX_CACHE_SHARE:
        what = "is more than calls can show, so the floor would never be kept again"
        return [ObjectiveProblem("clear", what, f"write at most {MAX_CACHE_SHARE:g}")]
    return []


def _stage_problems(objective: Objective) -> list[ObjectiveProblem]:
    """The problems of budgets of stages: each must be able to make a call late."""
    problems = []
    for budget in objective.stages:
        if objective.metric is Metric.TTFT and budget.stage not in STAGES_OF_TTFT:
            what = f"has {budget.stage}, which comes after the first token"
            fix = 'write gateway, queue or prefill, or metric = "total"'
            problems.append(ObjectiveProblem("stages", what, fix))
        if objective.under is not None and not 0 < budget.under <= objective.under:
            what = f"gives {budget.stage} more time than the whole call, or none"
            fix = "write a time up to that of under"
            problems.append(ObjectiveProblem("stages", what, fix))
    return problems


def _ladder_problem(objective: Objective) -> list[ObjectiveProblem]:
    problem = ladder_levels.ladder_problem(objective.enforce, objective.ladder)
    return [ObjectiveProblem("ladder", problem[0], problem[1])] if problem else []


_CHECKS: tuple[Callable[[Objective], list[ObjectiveProblem]], ...] = (
    _target_problem,
    _limit_problem,
    _cache_problem,
    _ladder_problem,
    _stage_problems,
)
