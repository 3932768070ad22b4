"""Cost reports of spends that a test lists, each with the second of its calls."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

from dashboards.reports import (
    ALL_CALLS,
    BY_TEAM,
    FIXED_PARTS,
    Part,
    ReportPeriod,
    Spend,
    SpendFilter,
    Times,
    reads_receipts,
)
from slo.usage import Usage

_COUNTS = ("calls", "attempts", "answered", "errors", "estimated", "unpriced")


def a_spend(**changes: Any) -> Spend:
    """Spend of one call with 10 tokens that cost 7 of 9 nano-dollars."""
    fields: dict[str, Any] = {
        "team": "t1", "feature": "", "model": "m", "requested": "m", "route": "up/m",
        "upstream": "up", "key": "k", "user": "", "calls": 1, "attempts": 1, "answered": 1,
        "errors": 0,
        "estimated": 0, "unpriced": 0, "usage": Usage(input=6, cache_read=3, output=1),
        "list_nanos": 9, "cost_nanos": 7, "ttft": None, "duration": None,
    }  # fmt: skip
    return Spend(**(fields | changes))


class SpendReports:
    """Answers with the sums of listed spends of calls in a period.

    Args:
        spends: Each with the seconds since the epoch at which it was.
        max_users: Rows of an answer that is split by user, the first.
    """

    def __init__(self, *spends: tuple[float, Spend], max_users: int = 1_000) -> None:
        self._spends = spends
        self._max_users = max_users
        self.periods: list[ReportPeriod] = []

    def spend(
        self, period: ReportPeriod, by: Collection[Part] = BY_TEAM, only: SpendFilter = ALL_CALLS
    ) -> Sequence[Spend]:
        """See ``Reports.spend``."""
        self.periods.append(period)
        start, end = period.bounds
        blank: dict[str, Any] = {part: None for part in FIXED_PARTS if part not in by}
        spends: dict[tuple[str, ...], Spend] = {}
        for second, spend in self._spends:
            if start <= second < end and _counts(spend, only):
                key = spend.values(by)
                one = replace(spend, **blank)
                spends[key] = _sum(spends[key], one) if key in spends else one
        return list(spends.values())[: self._max_users if reads_receipts(by) else None]

    def times(
        self, period: ReportPeriod, by: Collection[Part] = BY_TEAM
    ) -> Mapping[tuple[str, ...], Times]:
        """See ``Reports.times``; nothing was timed."""
        return {}


def _counts(spend: Spend, only: SpendFilter) -> bool:
    teams = only.counted_teams
    if teams is not None and spend.team not in teams:
        return False
    return all(spend.value(part) in values for part, values in only.values.items())


def _sum(one: Spend, other: Spend) -> Spend:
    usage = {
        name: getattr(one.usage, name) + getattr(other.usage, name)
        for name in Usage.__struct_fields__
    }
    sums: dict[str, Any] = {name: getattr(one, name) + getattr(other, name) for name in _COUNTS}
    for name in ("list_nanos", "cost_nanos"):
        amounts = [n for spend in (one, other) if (n := getattr(spend, name)) is not None]
        sums[name] = sum(amounts) if amounts else None
    return replace(one, **sums, usage=Usage(**usage))
