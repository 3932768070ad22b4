"""``thriftgate compaction``: each feature's compaction mode, and what compaction saves."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Annotated, TypeAlias

import typer

from compaction.policy import CompactionMode
from proxy.cli.terminal import AsJson, Days, Terminal, empty_table, feature_name, format_time
from proxy.records.amounts import column

if TYPE_CHECKING:
    from proxy.records.compaction_settings import FeatureSettings, SettingsSnapshot
    from proxy.settings import Settings
    from proxy.store.sql.ledger.compaction_receipts import CompactionTotals

_Team = Annotated[str, typer.Argument(help="The team's name or id.")]
_Feature = Annotated[str, typer.Argument(help='The feature; "" for calls that name none.')]
_By = Annotated[str, typer.Option(envvar="USER", help="Who decides.")]
_FIGURES = (
    "calls",
    "compacted",
    "trimmed",
    "resets",
    "tokens saved",
    "saved",
    "lost",
    "lost in control",
)

_Row: TypeAlias = "tuple[tuple[str, str], FeatureSettings, CompactionTotals | None]"


def compactions(terminal: Terminal, settings: Callable[[], Settings]) -> typer.Typer:
    """The group of commands."""
    commands = typer.Typer(no_args_is_help=True, help="Show and choose the compaction of features.")
    desk = _Commands(terminal, settings)
    commands.command("list")(desk.list_features)
    commands.command("mode")(desk.mode)
    commands.command("resume")(desk.resume)
    return commands


class _Commands:
    """The commands."""

    def __init__(self, terminal: Terminal, settings: Callable[[], Settings]) -> None:
        self._terminal = terminal
        self._settings = settings

    def list_features(self, *, days: Days = 30, as_json: AsJson = False) -> None:
        """List features that have a mode or were compacted, and their savings net of costs.

        `compacted` counts calls in which facts stood for messages; `trimmed` counts calls in which
        only tool results were shortened. `lost` is the share of values that tool calls needed of
        compacted text and that were not sent. `lost in control` is the same share of conversations
        that were sent unmodified, for comparison; it tells more, because a model that is not shown
        a value can hardly ask for it.
        """
        default = self._settings().compaction
        with self._terminal.store() as store:
            names = self._terminal.names(store)
            rows = _rows(
                store.compactions.all_settings(),
                store.compaction_receipts.totals(self._terminal.days_ago(days)),
            )
        if as_json:
            from proxy.cli import json_documents

            self._terminal.print_json(json_documents.compactions(days, rows, names, default))
            return
        if not rows:
            self._terminal.say(f"No feature has a mode of its own; every one has {default}.")
            return
        table = empty_table("team", "feature", "mode", *_FIGURES, "state", right=_FIGURES)
        saved = column(None if totals is None else totals.net_nanos for *_, totals in rows)
        for ((team, feature), setting, totals), net in zip(rows, saved, strict=True):
            table.add_row(
                names.get(team, team),
                feature_name(feature),
                f"{setting.effective_mode(default)}",
                *_figures(totals, net),
                _state(setting, default),
            )
        self._terminal.show(table)

    def mode(
        self,
        team: _Team,
        feature: _Feature,
        mode: CompactionMode,
        *,
        keep_turns: Annotated[
            int | None, typer.Option(help="Last turns that stay unmodified.", min=1)
        ] = None,
        target_tokens: Annotated[
            int | None, typer.Option(help="Tokens a prompt is to come down to.", min=1)
        ] = None,
        by: _By = "",
    ) -> None:
        """Set how far a feature is compacted: off, trim, facts, facts+model or native.

        Conversations under way lose their prompt cache once, because their prefix changes.
        """
        with self._terminal.store() as store:
            place = (self._terminal.team(store, team), feature)
            store.compactions.choose(
                place,
                mode,
                by,
                self._terminal.now(),
                keep_turns=keep_turns,
                target=target_tokens,
            )
            called = store.reports.features(place[0])
        self._terminal.say(f"From now on {_mode_sentence(feature, mode)}.")
        from proxy.cli.warnings import unserved_mode_warning

        for why in unserved_mode_warning(self._settings(), mode):
            self._terminal.say(f"{why}.")
        if feature not in called:
            self._terminal.say(f"There is no call of team {team} with it yet.")

    def resume(self, team: _Team, feature: _Feature, *, by: _By = "") -> None:
        """Compact a feature that was stepped back as it was chosen, and prove it afresh."""
        with self._terminal.store() as store:
            place = (self._terminal.team(store, team), feature)
            resumed = store.compactions.resume(place, by, self._terminal.now())
            setting = store.compactions.all_settings().of(*place)
        if not resumed:
            self._terminal.fail(f"Feature {feature_name(feature)} was not stepped back.")
        mode = setting.effective_mode(self._settings().compaction)
        self._terminal.say(f"Again {_mode_sentence(feature, mode)}.")


def _rows(chosen: SettingsSnapshot, sums: Sequence[CompactionTotals]) -> list[_Row]:
    """Each feature that has a setting or calls, in order."""
    called = {(totals.team, totals.feature): totals for totals in sums}
    places = sorted({*chosen.features, *called})
    return [(place, chosen.of(*place), called.get(place)) for place in places]


def _mode_sentence(feature: str, mode: CompactionMode) -> str:
    if mode is CompactionMode.OFF:
        return f"feature {feature_name(feature)} is not compacted"
    return f"feature {feature_name(feature)} is compacted in mode {mode}"


def _figures(totals: CompactionTotals | None, saved: str) -> tuple[str, ...]:
    if totals is None:
        return ("0", "0", "0", "0", "0", saved, "none", "none")
    lost = (
        _share(totals.lost, totals.needed),
        _share(totals.control_lost, totals.control_needed),
    )
    counts = (totals.calls, totals.compacted, totals.trimmed, totals.resets, totals.tokens_saved)
    return (*(f"{count:,}" for count in counts), saved, *lost)


def _share(lost: int, needed: int) -> str:
    return f"{lost / needed:.1%}" if needed else "none"


def _state(setting: FeatureSettings, default: CompactionMode) -> str:
    if setting.stepped is None:
        return "chosen" if setting.mode is not None else "by default"
    before = setting.mode or default
    return f"stepped back from {before} {format_time(setting.stepped_at)}: {setting.why}"
