"""Tables of compaction by feature: calls, tokens and money, and reduced modes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

import msgspec

from proxy.cli.columns import (
    COUNT,
    FEATURE,
    MONEY,
    SHARE,
    Document,
    TableColumn,
    documents,
    rate,
    text_table,
    with_team,
)
from proxy.cli.terminal import Terminal, format_time
from proxy.records.amounts import money, quantity
from proxy.records.compaction_settings import FeatureSettings, SettingsSnapshot

if TYPE_CHECKING:
    from proxy.store.sql.ledger.compaction_receipts import CompactionTotals


class FeatureCompaction(msgspec.Struct, frozen=True):
    """A feature that was compacted, or whose compaction was reduced.

    Attributes:
        team: Its team's id.
    """

    team: str
    feature: str
    setting: FeatureSettings
    sums: CompactionTotals

    @property
    def is_stepped_back(self) -> bool:
        """True if compaction was reduced, as live calls lost too much, and not resumed since."""
        return self.setting.stepped is not None

    @property
    def has_effect(self) -> bool:
        """True if a call was compacted, or the money of compaction is known."""
        sums = self.sums
        return bool(sums.compacted + sums.trimmed or sums.nanos)


class CompactionTotal(msgspec.Struct, frozen=True, kw_only=True):
    """The totals of all features.

    Attributes:
        nanos: Savings in 1e-9 US dollars, net of resets, as far as they are known; None where they
            are unknown.
    """

    nanos: int | None
    features: int
    stepped_back: int

    @property
    def share(self) -> float | None:
        """The part of the features whose compaction was reduced; None without features."""
        return self.stepped_back / self.features if self.features else None


def feature_compactions(
    chosen: SettingsSnapshot, sums: Sequence[CompactionTotals], *, also_unused: bool = False
) -> list[FeatureCompaction]:
    """Features in the totals or with reduced compaction, in order; or all with a setting, too."""
    called = {(totals.team, totals.feature): totals for totals in sums}
    settings = chosen.features.items()
    listed = {place for place, setting in settings if also_unused or setting.stepped is not None}
    return [
        FeatureCompaction(*place, chosen.of(*place), called.get(place) or _no_calls(*place))
        for place in sorted({*called, *listed})
    ]


def _no_calls(team: str, feature: str) -> CompactionTotals:
    from proxy.store.sql.ledger.compaction_receipts import CompactionTotals

    return CompactionTotals(
        team=team, feature=feature, nanos=None, calls=0, compacted=0, resets=0, tokens_before=0,
        tokens_after=0, needed=0, lost=0,
    )  # fmt: skip


def compaction_total(features: Sequence[FeatureCompaction]) -> CompactionTotal:
    """The features' totals."""
    sums = [feature.sums for feature in features]
    saved = [totals.nanos for totals in sums if totals.nanos is not None]
    return CompactionTotal(
        nanos=sum(saved) if saved else None,
        features=len(features),
        stepped_back=sum(feature.is_stepped_back for feature in features),
    )


#: The totals of a feature as its document has them.
SUMS: Final[tuple[TableColumn[FeatureCompaction], ...]] = (
    TableColumn("calls", "calls", COUNT, lambda feature: feature.sums.calls),
    TableColumn("compacted", "compacted", COUNT, lambda feature: feature.sums.compacted),
    TableColumn("trimmed", "trimmed", COUNT, lambda feature: feature.sums.trimmed),
    TableColumn("resets", "resets", COUNT, lambda feature: feature.sums.resets),
    TableColumn("tokens_saved", "tokens saved", COUNT, lambda feature: feature.sums.tokens_saved),
    TableColumn("saved_usd", "saved", MONEY, lambda feature: feature.sums.nanos),
    TableColumn(
        "lost_share", "needed values lost", SHARE, lambda f: rate(f.sums.lost, f.sums.needed)
    ),
    TableColumn(
        "control_lost_share",
        "needed values lost in control",
        SHARE,
        lambda feature: rate(feature.sums.control_lost, feature.sums.control_needed),
    ),
)
_TOTAL: Final[tuple[TableColumn[CompactionTotal], ...]] = (
    TableColumn("saved_usd", form=MONEY, of=lambda total: total.nanos),
    TableColumn("features"),
    TableColumn("stepped_back"),
    TableColumn("stepped_back_share", of=lambda total: total.share),
)


def place_columns(names: Mapping[str, str]) -> tuple[TableColumn[FeatureCompaction], ...]:
    """The columns of a feature and its team."""
    return with_team(names, TableColumn("feature", "feature", FEATURE))


def savings_documents(features: Sequence[FeatureCompaction], names: Mapping[str, str]) -> Document:
    """The savings of compaction by feature, and in all."""
    back: TableColumn[FeatureCompaction] = TableColumn(
        "stepped_back", of=lambda row: row.setting.why
    )
    (total,) = documents(_TOTAL, [compaction_total(features)])
    rows = documents((*place_columns(names), back, *SUMS), features)
    return {"compaction": rows, "compaction_total": total}


def show(
    terminal: Terminal, features: Sequence[FeatureCompaction], names: Mapping[str, str]
) -> None:
    """Print the features with compacted calls or reduced compaction, and their totals."""
    shown = [feature for feature in features if feature.has_effect or feature.is_stepped_back]
    if not shown:
        return
    terminal.say("")
    columns: tuple[TableColumn[FeatureCompaction], ...] = (
        *place_columns(names),
        TableColumn("", "calls", COUNT, lambda row: row.sums.calls),
        TableColumn("", "sent shorter", COUNT, lambda row: row.sums.compacted + row.sums.trimmed),
        TableColumn("", "tokens saved", COUNT, lambda row: row.sums.tokens_saved),
        TableColumn("", "net saved", MONEY, lambda row: row.sums.nanos),
        TableColumn("", "state", of=_state),
    )
    terminal.show(text_table(columns, shown))
    if any(feature.has_effect for feature in features):
        terminal.say(_total_line(compaction_total(features)))


def _state(feature: FeatureCompaction) -> str:
    setting = feature.setting
    if setting.stepped is None:
        return "active"
    return f"reduced to {setting.stepped} at {format_time(setting.stepped_at)}: {setting.why}"


def _total_line(total: CompactionTotal) -> str:
    saved = "unknown" if total.nanos is None else money(total.nanos)
    share = f" ({total.share:.0%})" if total.stepped_back and total.share else ""
    return (
        f"Compaction saved {saved} net of resets."
        f" {total.stepped_back} of {quantity(total.features, 'feature')}{share} reduced."
    )
