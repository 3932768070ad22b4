"""The compaction part of ``thriftgate savings``: net savings, cost of notes, steps back."""

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec
from rich.text import Text

from proxy.cli.terminal import Terminal, empty_table, feature_name, format_time
from proxy.records.amounts import column, money, quantity
from proxy.records.compaction_settings import FeatureSettings, SettingsSnapshot
from proxy.store.sql.ledger.compaction_receipts import CompactionTotals

_FIGURES: Final = ("calls", "sent shorter", "tokens saved", "net saved", "notes cost")


class FeatureCompaction(msgspec.Struct, frozen=True):
    """A feature that was compacted, or whose compaction stepped back.

    Attributes:
        team: Its team's id.
        sums: Its totals; None where it had no such call.
    """

    team: str
    feature: str
    setting: FeatureSettings
    sums: CompactionTotals | None

    @property
    def is_stepped_back(self) -> bool:
        """True if live calls lost too much, and it was not resumed since."""
        return self.setting.stepped is not None

    @property
    def has_effect(self) -> bool:
        """True if a call was compacted, or notes or the money of compaction are known."""
        sums = self.sums
        return sums is not None and bool(
            sums.compacted + sums.trimmed or sums.nanos or sums.notes_nanos
        )


class CompactionTotal(msgspec.Struct, frozen=True, kw_only=True):
    """The totals of all features.

    Attributes:
        nanos: Savings in 1e-9 US dollars, net of resets and notes, as far as they are known; None
            where they are unknown.
    """

    nanos: int | None
    notes_nanos: int
    features: int
    stepped_back: int

    @property
    def share(self) -> float | None:
        """The part of the features that was stepped back; None without any."""
        return self.stepped_back / self.features if self.features else None


def feature_compactions(
    chosen: SettingsSnapshot, sums: Sequence[CompactionTotals]
) -> list[FeatureCompaction]:
    """The features that had such calls or were stepped back, in order."""
    called = {(totals.team, totals.feature): totals for totals in sums}
    stepped_back = {
        place for place, setting in chosen.features.items() if setting.stepped is not None
    }
    return [
        FeatureCompaction(*place, chosen.of(*place), called.get(place))
        for place in sorted({*called, *stepped_back})
    ]


def compaction_total(features: Sequence[FeatureCompaction]) -> CompactionTotal:
    """The features' totals; notes are counted also where savings are unknown."""
    sums = [feature.sums for feature in features if feature.sums is not None]
    saved = [totals.nanos for totals in sums if totals.nanos is not None]
    notes = sum(totals.notes_nanos for totals in sums)
    return CompactionTotal(
        nanos=sum(saved) - notes if saved or notes else None,
        notes_nanos=notes,
        features=len(features),
        stepped_back=sum(feature.is_stepped_back for feature in features),
    )


def show(
    terminal: Terminal, features: Sequence[FeatureCompaction], names: Mapping[str, str]
) -> None:
    """Print the features where compaction did something or was stepped back, and their totals."""
    shown = [feature for feature in features if feature.has_effect or feature.is_stepped_back]
    if not shown:
        return
    terminal.say("")
    table = empty_table("team", "feature", *_FIGURES, "state", right=_FIGURES)
    saved = column(None if feature.sums is None else feature.sums.net_nanos for feature in shown)
    notes = column(0 if feature.sums is None else feature.sums.notes_nanos for feature in shown)
    for feature, *money_cells in zip(shown, saved, notes, strict=True):
        place = (names.get(feature.team, feature.team), feature_name(feature.feature))
        table.add_row(*map(Text, (*place, *_counts(feature), *money_cells, _state(feature))))
    terminal.show(table)
    if any(feature.has_effect for feature in features):
        terminal.say(_total_line(compaction_total(features)))


def _counts(feature: FeatureCompaction) -> tuple[str, ...]:
    sums = feature.sums
    counts = (
        (0, 0, 0)
        if sums is None
        else (sums.calls, sums.compacted + sums.trimmed, sums.tokens_saved)
    )
    return tuple(f"{count:,}" for count in counts)


def _state(feature: FeatureCompaction) -> str:
    setting = feature.setting
    if setting.stepped is None:
        return "holds"
    return f"stepped back to {setting.stepped} {format_time(setting.stepped_at)}: {setting.why}"


def _total_line(total: CompactionTotal) -> str:
    share = f" ({total.share:.0%})" if total.stepped_back and total.share else ""
    return (
        f"Compaction saved {_money(total.nanos)} net of resets and of its small model's notes,"
        f" which cost {money(total.notes_nanos)}."
        f" {total.stepped_back} of {quantity(total.features, 'feature')}{share} stepped back."
    )


def _money(nanos: int | None) -> str:
    return "unknown" if nanos is None else money(nanos)
