"""Queries for figures over time by the values of one dimension, shared by several views."""

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Generic, TypeVar, cast

from sqlalchemy import Connection, select

from dashboards.report_periods import TimeBuckets
from dashboards.reports import Part, ReportPeriod, SpendFilter
from dashboards.views.costs import NO_VALUE, OTHERS, value_label
from proxy.store.sql import schema
from proxy.store.sql.rollups.spend_sums import ValueDimension
from proxy.store.sql.rollups.value_sums import OTHER_VALUES

D = TypeVar("D", bound=str)


@dataclass(frozen=True, slots=True, kw_only=True)
class SeriesQuestion(Generic[D]):
    """A question for a series of each value of a dimension.

    Attributes:
        top: Values kept apart, the largest.
    """

    by: D
    top: int
    period: ReportPeriod
    buckets: TimeBuckets
    only: SpendFilter
    providers: Mapping[str, str]

    @property
    def part(self) -> Part:
        """The part of calls that is read for the dimension."""
        return self.dimension.part

    @property
    def labels(self) -> Mapping[str, str]:
        """Labels of upstreams that have another name than their provider."""
        return self.dimension.labels

    @property
    def dimension(self) -> ValueDimension:
        """The dimension as sums are read by it."""
        return value_dimension(self.by, self.providers)

    @property
    def frame(self) -> Mapping[str, Any]:
        """The fields of a view that say what was asked for."""
        return {
            "first": self.period.first,
            "last": self.period.end - timedelta(days=1),
            "tz": self.period.zone,
            "by": self.by,
            "unit": self.buckets.unit,
            "starts": self.buckets.starts,
            "end": self.buckets.edges[-1],
        }


def value_dimension(by: str, providers: Mapping[str, str]) -> ValueDimension:
    """A dimension as sums are read by it: providers are upstreams with another label."""
    if by != "provider":
        return ValueDimension(cast("Part", by), {})
    labels = {name: whose for name, whose in providers.items() if whose and whose != name}
    return ValueDimension("upstream", labels)


def series_name(value: str, names: Mapping[str, str]) -> Mapping[str, Any]:
    """The fields of a series that say of which value it is."""
    is_others = value == OTHER_VALUES
    return {
        "value": OTHERS if is_others else value or NO_VALUE,
        "name": OTHERS if is_others else value_label(value, names),
        "is_others": is_others,
    }


def value_names(
    connection: Connection,
    by: str,
    values: Collection[str],
    teams: Collection[str] | None = None,
) -> dict[str, str]:
    """Names of the values that are ids; keys of one name have that of their team, too.

    Args:
        teams: The teams that may be named, with their keys; None for all.
    """
    owners = {"team": schema.teams.c.id, "key": schema.keys.c.team}
    if by not in owners or not values:
        return {}
    table, team = owners[by].table.c, schema.teams.c
    query = select(table.id, table.name, team.name.label("team")).where(
        table.id.in_(sorted(values)), team.id == owners[by]
    )
    if teams is not None:
        query = query.where(owners[by].in_(sorted(teams)))
    rows = connection.execute(query).all()
    counts = Counter(row.name for row in rows)
    return {
        row.id: f"{row.name} of {row.team}" if counts[row.name] > 1 else row.name for row in rows
    }


def named_filters(connection: Connection, only: SpendFilter) -> dict[str, str]:
    """Names of the teams and keys that are filtered by, as far as their teams are visible."""
    filters, teams = only.values, only.teams
    return value_names(connection, "team", filters.get("team", ()), teams) | value_names(
        connection, "key", filters.get("key", ()), teams
    )
