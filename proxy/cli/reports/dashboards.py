"""``thriftgate dashboards``: writes boards for Grafana, and prints rules for Prometheus."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from proxy.cli.terminal import Terminal
from proxy.records.amounts import quantity

if TYPE_CHECKING:
    from proxy.settings import Settings
    from slo.policies.file import Policies

_Out = Annotated[Path, typer.Option("--out", help="Folder for the files; it is made if absent.")]


def dashboards(
    terminal: Terminal,
    settings: Callable[[], Settings],
    policies: Callable[[Settings], Policies],
) -> typer.Typer:
    """The group of commands."""
    commands = typer.Typer(no_args_is_help=True, help="Boards for Grafana, rules for Prometheus.")

    @commands.command("grafana")
    def write_boards(*, out: _Out) -> None:
        """Write one JSON file for each board, to import into Grafana.

        Files of the same names are overwritten.
        """
        files = board_files()
        try:
            out.mkdir(parents=True, exist_ok=True)
            for name, text in files.items():
                (out / name).write_text(text, encoding="utf8")
        except OSError as error:
            terminal.fail(f"Cannot write to {out}: {error.strerror}. Name another folder by --out.")
        terminal.say(f"Wrote {quantity(len(files), 'board')} to {out}.")

    @commands.command("prometheus")
    def print_rules() -> None:
        """Print alert rules for Prometheus: of objectives, of budgets and of prompt caches.

        Objectives and budgets are those of the policies file; rules of caches need none. Print
        them again when the file changes, and check them with promtool check rules.
        """
        from proxy.cli.yaml_documents import dump_yaml
        from slo.objectives.prometheus_rules import rule_groups
        from slo.objectives.prometheus_spend_rules import spend_groups

        rules = policies(settings())
        groups = [*rule_groups(rules.objectives)["groups"], *spend_groups(rules.budgets)]
        terminal.out.print(dump_yaml([{"groups": groups}]), soft_wrap=True, end="")

    return commands


def board_files() -> Mapping[str, str]:
    """The text of each board's file, by the file's name."""
    files = resources.files("dashboards").joinpath("grafana").iterdir()
    return {
        file.name: file.read_text(encoding="utf8") for file in files if file.name.endswith(".json")
    }
