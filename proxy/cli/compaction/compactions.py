"""``thriftgate compaction``: each feature's compaction mode, and what compaction saves."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Annotated

import typer

from compaction.policy import CompactionMode
from proxy.cli import compaction_tables
from proxy.cli.columns import TIME, TableColumn, documents, text_table
from proxy.cli.terminal import (
    AsJson,
    By,
    Days,
    FeatureName,
    TeamName,
    Terminal,
    feature_name,
    format_time,
)

if TYPE_CHECKING:
    from proxy.cli.compaction_tables import FeatureCompaction
    from proxy.records.compaction_settings import FeatureSettings
    from proxy.settings import Settings


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
            rows = compaction_tables.feature_compactions(
                store.compactions.all_settings(),
                store.compaction_receipts.totals(self._terminal.days_ago(days)),
                also_unused=True,
            )
        columns = _columns(names, default)
        if as_json:
            document = {"days": days, "default_mode": default.value}
            self._terminal.print_json(document | {"compactions": documents(columns, rows)})
        elif rows:
            self._terminal.show(text_table(columns, rows))
        else:
            self._terminal.say(f"No feature has a mode of its own; every one has {default}.")

    def mode(
        self,
        team: TeamName,
        feature: FeatureName,
        mode: CompactionMode,
        *,
        keep_turns: Annotated[
            int | None, typer.Option(help="Last turns that stay unmodified.", min=1)
        ] = None,
        target_tokens: Annotated[
            int | None, typer.Option(help="Tokens a prompt is to come down to.", min=1)
        ] = None,
        by: By = "",
    ) -> None:
        """Set how far a feature is compacted: off, trim, facts, facts+recall or native.

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
        if feature not in called:
            self._terminal.say(f"There is no call of team {team} with it yet.")

    def resume(self, team: TeamName, feature: FeatureName, *, by: By = "") -> None:
        """Compact a feature that was stepped back as it was chosen, and prove it afresh."""
        with self._terminal.store() as store:
            place = (self._terminal.team(store, team), feature)
            resumed = store.compactions.resume(place, by, self._terminal.now())
            setting = store.compactions.all_settings().of(*place)
        if not resumed:
            self._terminal.fail(f"Compaction of feature {feature_name(feature)} was not reduced.")
        mode = setting.effective_mode(self._settings().compaction)
        self._terminal.say(f"Again {_mode_sentence(feature, mode)}.")


def _columns(
    names: Mapping[str, str], default: CompactionMode
) -> tuple[TableColumn[FeatureCompaction], ...]:
    return (
        *compaction_tables.place_columns(names),
        TableColumn("mode", "mode", of=lambda row: row.setting.effective_mode(default).value),
        TableColumn("chosen_mode", of=lambda row: row.setting.mode),
        TableColumn("keep_turns", of=lambda row: row.setting.keep_turns),
        TableColumn("target_tokens", of=lambda row: row.setting.target),
        TableColumn("stepped_back", of=lambda row: row.setting.why),
        TableColumn("stepped_back_at", form=TIME, of=lambda row: row.setting.stepped_at),
        TableColumn("changed_by", of=lambda row: row.setting.changed_by),
        TableColumn("changed_at", form=TIME, of=lambda row: row.setting.changed_at),
        *compaction_tables.SUMS,
        TableColumn("", "state", of=lambda row: _state(row.setting, default)),
    )


def _mode_sentence(feature: str, mode: CompactionMode) -> str:
    if mode is CompactionMode.OFF:
        return f"feature {feature_name(feature)} is not compacted"
    return f"feature {feature_name(feature)} is compacted in mode {mode}"


def _state(setting: FeatureSettings, default: CompactionMode) -> str:
    if setting.stepped is None:
        return "chosen" if setting.mode is not None else "by default"
    before = setting.mode or default
    return f"reduced from {before} at {format_time(setting.stepped_at)}: {setting.why}"
