from pathlib import Path

import pytest
import typer
from rich.console import Console

from proxy.commands.terminal import Terminal, grid, moment, named
from tests.fakes.typed import Typed

NOW = 1_790_000_000.0


def a_terminal(typed: Typed, console: Console) -> Terminal:
    return Terminal(typed.open, lambda: typed.now, console, typed._fail)


def test_a_team_is_found_by_its_name_and_by_its_id(tmp_path: Path) -> None:
    typed = Typed(tmp_path, NOW)
    terminal = a_terminal(typed, Console())
    with terminal.store() as store:
        team = store.teams.create("acme", now=NOW)

        assert terminal.team(store, "acme") == terminal.team(store, team.id) == team.id
        with pytest.raises(typer.Exit):
            terminal.team(store, "nobody")
        assert terminal.names(store) == {team.id: "acme"}
    assert "no team named nobody" in typed.failed


def test_long_lines_are_not_broken(tmp_path: Path) -> None:
    console = Console(width=20, markup=False)
    with console.capture() as captured:
        a_terminal(Typed(tmp_path, NOW), console).say("[b]" + "x" * 50)

    assert captured.get() == "[b]" + "x" * 50 + "\n"


def test_times_and_features_are_written_out(tmp_path: Path) -> None:
    assert moment(NOW) == "2026-09-21 14:13 UTC"
    assert moment(0.0) == "never"
    assert (named("chat"), named("")) == ("chat", "(none)")
    assert a_terminal(Typed(tmp_path, NOW), Console()).since(2) == NOW - 172_800


def test_figures_stand_to_the_right() -> None:
    table = grid("name", "calls", right=("calls",))

    assert [column.justify for column in table.columns] == ["left", "right"]
