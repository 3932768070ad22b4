"""The part of ``thriftgate savings`` on cache marks: surcharges paid, earned back, and lost."""

from collections.abc import Mapping
from typing import Final

import msgspec

from dashboards.reports import ALL_CALLS
from proxy.cli.columns import (
    COUNT,
    FEATURE,
    MONEY,
    Document,
    TableColumn,
    documents,
    text_table,
    with_team,
)
from proxy.cli.terminal import Terminal
from proxy.records.amounts import money, quantity
from proxy.records.mark_account import MAX_TEAM_LOSS_NANOS, MarkTotals, StoredMarkAccount
from proxy.settings import Settings
from proxy.store.store import Store

_LEGEND: Final = (
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


#: Of a feature's account, and of all of them together.
_SUMS: Final[tuple[TableColumn[StoredMarkAccount | MarkTotals], ...]] = (
    TableColumn("staked_usd", "paid ahead", MONEY, lambda sums: sums.staked),
    TableColumn("earned_usd", "earned back", MONEY, lambda sums: sums.earned),
    TableColumn("net_usd", "net", MONEY, lambda sums: sums.earned - sums.staked),
    TableColumn("lost_usd", "lost now", MONEY, lambda sums: sums.lost),
)
_LIMITS: Final[tuple[TableColumn[MarkReport], ...]] = (
    TableColumn("max_lost_usd", form=MONEY, of=lambda report: report.max_loss),
    TableColumn("max_lost_usd_per_team_and_day", form=MONEY, of=lambda _: MAX_TEAM_LOSS_NANOS),
    TableColumn("accounts", of=lambda report: report.totals.accounts),
)


def _columns(names: Mapping[str, str]) -> tuple[TableColumn[StoredMarkAccount], ...]:
    return with_team(
        names,
        TableColumn("feature", "feature", FEATURE, lambda account: account.scope.feature),
        TableColumn("family", "models", of=lambda account: account.scope.family),
        TableColumn("calls", "calls", COUNT),
        *_SUMS,
        team=lambda account: account.scope.team,
    )


def show(terminal: Terminal, report: MarkReport, names: Mapping[str, str]) -> None:
    """Print the features whose marks are counted, and their sum; nothing without any."""
    rows = report.totals.largest
    if not rows:
        return
    terminal.say("")
    terminal.show(text_table(_columns(names), rows))
    more = report.totals.accounts - len(rows)
    rest = f" {quantity(more, 'feature')} more staked less." if more else ""
    terminal.say(_LEGEND, f"{_sum_line(report)}{rest}")


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


def marks_document(report: MarkReport, names: Mapping[str, str]) -> Document:
    """The same for JSON."""
    (sums,), (limits,) = documents(_SUMS, [report.totals]), documents(_LIMITS, [report])
    return sums | limits | {"features": documents(_columns(names), report.totals.largest)}
