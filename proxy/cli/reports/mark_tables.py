"""The part of ``thriftgate savings`` on cache marks: surcharges paid, earned back, and lost."""

from collections.abc import Mapping
from typing import Any, Final

import msgspec
from rich.text import Text

from dashboards.reports import ALL_CALLS
from proxy.cli.json_documents import usd
from proxy.cli.terminal import Terminal, empty_table, feature_name
from proxy.records.amounts import column, money, quantity
from proxy.records.mark_account import MAX_TEAM_LOSS_NANOS, MarkTotals
from proxy.settings import Settings
from proxy.store.store import Store

_FIGURES: Final = ("calls", "paid ahead", "earned back", "net", "lost now")
_COLUMNS: Final = (
    "Paid ahead: the surcharge for storing prompts in the cache. Earned back: what reading them"
    " saved. Lost now: what of it has not come back. Calls of the control arm, which are sent"
    " without the gateway's marks, are not counted."
)
#: Features that are listed, those that staked most.
_MAX_FEATURES: Final = 50


class MarkReport(msgspec.Struct, frozen=True):
    """Sums of what cache marks cost and earned, and what a feature may lose, in nano-dollars."""

    totals: MarkTotals
    max_loss: int


def read_marks(store: Store, settings: Settings) -> MarkReport:
    """The accounts of all features; blocks."""
    totals = store.mark_accounts.totals(ALL_CALLS, _MAX_FEATURES)
    return MarkReport(totals, settings.learning_stake_nanos)


def show(terminal: Terminal, report: MarkReport, names: Mapping[str, str]) -> None:
    """Print the features whose marks are counted, and their sum; nothing without any."""
    rows = report.totals.largest
    if not rows:
        return
    terminal.say("")
    table = empty_table("team", "feature", "models", *_FIGURES, right=_FIGURES)
    sums = (
        column(row.staked for row in rows),
        column(row.earned for row in rows),
        column(row.earned - row.staked for row in rows),
        column(row.lost for row in rows),
    )
    for row, *cells in zip(rows, *sums, strict=True):
        team = names.get(row.scope.team, row.scope.team)
        place = (team, feature_name(row.scope.feature), row.scope.family)
        table.add_row(*map(Text, (*place, f"{row.calls:,}", *cells)))
    terminal.show(table)
    more = report.totals.accounts - len(rows)
    rest = f" {quantity(more, 'feature')} more staked less." if more else ""
    terminal.say(_COLUMNS, f"{_sum_line(report)}{rest}")


def _sum_line(report: MarkReport) -> str:
    totals = report.totals
    limit = (
        f"At most {money(report.max_loss)} a feature (the write surcharge of one prompt, where that"
        f" is more) and {money(MAX_TEAM_LOSS_NANOS)} a team and day may be lost."
        if report.max_loss
        else "Nothing is paid ahead any more: THRIFTGATE_LEARNING_STAKE is 0."
    )
    return (
        f"Cache marks: paid ahead {money(totals.staked)}, earned back {money(totals.earned)}, net"
        f" {money(totals.earned - totals.staked)}. {limit} Lost now: {money(totals.lost)}. All"
        " since a feature's first call; a loss counts half after a day."
    )


def marks_document(report: MarkReport, names: Mapping[str, str]) -> dict[str, Any]:
    """The same for JSON, in US dollars."""
    totals = report.totals
    return _sums(totals.staked, totals.earned, totals.lost) | {
        "max_lost_usd": usd(report.max_loss),
        "max_lost_usd_per_team_and_day": usd(MAX_TEAM_LOSS_NANOS),
        "accounts": totals.accounts,
        "features": [
            {
                "team": names.get(row.scope.team, row.scope.team),
                "team_id": row.scope.team,
                "feature": row.scope.feature,
                "family": row.scope.family,
                "calls": row.calls,
            }
            | _sums(row.staked, row.earned, row.lost)
            for row in totals.largest
        ],
    }


def _sums(staked: int, earned: int, lost: int) -> dict[str, str | None]:
    return {
        "staked_usd": usd(staked),
        "earned_usd": usd(earned),
        "net_usd": usd(earned - staked),
        "lost_usd": usd(lost),
    }
