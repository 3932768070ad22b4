"""Conditions on calls by all their attempts, and on those that an alert or objective counted."""

from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy import BigInteger, ColumnElement, and_, case, cast, func, select

from proxy.records.receipt import Outcome
from proxy.store.sql import schema
from proxy.store.sql.rollups.spend_filters import Columns
from proxy.store.sql.timestamps import micros
from slo.objectives.objective import EVERY, STAGE_METRICS, Metric, Objective, RequestKind

_CALLS: Final = schema.calls.c
FAILED: Final = frozenset({Outcome.FAILED.value, Outcome.BROKEN.value})
"""Outcomes of attempts that an upstream failed, and of calls that count as errors."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredCalls:
    """Calls that were counted.

    Attributes:
        ended_from: They ended at or after it, in seconds since the epoch; None for any time.
        ended_to: They ended before it.
        missed: They missed this objective; None for any.
    """

    ended_from: float | None = None
    ended_to: float | None = None
    missed: Objective | None = None


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
    return conditions


def cost_of_attempts() -> ColumnElement[Any]:
    """Cost of all attempts of a call, in nano-dollars; null where one is unknown.

    It adds up what ``Receipt.spent_nanos`` is of each.
    """
    attempts = schema.calls.alias("paid_attempts").c
    is_unknown = and_(
        attempts.cost_nanos.is_(None), attempts.input.is_not(None) | attempts.ttft.is_not(None)
    )
    unpriced = func.sum(case((is_unknown, 1), else_=0))
    total = cast(func.coalesce(func.sum(attempts.cost_nanos), 0), BigInteger)
    cost = case((unpriced > 0, None), else_=total)
    return (
        select(cost)
        .where(attempts.call_id == _CALLS.call_id)
        .correlate(schema.calls)
        .scalar_subquery()
    )


def is_unpriced() -> ColumnElement[bool]:
    """True for calls with an attempt that used tokens or was answered, at an unknown price."""
    attempts = schema.calls.alias("unpriced_attempts").c
    is_used = attempts.input.is_not(None) | (attempts.outcome == Outcome.ANSWERED.value)
    unpriced = select(attempts.call_id).where(
        attempts.call_id == _CALLS.call_id, attempts.cost_nanos.is_(None), is_used
    )
    return unpriced.correlate(schema.calls).exists()


def error_of(attempts: Columns) -> ColumnElement[str]:
    """The code of an attempt's error, and its outcome where the error has none."""
    return func.coalesce(func.nullif(attempts.error, ""), attempts.outcome)


def met_conditions(status: int, error: str, failed_route: str) -> list[ColumnElement[bool]]:
    """The condition that one attempt of a call ended so; none where nothing is asked for.

    Args:
        status: The HTTP status that it ended in; 0 for any.
        error: Its error's code; "" for any.
        failed_route: The route on which it failed; "" for any.
    """
    if not (status or error or failed_route):
        return []
    attempts = schema.calls.alias("met_attempts").c
    conditions: list[ColumnElement[bool]] = []
    if status:
        conditions.append(attempts.status == status)
    if error:
        conditions.append(error_of(attempts) == error)
    if failed_route:
        conditions += [
            attempts.route == failed_route,
            attempts.outcome.in_(sorted(FAILED)),
        ]
    met = select(attempts.call_id).where(attempts.call_id == _CALLS.call_id, *conditions)
    return [met.correlate(schema.calls).exists()]


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
        return cost_of_attempts() > (objective.under_nanos or 0)
    limit = micros(objective.under or 0.0)
    if objective.metric is Metric.TTFT:
        return func.coalesce(_CALLS.ttft, _CALLS.duration) > limit
    stage = STAGE_METRICS.get(objective.metric)
    return (_CALLS.duration if stage is None else _CALLS[stage.value]) > limit
