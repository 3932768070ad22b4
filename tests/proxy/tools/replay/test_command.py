"""The command as a person types it."""

from pathlib import Path

import orjson
import pytest
import typer
from typer.testing import CliRunner, Result

from proxy.tools.replay import command
from tests.proxy.tools.replay.scene import CATALOG, RULES, dialogue, system


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "calls.jsonl"
    rows = [
        b'{"conversation":"c","body":' + line.body + b',"reply":' + line.reply + b"}"
        for line in dialogue(system(*RULES), 4)
    ]
    path.write_bytes(b"\n".join([*rows, b"{"]))
    return path


def run_command(*words: str) -> Result:
    app = typer.Typer()
    app.command()(command.command(lambda: CATALOG, lambda: 1_790_000_000.0))
    return CliRunner().invoke(app, words)


def test_a_file_is_replayed_into_a_table(file):
    result = run_command(str(file), "--model", "marks")

    assert result.exit_code == 0, result.output
    assert result.stdout.startswith("4 calls of ")
    assert "as marks (anthropic/marks, anthropic-breakpoint)" in result.stdout
    assert "ceiling" in result.stdout
    assert "compacted" in result.stdout
    assert "Not compacted, 4 calls: " in result.stdout
    assert "calls.jsonl:5:" in result.stdout
    assert (
        "Nothing arranged, calls without a feature (4 calls):"
        " its instructions are the same in every call."
    ) in result.stdout


def test_every_row_and_column_of_the_table_is_explained_below_it(file):
    _, head, *rows = [
        line for line in run_command(str(file), "--model", "marks").stdout.splitlines() if line
    ]
    names = [row.split("  ")[0] for row in rows[:5]]
    columns = head.split("  ")
    explained = " ".join(rows[5:7]).lower()

    assert names == ["as sent", "marked", "arranged", "compacted", "ceiling"]
    assert [name for name in names if f"{name}: " not in explained] == []
    found = [each.strip().lower() for each in columns[1:] if each.strip()]
    assert len(found) == 6
    assert [each for each in found if each not in explained] == []


def test_one_call_is_one_call(tmp_path):
    path = tmp_path / "calls.jsonl"
    path.write_text('{"body": {"messages": [{"role": "user", "content": "Good morning."}]}}')

    assert run_command(str(path), "--model", "marks").stdout.startswith("1 call of ")


def test_json_is_one_line_and_nothing_else(file):
    result = run_command(str(file), str(file), "--model", "uncached", "--json", "--gap", "1")

    found = orjson.loads(result.stdout)
    assert found["calls"] == 8
    assert [each["calls"] for each in found["arranged_why"]] == [8]
    assert [each["name"] for each in found["variants"]][-2:] == ["compacted", "ceiling"]
    assert sum(found["compacted"]["uncompacted"].values()) == 8
    assert result.stdout.count("\n") == 1
    assert result.stderr == ""


def test_a_route_without_known_rules_says_so(file):
    assert "no known cache" in run_command(str(file), "--model", "uncached").stdout


def test_an_empty_cell_is_a_dash(file):
    rows = run_command(str(file), "--model", "marks").stdout.splitlines()

    assert next(row for row in rows if row.startswith("compacted ")).endswith("–")  # noqa: RUF001


@pytest.mark.parametrize(
    ("asked", "near"), [("mark", "marks"), ("zzz", "none with a name like it")]
)
def test_an_unknown_model_is_told_with_those_near(file, asked, near):
    result = run_command(str(file), "--model", asked)

    assert result.exit_code == 2
    assert near in " ".join(result.stderr.replace("│", "").split())


def test_a_file_that_is_not_there_is_told():
    assert run_command("/nowhere/calls.jsonl").exit_code == 2


def test_the_gateways_own_command_line_has_it(file):
    from proxy.cli.main import _commands  # noqa: PLC0415 - the whole gateway is behind it

    result = CliRunner().invoke(_commands, ["replay", str(file), "--json"])

    assert orjson.loads(result.stdout)["model"] == "gpt-5.6-terra"


def test_a_terminal_keeps_its_own_width(file):
    app = typer.Typer()
    app.command()(command.command(lambda: CATALOG, lambda: 1_790_000_000.0))

    result = CliRunner(env={"FORCE_COLOR": "1", "COLUMNS": "70"}).invoke(
        app, [str(file), "--model", "marks"]
    )

    assert "ceiling" in result.stdout


def test_a_file_without_a_call_is_an_error_that_counts_its_lines(tmp_path):
    path = tmp_path / "junk.jsonl"
    path.write_bytes(b"junk\n" * 50)
    result = run_command(str(path), "--model", "marks")

    assert result.exit_code == 1
    assert result.stdout.startswith("50 lines are no calls")
    assert "and 30 more" in result.stdout
    assert "No call was found" in result.stderr
    assert '{"body": {"messages": [' in result.stderr
