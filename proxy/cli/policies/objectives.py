"""``thriftgate objectives``: shows, exports and imports objectives."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from proxy.cli.columns import FEATURE, TableColumn, documents, each_by, text_table
from proxy.cli.policies import pins
from proxy.cli.policies.objective_states import ObjectiveStates, load_objective_states
from proxy.cli.terminal import AsJson, Terminal

if TYPE_CHECKING:
    from proxy.settings import Settings
    from slo.objectives.objective import Objective
    from slo.policies.file import Policies


class Format(StrEnum):
    """The formats in which objectives can be exported."""

    OPENSLO = "openslo"
    PROMETHEUS = "prometheus"
    TOML = "toml"


_Format = Annotated[
    Format,
    typer.Option(
        "--format", help="OpenSLO v1, rules for Prometheus, or tables of the policies file."
    ),
]


def objectives(
    terminal: Terminal,
    settings: Callable[[], Settings],
    policies: Callable[[Settings], Policies],
) -> typer.Typer:
    """The group of commands; by itself it shows objectives."""
    commands = typer.Typer(help="Objectives of calls, their states, and other formats of them.")

    @commands.callback(invoke_without_command=True)
    def show_objectives(context: typer.Context, *, as_json: AsJson = False) -> None:
        """Every objective: its calls and target, its enforcement, and its state.

        State, fallback level, since and reason are shown where gateways share a Redis.
        """
        if context.invoked_subcommand is None:
            chosen = settings()
            _show(terminal, chosen, policies(chosen).objectives, as_json=as_json)

    @commands.command("export")
    def export_objectives(*, form: _Format = Format.OPENSLO) -> None:
        """Print the objectives in a format that others read."""
        terminal.out.print(_text(policies(settings()).objectives, form), soft_wrap=True, end="")

    pins.add(commands, terminal, settings, policies)
    return commands


def _show(
    terminal: Terminal, settings: Settings, every: tuple[Objective, ...], *, as_json: bool
) -> None:
    names = [objective.name for objective in every]
    states = load_objective_states(terminal, settings, names) if every else ObjectiveStates()
    columns = (*_COLUMNS, *states.columns())
    if as_json:
        terminal.print_json({"objectives": documents(columns, every)})
    elif every:
        terminal.show(text_table(columns, every))
        terminal.say(*states.notes)
    else:
        terminal.say("There are no objectives. THRIFTGATE_POLICIES names the file they are in.")


def _calls(objective: Objective) -> str:
    from slo.objectives.objective import request_kind_text

    return request_kind_text(objective.calls) or objective.calls


def _measured_text(objective: Objective) -> str:
    """The measure of an objective, without its target."""
    from slo.objectives.objective import Metric
    from slo.objectives.openslo import objective_text

    if objective.metric is Metric.CACHE:
        return f"input tokens read from caches, of prompts from {objective.min_prompt:,} tokens"
    return objective_text(objective).partition(" of ")[2] or "errors"


def _target(objective: Objective) -> str:
    from slo.objectives.burn import clear_share
    from slo.objectives.objective import Metric
    from slo.objectives.toml_writer import target_text

    share = target_text(objective).strip('"')
    if objective.metric is Metric.CACHE:
        return f"at least {share}, again from {clear_share(objective):g}"
    return f"at most {share}" if objective.metric is Metric.ERRORS else f"{share}%"


def _alerts(objective: Objective) -> list[dict[str, Any]]:
    from slo.duration import format_duration
    from slo.objectives.burn import burn_alerts

    return [
        {"burn": alert.burn, "over": format_duration(alert.over), "severity": alert.severity}
        for alert in burn_alerts(objective)
    ]


def _whole_text(objective: Objective) -> str:
    from slo.objectives.openslo import objective_text

    return objective_text(objective)


_LADDER: Final = each_by(lambda ladder: ", ".join(ladder) or "none", is_right=False)
_COLUMNS: Final[tuple[TableColumn[Objective], ...]] = (
    TableColumn("name", "objective"),
    TableColumn("team", "team"),
    TableColumn("feature", "feature", FEATURE),
    TableColumn("calls"),
    TableColumn("", "calls", of=_calls),
    TableColumn("metric"),
    TableColumn("what", of=_whole_text),
    TableColumn("", "what", of=_measured_text),
    TableColumn("target"),
    TableColumn("", "target", of=_target),
    TableColumn("enforce", "enforce"),
    TableColumn("ladder", "ladder", _LADDER),
    TableColumn("alerts", of=_alerts),
)


def _text(every: tuple[Objective, ...], form: Format) -> str:
    if form is Format.TOML:
        from slo.objectives.toml_writer import objectives_toml

        return objectives_toml(every)
    from proxy.cli.yaml_documents import dump_yaml
    from slo.objectives.openslo import openslo_documents
    from slo.objectives.prometheus_rules import rule_groups

    return dump_yaml(
        [rule_groups(every)] if form is Format.PROMETHEUS else openslo_documents(every)
    )
