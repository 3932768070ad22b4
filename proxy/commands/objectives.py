"""``thriftgate objectives``: what is promised of calls, and the same in others' formats."""

from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Final

import typer
import yaml
from rich.text import Text

from proxy.commands import pins
from proxy.commands.standings import COLUMNS, Standings, standings
from proxy.commands.terminal import AsJson, Terminal, grid, named
from proxy.settings import Settings
from slo.burn import alerts, clear
from slo.duration import spoken
from slo.objective import Metric, Objective, alone
from slo.openslo.documents import documents, what
from slo.openslo.reading import Reading, read
from slo.promises.file import Promises
from slo.promises.written import target, written
from slo.rules import rules

_MOST_BYTES: Final = 4 * 1024 * 1024
_WIDE: Final = 10_000


class Format(StrEnum):
    """What objectives can be written as."""

    OPENSLO = "openslo"
    PROMETHEUS = "prometheus"
    TOML = "toml"


_Format = Annotated[
    Format,
    typer.Option("--format", help="OpenSLO v1, rules for Prometheus, or as promises have them."),
]


def objectives(
    terminal: Terminal,
    settings: Callable[[], Settings],
    promises: Callable[[Settings], Promises],
) -> typer.Typer:
    """The group of commands; by itself it shows objectives."""
    commands = typer.Typer(help="What is promised of calls, and the same in others' formats.")

    @commands.callback(invoke_without_command=True)
    def shown(context: typer.Context, *, as_json: AsJson = False) -> None:
        """Every objective: what is promised of which calls, what is done if missed, how it stands.

        Where each stands (state, rung, since when, why) is what gateways that share a Redis say.
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
        """Print documents of OpenSLO as tables for the file of promises; nothing is changed.

        What has no meaning here is told in comments. If a document cannot be read, none is printed.
        """
        found = _read(terminal, file)
        if found.refused:
            terminal.fail("\n".join(found.refused))
        if not found.objectives:
            terminal.fail(f"There is no SLO in {file}.")
        for each in found.passed_over:
            terminal.out.print(f"# Passed over: {each}", soft_wrap=True)
        terminal.out.print(written(found.objectives), soft_wrap=True, end="")

    pins.add(commands, terminal, settings, promises)
    return commands


def _show(
    terminal: Terminal, settings: Settings, every: tuple[Objective, ...], *, as_json: bool
) -> None:
    names = [each.name for each in every]
    stand = standings(terminal, settings, names) if every else Standings()
    if as_json:
        shown = [{**_document(each), "standing": stand.document(each.name)} for each in every]
        terminal.document({"objectives": shown})
        return
    if not every:
        terminal.say("There are no objectives. THRIFTGATE_PROMISES names the file they are in.")
        return
    columns = ("objective", "team", "feature", "calls", "what", "target", "enforce", "ladder")
    table = grid(*columns, *(COLUMNS if stand.told else ()))
    for each in every:
        what = (
            each.name,
            each.team,
            named(each.feature),
            alone(each.calls) or each.calls,
            _measured(each),
        )
        done = (_target(each), each.enforce, ", ".join(each.ladder) or "none")
        told = stand.cells(each.name) if stand.told else ()
        table.add_row(*map(Text, (*what, *done, *told)))
    terminal.show(table)
    terminal.say(*stand.notes)


def _measured(objective: Objective) -> str:
    """What is measured, without how much of it is wanted."""
    if objective.metric is Metric.CACHE:
        return f"input tokens read from caches, of prompts from {objective.min_prompt:,} tokens"
    return what(objective).partition(" of ")[2] or "errors"


def _target(objective: Objective) -> str:
    share = target(objective).strip('"')
    if objective.metric is Metric.CACHE:
        return f"at least {share}, again from {clear(objective):g}"
    return f"at most {share}" if objective.metric is Metric.ERRORS else f"{share}%"


def _document(objective: Objective) -> dict[str, Any]:
    return {
        "name": objective.name,
        "team": objective.team,
        "feature": objective.feature,
        "calls": objective.calls,
        "metric": objective.metric,
        "what": what(objective),
        "target": objective.target,
        "enforce": objective.enforce,
        "ladder": objective.ladder,
        "alerts": [
            {"burn": each.burn, "over": spoken(each.over), "severity": each.severity}
            for each in alerts(objective)
        ],
    }


def _text(every: tuple[Objective, ...], form: Format) -> str:
    if form is Format.TOML:
        return written(every)
    whole = [rules(every)] if form is Format.PROMETHEUS else documents(every)
    return str(
        yaml.dump_all(whole, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=_WIDE)
    )


class _Dumper(yaml.SafeDumper):
    """YAML whose longer expressions keep their lines, and whose values all stand in full."""

    def ignore_aliases(self, data: object) -> bool:
        """Always: nothing refers to what was written before."""
        return True


def _quoted(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else "")


_Dumper.add_representer(str, _quoted)


def _read(terminal: Terminal, file: Path) -> Reading:
    """What a file says; ends the command where it is none, or no YAML."""
    try:
        with file.open("rb") as opened:
            text = opened.read(_MOST_BYTES + 1)
        if len(text) > _MOST_BYTES:
            return terminal.fail(f"{file} has over {_MOST_BYTES // 1024 // 1024} MiB: split it.")
        found = [each for each in yaml.safe_load_all(text) if each is not None]
    except OSError as error:
        return terminal.fail(f"{file} cannot be read: {error.strerror}.")
    except (yaml.YAMLError, ValueError) as error:
        return terminal.fail(f"{file} is no YAML: {' '.join(str(error).split())}.")
    except RecursionError:
        return terminal.fail(f"{file} is nested too deep to be read.")
    return read(found)
