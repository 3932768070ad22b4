"""Sums of what was saved, read from rollups for any period."""

from collections.abc import Mapping, Sequence
from datetime import date, datetime
from typing import Any, Final
from zoneinfo import ZoneInfo

import msgspec
from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Connection,
    Select,
    Table,
    case,
    cast,
    func,
    select,
)

from dashboards.reports import ALL_CALLS, SpendFilter
from dashboards.savings_headline import SavingsSums
from proxy.records.receipt import answering_model
from proxy.store.sql import schema
from proxy.store.sql.rollups.bucket_sums import SumQuery, bucket_sums
from proxy.store.sql.rollups.rollup_tables import (
    rollup_days,
    rollup_fallbacks,
    rollup_fast_path,
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
_SAVINGS: Final = (*_SUMMED, "prompt_tokens", "unknown_cached_tokens")
_PROMPT_BUCKETS: Final = tuple(
    name for name in schema.BUCKETS if name not in {"output", "reasoning"}
)
_PLACE: Final = ("team", "feature", "model", "route")
_NO_FALLBACKS: Final = dict.fromkeys(("calls", *schema.BUCKETS, "list_nanos"), 0)
_NONE_UNANSWERED: Final = {**_NO_FALLBACKS, "extra_nanos": 0}
_PARTS: Final = ("cache", "small", "draft", "checks")
_FAST_PATH_SAVINGS: Final = (*(f"{part}_nanos" for part in _PARTS), "fast_path_discount_nanos")
_NO_FAST_PATH: Final = dict.fromkeys(
    ("calls", *schema.BUCKETS, "list_nanos", *_FAST_PATH_SAVINGS), 0
)


class ReroutedUsage(msgspec.Struct, frozen=True):
    """Usage of attempts of a place that answered with another model than was asked for.

    Attributes:
        is_fallback: True if the model asked for failed or missed an objective, so that its caller
            would not have had this answer from it.
    """

    place: "SavingsPlace"
    calls: int
    usage: Usage
    list_nanos: int
    is_fallback: bool = False


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
    unanswered = _read_parts(connection, (rollup_unanswered, _NONE_UNANSWERED), period, only)
    fallbacks = _read_parts(connection, (rollup_fallbacks, _NO_FALLBACKS), period, only)
    fast_path = _read_fast_path(connection, period, only)
    places: dict[SavingsPlace, SavingsSums] = {}
    rerouted: list[ReroutedUsage] = []
    for (_, team, feature, requested, route), sums in bucket_sums(
        connection, period, query
    ).items():
        place = team, feature, requested, route
        lost = unanswered.get(place, _NONE_UNANSWERED)
        fast = fast_path.get(place, _NO_FAST_PATH)
        extra = {name: fast[name] for name in _FAST_PATH_SAVINGS}
        extra["routing_nanos"] = -lost["extra_nanos"]
        places[place] = SavingsSums(**{name: sums[name] for name in _SAVINGS}, **extra)
        if answering_model(route, requested) != requested:
            fallen_back = fallbacks.get(place, _NO_FALLBACKS)
            rerouted += _rerouted_usage(place, sums, (lost, fast, fallen_back))
            rerouted += _fallback_usage(place, fallen_back)
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


def first_call_day(connection: Connection, end: int, zone: str) -> date | None:
    """The day of the ledger's first call before a moment; None without a call."""
    first = first_quarter(connection, (0, end), ALL_CALLS)
    return None if first is None else datetime.fromtimestamp(first, ZoneInfo(zone)).date()


def _read_parts(
    connection: Connection,
    source: tuple[Table, Mapping[str, int]],
    period: tuple[int, int],
    only: SpendFilter,
) -> dict[SavingsPlace, dict[str, int]]:
    """Sums of a table that has a part of the rollups, by place.

    Args:
        source: The table, and its sums of nothing.
    """
    rows, names = source[0].c, [*source[1]]
    places = [rows[name] for name in _PLACE]
    sums = (cast(func.sum(rows[name]), BigInteger) for name in names)
    conditions = (rows.quarter.between(period[0], period[1] - 1), *filter_conditions(rows, only))
    query = select(*places, *sums).where(*conditions).group_by(*places)
    return {
        (team, feature, requested, route): dict(zip(names, numbers, strict=True))
        for team, feature, requested, route, *numbers in connection.execute(query)
    }


def _read_fast_path(
    connection: Connection, period: tuple[int, int], only: SpendFilter
) -> dict[SavingsPlace, dict[str, int]]:
    """Sums of attempts of which the fast path's saving is known, by place."""
    rows = rollup_fast_path.c
    places = [rows[name] for name in _PLACE]
    addends = [
        rows.saved_calls,
        *(rows[name] for name in (*schema.BUCKETS, "list_nanos")),
        *(case((rows.part == part, rows.saved_nanos), else_=0) for part in _PARTS),
        rows.list_nanos - rows.cost_nanos,
    ]
    sums = (cast(func.sum(addend), BigInteger) for addend in addends)
    conditions = (rows.quarter.between(period[0], period[1] - 1), *filter_conditions(rows, only))
    query = select(*places, *sums).where(*conditions).group_by(*places)
    return {
        (team, feature, requested, route): dict(zip(_NO_FAST_PATH, numbers, strict=True))
        for team, feature, requested, route, *numbers in connection.execute(query)
    }


def _savings(rows: Columns) -> Mapping[str, ColumnElement[Any]]:
    is_unknown = rows.read_saved_nanos.is_(None) & rows.list_nanos.is_not(None)
    is_priced = rows.list_nanos.is_not(None)
    priced = ("calls", *schema.BUCKETS)
    return {
        **{name: rows[name] for name in _SUMMED},
        "prompt_tokens": sum((rows[name] for name in _PROMPT_BUCKETS), start=rows.input * 0),
        "unknown_cached_tokens": case((is_unknown, rows.cache_read), else_=0),
        **{f"priced_{name}": case((is_priced, rows[name]), else_=0) for name in priced},
    }


def _rerouted_usage(
    place: SavingsPlace, sums: Mapping[str, int], others: Sequence[Mapping[str, int]]
) -> list[ReroutedUsage]:
    """The usage at a known price of attempts that answered; [] without any.

    Args:
        others: Sums of attempts that did not, of the fast path's and of fallbacks.
    """

    def rest(whole: str, name: str) -> int:
        return sums[whole] - sum(part[name] for part in others)

    rerouted = ReroutedUsage(
        place=place,
        calls=rest("priced_calls", "calls"),
        usage=Usage(**{name: rest(f"priced_{name}", name) for name in schema.BUCKETS}),
        list_nanos=rest("list_nanos", "list_nanos"),
    )
    is_any = rerouted.calls or rerouted.list_nanos or rerouted.usage != Usage()
    return [rerouted] if is_any else []


def _fallback_usage(place: SavingsPlace, sums: Mapping[str, int]) -> list[ReroutedUsage]:
    """The usage of a place that fallbacks answered; [] without any."""
    if not any(sums.values()):
        return []
    usage = Usage(**{name: sums[name] for name in schema.BUCKETS})
    return [ReroutedUsage(place, sums["calls"], usage, sums["list_nanos"], is_fallback=True)]
