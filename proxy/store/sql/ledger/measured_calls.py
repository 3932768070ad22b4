"""Finds the calls that an alert or an objective counted: by their end, their target, a route."""

from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy import ColumnElement, and_, case, func, select

from proxy.records.receipt import Outcome
from proxy.store.sql import schema
from proxy.store.sql.timestamps import micros
from slo.objectives.objective import EVERY, STAGE_METRICS, Metric, Objective, RequestKind

_CALLS: Final = schema.calls.c
FAILED: Final = frozenset({Outcome.FAILED.value, Outcome.BROKEN.value})
"""Outcomes of calls and attempts that an upstream failed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredCalls:
    """Calls that were counted.

    Attributes:
        ended_from: They ended at or after it, in seconds since the epoch; None for any time.
        ended_to: They ended before it.
        missed: They missed this objective; None for any.
        failed_route: An attempt on this route failed; "" for any.
    """

    ended_from: float | None = None
    ended_to: float | None = None
    missed: Objective | None = None
    failed_route: str = ""


def measured_conditions(measured: MeasuredCalls) -> list[ColumnElement[bool]]:
    """Conditions on the last attempts of these calls."""
    ended = _CALLS.started + _CALLS.duration
    conditions: list[ColumnElement[bool]] = []
    if measured.ended_from is not None:
        conditions.append(ended >= micros(measured.ended_from))
    if measured.ended_to is not None:
        conditions.append(ended < micros(measured.ended_to))
    if measured.missed is not None:
        conditions += _missed_conditions(measured.missed)
    if measured.failed_route:
        attempts = schema.calls.alias("failed_attempts").c
        failed = select(attempts.call_id).where(
            attempts.call_id == _CALLS.call_id,
            attempts.route == measured.failed_route,
            attempts.outcome.in_(sorted(FAILED)),
        )
        conditions.append(failed.exists())
    return conditions


def _missed_conditions(objective: Objective) -> list[ColumnElement[bool]]:
    """Conditions on the calls that ``slo.objectives.objective.classify_call`` counts as bad."""
    conditions: list[ColumnElement[bool]] = [_CALLS.outcome != Outcome.REFUSED.value]
    if objective.team != EVERY:
        teams = schema.teams.c
        own = select(teams.id).where(teams.name == objective.team)
        conditions.append(_CALLS.team == own.scalar_subquery())
    if objective.feature != EVERY:
        conditions.append(_CALLS.feature == objective.feature)
    if objective.calls is not RequestKind.ALL:
        conditions.append(_CALLS.streamed == int(objective.calls is RequestKind.STREAMS))
    return [*conditions, _is_bad(objective)]


def _is_bad(objective: Objective) -> ColumnElement[bool]:
    if objective.metric is Metric.ERRORS:
        return _CALLS.outcome.in_(sorted(FAILED))
    if objective.metric is Metric.CACHE:
        return _CALLS.miss.is_not(None)
    if objective.metric is Metric.COST:
        return _cost_of_attempts() > (objective.under_nanos or 0)
    limit = micros(objective.under or 0.0)
    if objective.metric is Metric.TTFT:
        return func.coalesce(_CALLS.ttft, _CALLS.duration) > limit
    stage = STAGE_METRICS.get(objective.metric)
    return (_CALLS.duration if stage is None else _CALLS[stage.value]) > limit


def _cost_of_attempts() -> ColumnElement[Any]:
    """Cost of all attempts of a call, in nano-dollars; null where one is unknown."""
    attempts = schema.calls.alias("paid_attempts").c
    is_unpriced = and_(
        attempts.cost_nanos.is_(None), attempts.input.is_not(None) | attempts.ttft.is_not(None)
    )
    unpriced = func.sum(case((is_unpriced, 1), else_=0))
    cost = case((unpriced > 0, None), else_=func.sum(attempts.cost_nanos))
    return select(cost).where(attempts.call_id == _CALLS.call_id).scalar_subquery()
