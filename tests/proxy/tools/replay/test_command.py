"""The command as a person types it."""

import re
from io import StringIO
from pathlib import Path

import msgspec
import orjson
import pytest
import typer
from rich.console import Console
from typer.testing import CliRunner, Result

from dashboards.views.replay import ReplayReport
from proxy.tools.replay import command
from tests.fakes.source_trees import ROOT
from tests.fakes.tool_logs import own_form
from tests.proxy.tools.replay.scene import CATALOG, RULES, dialogue, system

SAMPLES = Path(command.__file__).parent / "samples"
NOW = 1_790_000_000.0


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "calls.jsonl"
    rows = [
        b'{"conversation":"c","body":' + line.body + b',"reply":' + line.reply + b"}"
        for line in dialogue(system(*RULES * 3), 4)
    ]
    path.write_bytes(b"\n".join([*rows, b"{"]))
    return path


@pytest.fixture
def badly_built(tmp_path: Path) -> Path:
    path = tmp_path / "desk.jsonl"
    path.write_bytes(own_form(40))
    return path


def run_command(*words: str) -> Result:
    app = typer.Typer()
    app.command()(command.command(lambda: CATALOG, lambda: NOW))
    return CliRunner().invoke(app, words)


def test_the_first_screen_says_what_is_saved_and_what_to_do_for_it(badly_built):
    result = run_command(str(badly_built), "--model", "intervals")

    assert result.exit_code == 0, result.output
    first, *rest = result.stdout.splitlines()
    assert first.startswith("40 calls cost $")
    assert " without layouts $" in first
    assert rest.index("What to do:") < 4
    assert any(" of it by layouts, which it learns" in line for line in rest[:8])


def test_the_table_has_a_row_and_a_bar_for_each_way(badly_built):
    lines = run_command(str(badly_built), "--model", "intervals").stdout.splitlines()

    bars = {
        name: line.count("█")
        for line in lines
        for name in ("as sent", "without layouts", "by default", "compacted")
        if line.startswith(f"{name} ")
    }
    assert bars["as sent"] == 40
    assert bars["by default"] < bars["without layouts"] <= 40
    assert set(bars) == {"as sent", "without layouts", "by default", "compacted"}


def test_well_built_calls_have_nothing_to_do(file):
    result = run_command(str(file), "--model", "uncached")

    assert "Nothing that a gateway does would save 1 % of these calls." in result.stdout
    assert "no known cache" in result.stdout


def test_a_line_that_is_no_call_is_named_with_its_place(file):
    out = run_command(str(file), "--model", "marks").stdout

    assert "1 record skipped, first calls.jsonl:5: it is not JSON: it ends too early." in out


def test_several_features_are_shown_apart(badly_built, file):
    out = run_command(str(badly_built), str(file), "--model", "marks").stdout

    assert [line.split()[0] for line in out.splitlines()[2:5]] == ["feature", "desk", "(none)"]


def test_json_is_one_line_and_nothing_else(file):
    result = run_command(str(file), str(file), "--model", "uncached", "--json", "--gap", "1")

    document = orjson.loads(result.stdout)
    assert document["calls"] == 8
    assert document["headline"].startswith("8 calls cost $")
    assert len(document["ways"]) == 5
    assert result.stdout.count("\n") == 1
    assert result.stderr == ""


@pytest.mark.parametrize(("name", "near"), [("mark", "marks"), ("zzz", "none with a name like it")])
def test_an_unknown_model_is_told_with_those_near(file, name, near):
    result = run_command(str(file), "--model", name)

    assert result.exit_code == 2
    assert near in " ".join(result.stderr.replace("│", "").split())


def test_a_file_that_is_not_there_is_told():
    assert run_command("/nowhere/calls.jsonl").exit_code == 2


def test_a_folder_is_refused_with_how_its_files_are_named(tmp_path):
    result = run_command(str(tmp_path))

    assert result.exit_code == 2
    assert "/*.jsonl" in "".join(result.stderr.replace("│", "").split())


def test_a_damaged_file_is_an_error_in_a_sentence(tmp_path):
    path = tmp_path / "log.gz"
    path.write_bytes(b"\x1f\x8b" + b"nothing" * 10)

    result = run_command(str(path))

    assert result.exit_code == 1
    assert result.stderr.startswith("log.gz: its gzip data is damaged")


def test_the_gateways_own_command_line_has_it(file):
    from proxy.cli.main import _commands  # noqa: PLC0415 - the whole gateway is behind it

    result = CliRunner().invoke(_commands, ["replay", str(file), "--json", "--model", "gpt-5.4"])

    assert "Replayed as gpt-5.4 " in " ".join(orjson.loads(result.stdout)["remarks"])


def test_the_sample_log_shows_what_layouts_save():
    from proxy.cli.main import _commands  # noqa: PLC0415 - the whole gateway is behind it

    result = CliRunner().invoke(_commands, ["replay", str(SAMPLES / "parcels.jsonl.gz"), "--json"])

    as_sent, _, layouts, _, least = orjson.loads(result.stdout)["ways"]
    assert least["nanos"] < layouts["nanos"] < 0.5 * as_sent["nanos"]


def test_make_replay_without_a_file_takes_the_sample_log():
    makefile = (ROOT / "Makefile").read_text()

    (file,) = re.findall(r"^FILE \?= (.+)$", makefile, re.MULTILINE)
    assert ROOT / file == SAMPLES / "parcels.jsonl.gz"


def test_the_table_keeps_every_figure_on_a_narrow_terminal(badly_built):
    report = run_command(str(badly_built), "--model", "intervals", "--json").stdout
    out = StringIO()

    command.print_report(
        Console(file=out, width=80), msgspec.json.decode(report, type=ReplayReport)
    )

    table = [
        line for line in out.getvalue().splitlines() if line.startswith(("as sent", "at least"))
    ]
    assert len(table) == 2
    assert all("█" in line and "…" not in line and len(line) <= 80 for line in table)


def test_the_plot_is_an_svg_with_a_line_for_each_way(badly_built, tmp_path):
    file = tmp_path / "costs.svg"
    result = run_command(str(badly_built), "--model", "intervals", "--plot", str(file))

    assert result.exit_code == 0, result.output
    assert file.read_text(encoding="utf-8").count("<polyline") == 4


def test_a_plot_of_another_form_is_refused_before_the_replay(badly_built):
    result = run_command(str(badly_built), "--plot", "costs.png")

    assert result.exit_code == 2
    assert ".svg" in result.stderr


def test_no_plot_is_written_where_no_cost_is_known(badly_built, tmp_path):
    file = tmp_path / "costs.svg"
    result = run_command(str(badly_built), "--model", "blocks", "--plot", str(file))

    assert "no cost is known" in result.stderr
    assert not file.exists()


def test_a_log_is_read_from_standard_input_and_places_are_its_lines():
    app = typer.Typer()
    app.command()(command.command(lambda: CATALOG, lambda: NOW))
    log = own_form(3) + b"{\n"
    result = CliRunner().invoke(app, ["-", "--model", "marks"], input=log)

    assert result.stdout.startswith("3 calls cost $")
    assert "first line 4: it is not JSON" in result.stdout


def test_the_sample_chat_is_a_body_of_a_long_conversation():
    body = orjson.loads((SAMPLES / "chat.json").read_bytes())

    assert len(body["messages"]) > 40


def test_a_file_without_a_call_is_an_error_that_counts_equal_lines_once(tmp_path):
    path = tmp_path / "junk.jsonl"
    path.write_bytes(b"junk\n" * 50)
    result = run_command(str(path), "--model", "marks")

    assert result.exit_code == 1
    first, hint = result.stdout.splitlines()
    assert first == "50 records skipped, first junk.jsonl:1: it is not JSON."
    assert hint.startswith("A log holds requests, as JSON, such as {")


@pytest.fixture
def repeated_calls(tmp_path: Path) -> Path:
    path = tmp_path / "faq.jsonl"
    body = {"model": "marks", "messages": [{"role": "user", "content": "When do you open?"}]}
    row = {"feature": "faq", "body": body, "reply": {"role": "assistant", "content": "At nine."}}
    path.write_bytes(b"\n".join([orjson.dumps(row)] * 4))
    return path


def test_equal_calls_are_counted_and_kept_only_where_their_feature_is_named(repeated_calls):
    plain = run_command(str(repeated_calls)).stdout
    declared = run_command(str(repeated_calls), "--reusable", "faq", "--ttl", "3s").stdout

    assert "Answer cache, ttl 1h: 0 of 4 calls (0.0 %) would be hits; equal in all: 3" in plain
    assert "Answer cache, ttl 3s: 2 of 4 calls (50.0 %) would be hits and save $" in declared
    assert '   feature = "faq"' in declared


def test_json_has_the_equal_calls(repeated_calls):
    document = orjson.loads(run_command(str(repeated_calls), "--reusable", "faq", "--json").stdout)

    (row,) = document["reused"]
    assert (row["feature"], row["hits"], row["equal"]) == ("faq", 3, 3)


def test_a_log_without_equal_calls_says_so_in_one_line(file):
    out = run_command(str(file), "--model", "marks").stdout

    assert out.count("Answer cache") == 1
    assert "Answer cache: no two calls are equal" in out


def test_a_ttl_that_is_no_duration_is_refused():
    result = run_command("/dev/null", "--ttl", "soon")

    assert result.exit_code == 2
    assert "as in 6h" in " ".join(result.stderr.replace("│", "").split())
