"""Sums of what was saved, read from rollups for any period."""

from collections.abc import Mapping
from typing import Any, Final

import msgspec
from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Connection,
    Select,
    case,
    cast,
    func,
    select,
)

from dashboards.reports import SpendFilter
from dashboards.savings_headline import SavingsSums
from proxy.records.receipt import answering_model
from proxy.store.sql import schema
from proxy.store.sql.rollups.bucket_sums import SumQuery, bucket_sums
from proxy.store.sql.rollups.rollup_tables import (
    rollup_days,
    rollup_pending,
    rollup_unanswered,
)
from proxy.store.sql.rollups.spend_filters import Columns, filter_conditions
from proxy.store.sql.schema import rollups
from slo.usage import Usage

_DAY_S: Final = 86_400
_SUMMED: Final = (
    "list_nanos",
    "cost_nanos",
    "read_saved_nanos",
    "write_extra_nanos",
    "planning_nanos",
    "planned_cost_nanos",
    "compaction_nanos",
    "calls",
    "unpriced",
)
_SAVINGS: Final = (*_SUMMED, "unknown_cached_tokens")
_PLACE: Final = ("team", "feature", "model", "route")
_NONE_UNANSWERED: Final = dict.fromkeys(("calls", *schema.BUCKETS, "list_nanos", "extra_nanos"), 0)


class ReroutedUsage(msgspec.Struct, frozen=True):
    """Usage of attempts of a place that answered with another model than was asked for."""

    place: "SavingsPlace"
    calls: int
    usage: Usage
    list_nanos: int


SavingsPlace = tuple[str, str, str, str]
"""Team, feature, model asked for and route, which sums of savings are told apart by."""


def sums_by_place(
    connection: Connection, period: tuple[int, int], only: SpendFilter
) -> tuple[dict[SavingsPlace, SavingsSums], list[ReroutedUsage]]:
    """Sums by place, and usage at a known price that another model answered than was asked for.

    ``routing_nanos`` has but what attempts without an answer cost more.

    Args:
        connection: Of one transaction, all of whose statements see the same rows.
        period: Its beginning and end, in seconds since the epoch.
    """
    query = SumQuery(
        place=lambda rows: [rows.team, rows.feature, rows.model, rows.route],
        addends=_savings,
        only=only,
    )
    unanswered = _read_unanswered(connection, period, only)
    places: dict[SavingsPlace, SavingsSums] = {}
    rerouted: list[ReroutedUsage] = []
    for (_, team, feature, requested, route), sums in bucket_sums(
        connection, period, query
    ).items():
        place = team, feature, requested, route
        lost = unanswered.get(place, _NONE_UNANSWERED)
        extra = {"routing_nanos": -lost["extra_nanos"]}
        places[place] = SavingsSums(**{name: sums[name] for name in _SAVINGS}, **extra)
        if answering_model(route, requested) != requested:
            rerouted += _rerouted_usage(place, sums, lost)
    return places, rerouted


def first_quarter(connection: Connection, period: tuple[int, int], only: SpendFilter) -> int | None:
    """The beginning of the first quarter of an hour with a call; None without a call."""
    start, end = period
    day = rollup_days.c.day
    first_day = select(func.min(day)).where(
        day.between(start // _DAY_S, (end - 1) // _DAY_S),
        rollup_days.c.calls > 0,
        *filter_conditions(rollup_days.c, only),
    )

    def first(rows: Columns) -> Select[Any]:
        conditions = rows.quarter.between(start, end - 1), rows.calls > 0
        return select(func.min(rows.quarter)).where(*conditions, *filter_conditions(rows, only))

    quarters = [connection.execute(first(rollup_pending.c)).scalar()]
    day_number = connection.execute(first_day).scalar()
    if day_number is not None:
        # Calls of its first hours may be before the start; the next day has some, or none.
        days = rollups.c.day.between(day_number, day_number + 1)
        quarter = connection.execute(first(rollups.c).where(days)).scalar()
        quarters.append(max(start, (day_number + 1) * _DAY_S) if quarter is None else quarter)
    return min((quarter for quarter in quarters if quarter is not None), default=None)


def _read_unanswered(
    connection: Connection, period: tuple[int, int], only: SpendFilter
) -> dict[SavingsPlace, dict[str, int]]:
    """Sums of attempts without an answer, by place."""
    rows = rollup_unanswered.c
    places = [rows[name] for name in _PLACE]
    sums = (cast(func.sum(rows[name]), BigInteger) for name in _NONE_UNANSWERED)
    conditions = (rows.quarter.between(period[0], period[1] - 1), *filter_conditions(rows, only))
    query = select(*places, *sums).where(*conditions).group_by(*places)
    return {
        (team, feature, requested, route): dict(zip(_NONE_UNANSWERED, numbers, strict=True))
        for team, feature, requested, route, *numbers in connection.execute(query)
    }


def _savings(rows: Columns) -> Mapping[str, ColumnElement[Any]]:
    is_unknown = rows.read_saved_nanos.is_(None) & rows.list_nanos.is_not(None)
    is_priced = rows.list_nanos.is_not(None)
    priced = ("calls", *schema.BUCKETS)
    return {
        **{name: rows[name] for name in _SUMMED},
        "unknown_cached_tokens": case((is_unknown, rows.cache_read), else_=0),
        **{f"priced_{name}": case((is_priced, rows[name]), else_=0) for name in priced},
    }


def _rerouted_usage(
    place: SavingsPlace, sums: Mapping[str, int], unanswered: Mapping[str, int]
) -> list[ReroutedUsage]:
    """The usage at a known price of attempts that answered; [] without any."""
    rerouted = ReroutedUsage(
        place=place,
        calls=sums["priced_calls"] - unanswered["calls"],
        usage=Usage(**{name: sums[f"priced_{name}"] - unanswered[name] for name in schema.BUCKETS}),
        list_nanos=sums["list_nanos"] - unanswered["list_nanos"],
    )
    is_any = rerouted.calls or rerouted.list_nanos or rerouted.usage != Usage()
    return [rerouted] if is_any else []
