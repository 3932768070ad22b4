from pathlib import Path

import pytest
import typer
from rich.console import Console

from proxy.cli.terminal import Terminal, empty_table, feature_name, format_time, sentence
from tests.fakes.cli_runner import CommandRunner

NOW = 1_790_000_000.0


def a_terminal(typed: CommandRunner, console: Console) -> Terminal:
    return Terminal(typed.open, lambda: typed.now, console, typed._fail)


def test_a_team_is_found_by_its_name_and_by_its_id(tmp_path: Path) -> None:
    typed = CommandRunner(tmp_path, NOW)
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
        a_terminal(CommandRunner(tmp_path, NOW), console).say("[b]" + "x" * 50)

    assert captured.get() == "[b]" + "x" * 50 + "\n"


def test_times_and_features_are_written_out(tmp_path: Path) -> None:
    assert format_time(NOW) == "2026-09-21 14:13 UTC"
    assert format_time(0.0) == "never"
    assert (feature_name("chat"), feature_name("")) == ("chat", "(none)")
    assert a_terminal(CommandRunner(tmp_path, NOW), Console()).days_ago(2) == NOW - 172_800


def test_figures_stand_to_the_right() -> None:
    table = empty_table("name", "calls", right=("calls",))

    assert [column.justify for column in table.columns] == ["left", "right"]


def a_narrow_console() -> Console:
    return Console(width=44, force_terminal=True, color_system=None, markup=False)


def test_a_terminal_wraps_lines_between_words_and_keeps_commands_whole(tmp_path: Path) -> None:
    console = a_narrow_console()
    with console.capture() as captured:
        a_terminal(CommandRunner(tmp_path, NOW), console).say(
            "  to read more of this one type `thriftgate explain call_1` and wait", ""
        )

    assert captured.get().splitlines() == [
        "  to read more of this one type",
        "  `thriftgate explain call_1` and wait",
        "",
    ]


def test_a_cell_too_wide_for_the_terminal_stands_below_its_row(tmp_path: Path) -> None:
    console = a_narrow_console()
    table = empty_table("team", "calls", "why", "example", right=("calls",))
    table.add_row("acme", "3", "a prompt that varies", "call_" + "1" * 26)
    table.add_row("lab", "12", "expired", "call_" + "2" * 26)
    with console.capture() as captured:
        a_terminal(CommandRunner(tmp_path, NOW), console).show(table)

    assert captured.get().splitlines() == [
        "team  calls  why",
        "acme      3  a prompt that varies",
        "  example: call_" + "1" * 26,
        "lab      12  expired",
        "  example: call_" + "2" * 26,
    ]


def test_in_a_pipe_a_row_is_a_line_however_long(tmp_path: Path) -> None:
    console = Console(width=20, markup=False)
    table = empty_table("team", "example")
    table.add_row("acme", "call_" + "1" * 26)
    with console.capture() as captured:
        a_terminal(CommandRunner(tmp_path, NOW), console).show(table)

    assert captured.get().splitlines()[1] == "acme  call_" + "1" * 26


def test_an_error_is_reported_as_a_sentence() -> None:
    assert sentence(ValueError("no layout")) == "No layout"
