"""``thriftgate objectives``: what is promised of calls, and the same in others' formats."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text

from proxy.cli import pins
from proxy.cli.objective_states import COLUMNS, ObjectiveStates, load_objective_states
from proxy.cli.terminal import AsJson, Terminal, empty_table, feature_name

if TYPE_CHECKING:
    from proxy.settings import Settings
    from slo.objective import Objective
    from slo.policies.file import Policies


class Format(StrEnum):
    """What objectives can be written as."""

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
    promises: Callable[[Settings], Policies],
) -> typer.Typer:
    """The group of commands; by itself it shows objectives."""
    commands = typer.Typer(help="Objectives of calls, their states, and other formats of them.")

    @commands.callback(invoke_without_command=True)
    def shown(context: typer.Context, *, as_json: AsJson = False) -> None:
        """Every objective: its calls and target, its enforcement, and its state.

        State, fallback level, since and reason are shown where gateways share a Redis.
        """
        if context.invoked_subcommand is None:
            chosen = settings()
            _show(terminal, chosen, promises(chosen).objectives, as_json=as_json)

    @commands.command("export")
    def exported(*, form: _Format = Format.OPENSLO) -> None:
        """Print the objectives in a format that others read."""
        terminal.out.print(_text(promises(settings()).objectives, form), soft_wrap=True, end="")

    @commands.command("import")
    def imported(
        file: Annotated[Path, typer.Argument(help="Documents of OpenSLO v1, as YAML or JSON.")],
    ) -> None:
        """Print documents of OpenSLO as tables for the policies file; nothing is changed.

        Comments name the parts that are skipped. If a document cannot be read, none is printed.
        """
        from proxy.cli.objective_yaml import read_documents
        from slo.openslo.reading import read_openslo
        from slo.policies.toml_writer import objectives_toml

        found = read_openslo(read_documents(terminal, file))
        if found.refused:
            terminal.fail("\n".join(found.refused))
        if not found.objectives:
            terminal.fail(f"There is no SLO in {file}.")
        for each in found.skipped:
            terminal.out.print(f"# Passed over: {each}", soft_wrap=True)
        terminal.out.print(objectives_toml(found.objectives), soft_wrap=True, end="")

    pins.add(commands, terminal, settings, promises)
    return commands


def _show(
    terminal: Terminal, settings: Settings, every: tuple[Objective, ...], *, as_json: bool
) -> None:
    from slo.objective import request_kind_text

    names = [each.name for each in every]
    stand = load_objective_states(terminal, settings, names) if every else ObjectiveStates()
    if as_json:
        shown = [{**_document(each), "standing": stand.document(each.name)} for each in every]
        terminal.print_json({"objectives": shown})
        return
    if not every:
        terminal.say("There are no objectives. THRIFTGATE_POLICIES names the file they are in.")
        return
    columns = ("objective", "team", "feature", "calls", "what", "target", "enforce", "ladder")
    table = empty_table(*columns, *(COLUMNS if stand.told else ()))
    for each in every:
        what = (
            each.name,
            each.team,
            feature_name(each.feature),
            request_kind_text(each.calls) or each.calls,
            _measured_text(each),
        )
        done = (_target(each), each.enforce, ", ".join(each.ladder) or "none")
        told = stand.cells(each.name) if stand.told else ()
        table.add_row(*map(Text, (*what, *done, *told)))
    terminal.show(table)
    terminal.say(*stand.notes)


def _measured_text(objective: Objective) -> str:
    """What is measured, without how much of it is wanted."""
    from slo.objective import Metric
    from slo.openslo.documents import objective_text

    if objective.metric is Metric.CACHE:
        return f"input tokens read from caches, of prompts from {objective.min_prompt:,} tokens"
    return objective_text(objective).partition(" of ")[2] or "errors"


def _target(objective: Objective) -> str:
    from slo.burn import clear_share
    from slo.objective import Metric
    from slo.policies.toml_writer import target_text

    share = target_text(objective).strip('"')
    if objective.metric is Metric.CACHE:
        return f"at least {share}, again from {clear_share(objective):g}"
    return f"at most {share}" if objective.metric is Metric.ERRORS else f"{share}%"


def _document(objective: Objective) -> dict[str, Any]:
    from slo.burn import burn_alerts
    from slo.duration import format_duration
    from slo.openslo.documents import objective_text

    return {
        "name": objective.name,
        "team": objective.team,
        "feature": objective.feature,
        "calls": objective.calls,
        "metric": objective.metric,
        "what": objective_text(objective),
        "target": objective.target,
        "enforce": objective.enforce,
        "ladder": objective.ladder,
        "alerts": [
            {"burn": each.burn, "over": format_duration(each.over), "severity": each.severity}
            for each in burn_alerts(objective)
        ],
    }


def _text(every: tuple[Objective, ...], form: Format) -> str:
    if form is Format.TOML:
        from slo.policies.toml_writer import objectives_toml

        return objectives_toml(every)
    from proxy.cli.objective_yaml import dump
    from slo.openslo.documents import openslo_documents
    from slo.prometheus_rules import rule_groups

    return dump([rule_groups(every)] if form is Format.PROMETHEUS else openslo_documents(every))
