"""Sums of what was saved and missed, read from rollups for any period."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec
from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Connection,
    Engine,
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
from proxy.store.sql.database import read_transaction
from proxy.store.sql.rollups.bucket_sums import SumQuery, bucket_sums
from proxy.store.sql.rollups.rollup_tables import (
    rollup_days,
    rollup_misses,
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
    "notes_nanos",
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


class MissTotals(msgspec.Struct, frozen=True):
    """Cache misses for one reason, summed.

    Attributes:
        reason: The reason.
        attempts: Attempts that missed for it.
        tokens: Tokens that they did not read.
        nanos: Cost of that in nano-dollars; 0 where none is known.
        example: Id of the newest such call.
        team: Id of the team; "" where all are summed.
        feature: The feature; "" where all are summed, and for calls that name none.
    """

    reason: str
    attempts: int
    tokens: int
    nanos: int
    example: str
    team: str = ""
    feature: str = ""


SavingsPlace = tuple[str, str, str, str]
"""Team, feature, model asked for and route, which sums of savings are told apart by."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SavingsByPlace:
    """Savings of a period, all read at once.

    Attributes:
        places: Sums by place; ``routing_nanos`` has but what attempts without an answer cost more.
        rerouted: Usage that another model answered than was asked for, at a known price.
    """

    places: dict[SavingsPlace, SavingsSums]
    rerouted: list[ReroutedUsage]


class SavingsReader:
    """Savings in one database; every method may block."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def sums_by_place(self, start: int, end: int, only: SpendFilter) -> SavingsByPlace:
        """Sums by place, and usage that another model answered than was asked for.

        Args:
            start: A moment, in seconds since the epoch.
            end: A later one.
            only: Calls that count.
        """
        query = SumQuery(
            place=lambda rows: [rows.team, rows.feature, rows.model, rows.route],
            addends=_savings,
            only=only,
        )
        with read_transaction(self._engine, is_snapshot=True) as connection:
            found = bucket_sums(connection, (start, end), query)
            unanswered = _read_unanswered(connection, start, end, only)
        places: dict[SavingsPlace, SavingsSums] = {}
        rerouted: list[ReroutedUsage] = []
        for (_, team, feature, requested, route), sums in found.items():
            place = team, feature, requested, route
            lost = unanswered.get(place, _NONE_UNANSWERED)
            extra = {"routing_nanos": -lost["extra_nanos"]}
            places[place] = SavingsSums(**{name: sums[name] for name in _SAVINGS}, **extra)
            if answering_model(route, requested) != requested:
                rerouted += _rerouted_usage(place, sums, lost)
        return SavingsByPlace(places=places, rerouted=rerouted)

    def first_quarter(self, start: int, end: int, only: SpendFilter) -> int | None:
        """The beginning of the first quarter of an hour with a call; None without a call.

        The arguments are those of ``sums_by_place``.
        """
        day = rollup_days.c.day
        first_day = select(func.min(day)).where(
            day.between(start // _DAY_S, (end - 1) // _DAY_S),
            rollup_days.c.calls > 0,
            *filter_conditions(rollup_days.c, only),
        )

        def first(rows: Columns) -> Select[Any]:
            conditions = rows.quarter.between(start, end - 1), rows.calls > 0
            return select(func.min(rows.quarter)).where(*conditions, *filter_conditions(rows, only))

        with read_transaction(self._engine, is_snapshot=True) as connection:
            found = [connection.execute(first(rollup_pending.c)).scalar()]
            known = connection.execute(first_day).scalar()
            if known is not None:
                # Calls of its first hours may be before the start; the next day has some, or none.
                days = rollups.c.day.between(known, known + 1)
                quarter = connection.execute(first(rollups.c).where(days)).scalar()
                found.append(max(start, (known + 1) * _DAY_S) if quarter is None else quarter)
        return min((quarter for quarter in found if quarter is not None), default=None)

    def misses(
        self,
        start: int,
        end: int,
        only: SpendFilter,
        *,
        limit: int,
        reasons: Collection[str] | None = None,
    ) -> Sequence[MissTotals]:
        """Misses by feature and reason, the dearest first, of whole days of UTC.

        Args:
            start: A moment of the first day, in seconds since the epoch.
            end: A moment of the last day; its midnight belongs to the day before.
            only: Calls that count; keys are not told apart.
            limit: Most rows.
            reasons: Reasons that count; None for all.
        """
        rows = rollup_misses.c
        query = _misses((rows.team, rows.feature), start, end, only).limit(limit)
        if reasons is not None:
            query = query.where(rows.reason.in_(sorted(reasons)))
        return self._read_misses(query)

    def misses_by_reason(self, start: int, end: int, only: SpendFilter) -> Sequence[MissTotals]:
        """Misses by reason alone; the arguments are those of ``misses``."""
        return self._read_misses(_misses((), start, end, only))

    def _read_misses(self, query: Select[Any]) -> Sequence[MissTotals]:
        with read_transaction(self._engine) as connection:
            return [MissTotals(*row) for row in connection.execute(query)]


def _misses(
    places: Sequence[ColumnElement[str]], start: int, end: int, only: SpendFilter
) -> Select[Any]:
    """Misses by reason and these columns, in the order of the fields of ``MissTotals``."""
    rows = rollup_misses.c
    nanos = cast(func.coalesce(func.sum(rows.nanos), 0), BigInteger)
    tokens = cast(func.sum(rows.tokens), BigInteger)
    attempts = cast(func.sum(rows.attempts), BigInteger)
    days = rows.day.between(start // _DAY_S, (end - 1) // _DAY_S)
    return (
        select(rows.reason, attempts, tokens, nanos, func.max(rows.example), *places)
        .where(days, *filter_conditions(rows, only))
        .group_by(*places, rows.reason)
        .order_by(nanos.desc(), tokens.desc(), *places, rows.reason)
    )


def _read_unanswered(
    connection: Connection, start: int, end: int, only: SpendFilter
) -> dict[SavingsPlace, dict[str, int]]:
    """Sums of attempts without an answer, by place."""
    rows = rollup_unanswered.c
    places = [rows[name] for name in _PLACE]
    sums = (cast(func.sum(rows[name]), BigInteger) for name in _NONE_UNANSWERED)
    conditions = (rows.quarter.between(start, end - 1), *filter_conditions(rows, only))
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
    found = ReroutedUsage(
        place=place,
        calls=sums["priced_calls"] - unanswered["calls"],
        usage=Usage(**{name: sums[f"priced_{name}"] - unanswered[name] for name in schema.BUCKETS}),
        list_nanos=sums["list_nanos"] - unanswered["list_nanos"],
    )
    return [found] if found.calls or found.list_nanos or found.usage != Usage() else []
