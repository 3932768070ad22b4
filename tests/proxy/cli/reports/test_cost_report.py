import csv
import io
from datetime import UTC, datetime
from pathlib import Path

import orjson
import pytest
import typer

from proxy.cli.reports.report import reports
from proxy.cli.terminal import Terminal
from proxy.records.receipt import Outcome
from proxy.settings import Settings
from slo.policies.file import Policies
from slo.usage import Usage
from tests.fakes.cli_runner import CommandRunner, table_lines
from tests.fakes.focus_validator import focus_faults
from tests.fakes.receipts import START, a_receipt
from tests.fakes.savings import catalog_of_provider, propose_layout

DAY = datetime.fromtimestamp(START, UTC).date().isoformat()


def build(terminal: Terminal) -> typer.Typer:
    return reports(terminal, lambda: catalog_of_provider("acme"), Settings, lambda _: Policies())


@pytest.fixture
def runner(tmp_path: Path) -> CommandRunner:
    command_runner = CommandRunner(tmp_path, START + 60)
    command_runner.keep(
        a_receipt(0, feature="=1+1"),
        a_receipt(1, feature="chat"),
        a_receipt(2, feature="new", list_nanos=None, cost_nanos=None),
    )
    return command_runner


def test_a_table_has_a_row_for_each_value_and_a_total(runner: CommandRunner) -> None:
    head, *rows, total = table_lines(runner.said(build, "cost", "--by", "feature,provider"))

    assert head.split()[:2] == ["feature", "provider"]
    assert [row.split()[:2] for row in rows] == [
        ["chat", "acme"],
        ["=1+1", "acme"],
        ["new", "acme"],
    ]
    assert "unknown" in rows[2]
    assert total.startswith("all")


def test_a_name_cannot_send_the_terminal_orders(tmp_path: Path) -> None:
    typed = CommandRunner(tmp_path, START + 60)
    typed.keep(a_receipt(0, feature="\x1b]0;owned\x07[red]\nx"))
    shown = typed.said(build, "cost", "--by", "feature")

    assert "\x1b" not in shown
    assert "\x07" not in shown
    assert "[red]\ufffdx" in shown
    assert len(table_lines(shown)) == 3


def test_json_has_the_total_and_names_as_they_are(runner: CommandRunner) -> None:
    document = orjson.loads(runner.said(build, "cost", "--by", "feature", "--format", "json"))

    assert [row["feature"] for row in document["rows"]] == ["chat", "=1+1", "new"]
    assert document["total"]["cost_usd"] == "0.008000001"
    assert document["total"]["unpriced_attempts"] == 1
    assert (document["from"][-2:], document["to"]) == ("01", DAY)


def test_csv_goes_to_a_file_with_its_line_ends(runner: CommandRunner, tmp_path: Path) -> None:
    out = tmp_path / "costs.csv"
    words = ("cost", "--by", "day", "--by", "feature", "--format", "csv", "--out", str(out))
    assert runner.said(build, *words) == ""

    assert out.read_bytes().count(b"\r\n") == 4
    rows = list(csv.DictReader(io.StringIO(out.read_text(encoding="utf8"), newline="")))
    assert [(row["day"], row["feature"]) for row in rows] == [
        (DAY, "chat"),
        (DAY, "'=1+1"),
        (DAY, "new"),
    ]


@pytest.mark.parametrize("version", ["1.2", "1.4"])
def test_focus_is_a_valid_dataset_and_says_what_it_cannot_hold(
    runner: CommandRunner, tmp_path: Path, version: str
) -> None:
    out = tmp_path / "focus.csv"
    words = ("--format", "focus", "--focus-version", version, "--out", str(out))
    output = runner.said(build, "cost", *words)
    text = out.read_bytes().decode()

    assert "1 attempt at no known price left out" in output
    assert focus_faults(text, version) == []
    rows = list(csv.DictReader(io.StringIO(text, newline="")))
    assert [row["x_Feature"] for row in rows] == ["chat", "'=1+1"]
    assert {row["InvoiceIssuerName"] for row in rows} == {"acme"}


def test_the_days_are_those_of_the_time_zone(tmp_path: Path) -> None:
    typed = CommandRunner(tmp_path, START)
    time = datetime(2026, 10, 31, 23, 30, tzinfo=UTC).timestamp()  # 0:30 in Berlin
    typed.keep(a_receipt(0, started=time))
    words = ("cost", "--by", "month", "--from", "2026-10-01", "--to", "2026-11-01")
    utc, berlin = (
        orjson.loads(typed.said(build, *words, "--format", "json", "--tz", zone))
        for zone in ("UTC", "Europe/Berlin")
    )

    assert [row["month"] for row in utc["rows"]] == ["2026-10"]
    assert [row["month"] for row in berlin["rows"]] == ["2026-11"]


def test_without_calls_it_says_so(tmp_path: Path) -> None:
    empty = CommandRunner(tmp_path, START)

    assert "No calls from 2026-01-01 to 2026-01-31." in empty.said(
        build, "cost", "--from", "2026-01-01", "--to", "2026-01-31"
    )


def test_the_report_without_a_subcommand_is_as_before(runner: CommandRunner) -> None:
    head, *_ = table_lines(runner.said(build, "--by", "feature"))

    assert "TTFT p50/p95/p99 s" in head


def test_calls_that_were_refused_before_they_had_a_route_are_named(tmp_path: Path) -> None:
    typed = CommandRunner(tmp_path, START + 60)
    nothing = {"usage": None, "list_nanos": None, "cost_nanos": None, "ttft": None}
    typed.keep(
        a_receipt(0, outcome=Outcome.REFUSED, route="", upstream="", **nothing),
        a_receipt(2, usage=Usage(input=1)),
    )
    _, _, refused, _ = table_lines(typed.said(build, "cost", "--by", "provider"))

    assert refused.split()[:3] == ["(none)", "1", "0"]
    assert "unknown" not in refused


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("--by", "planet"), "--by planet: there are team, feature"),
        (("--by", "team", "--format", "focus"), "FOCUS has dimensions of its own"),
        (("--tz", "Mars/Olympus"), "there is no such time zone"),
        (("--from", "yesterday"), "--from yesterday: a date is written as 2026-11-30."),
        (("--to", "9999-12-31"), "--to 9999-12-31: a date is written"),
        (("--from", "2026-02-02", "--to", "2026-02-01"), "is after --to"),
        (("--out", "x.txt"), "--out needs --format"),
        (("--format", "csv", "--out", "/nowhere/x.csv"), "No such file or directory"),
    ],
)
def test_options_that_cannot_be_met_are_refused_with_the_reason(
    runner: CommandRunner, words: tuple[str, ...], why: str
) -> None:
    assert why in runner.error_of(build, "cost", *words)


def test_a_table_of_costs_ends_with_the_command_that_applies_the_best_layout_that_waits(
    runner: CommandRunner,
) -> None:
    store = runner.open()
    propose_layout(store, "chat", 2_500_000_000)
    store.close(5)

    assert (
        runner.said(build, "cost")
        .rstrip()
        .endswith("To apply it: `thriftgate layout approve team_0 chat 1 --family gpt`.")
    )


def test_costs_by_tag_have_a_row_for_each_value_and_focus_has_it_in_its_tags(
    tmp_path: Path,
) -> None:
    typed = CommandRunner(tmp_path, START + 60)
    typed.keep(a_receipt(0, tags=(("customer", "acme"),)), a_receipt(1))

    _, *rows, _ = table_lines(typed.said(build, "cost", "--by", "tag:customer"))
    assert [row.split()[0] for row in rows] == ["(none)", "acme"]
    text = typed.said(build, "cost", "--by", "tag:customer", "--format", "focus")
    tags = [row["Tags"] for row in csv.DictReader(io.StringIO(text))]
    assert sum('"customer": "acme"' in some for some in tags) == 1
