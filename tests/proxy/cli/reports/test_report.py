from pathlib import Path

import orjson
import pytest

from proxy.cli.reports.report import report
from proxy.records.receipt import Outcome
from tests.fakes.chaos import two_model_catalog
from tests.fakes.cli_runner import CommandRunner, single_command, table_lines
from tests.fakes.receipts import START, a_receipt
from tests.fakes.savings import propose_layout

REPORT = single_command(lambda terminal: report(terminal, two_model_catalog))
LONG = "a-feature-with-a-name-that-leaves-no-room-for-figures-in-eighty-columns"


@pytest.fixture
def runner(tmp_path: Path) -> CommandRunner:
    command_runner = CommandRunner(tmp_path, START + 60)
    command_runner.keep(*(a_receipt(n, feature=LONG) for n in range(3)))
    return command_runner


def test_in_a_pipe_each_row_is_one_line_however_long(runner: CommandRunner) -> None:
    head, *rows = table_lines(runner.said(REPORT, "--by", "feature", "--by", "model"))

    assert head.split()[:3] == ["team", "feature", "model"]
    assert "cost USD" in head
    assert all(LONG in row for row in rows[:-1])
    assert rows[-1].startswith("all")


def test_report_wraps_on_a_narrow_terminal(runner: CommandRunner) -> None:
    runner.width = 60
    lines = table_lines(runner.said(REPORT, "--by", "feature"))

    assert max(map(len, lines)) <= 60


def test_calls_that_failed_are_counted_beside_all_calls(tmp_path: Path) -> None:
    typed = CommandRunner(tmp_path, START + 60)
    failed = a_receipt(9, outcome=Outcome.FAILED, status=502, usage=None)
    typed.keep(*(a_receipt(n, team=failed.team) for n in range(3)), failed)
    head, row, _ = table_lines(typed.said(REPORT))

    assert head.split()[:3] == ["team", "calls", "errors"]
    assert row.split()[1:3] == ["4", "1"]


def test_a_report_as_json_is_one_document(runner: CommandRunner) -> None:
    document = orjson.loads(runner.said(REPORT, "--json", "--by", "feature"))

    assert [row["feature"] for row in document["rows"]] == [LONG] * len(document["rows"])
    assert document["total"]["calls"] == 3
    assert isinstance(document["total"]["cost_usd"], str)


def test_without_calls_it_says_so(tmp_path: Path) -> None:
    empty = CommandRunner(tmp_path, START)

    assert empty.said(REPORT, "--days", "7") == (
        f"No calls in the last 7 days in sqlite:///{tmp_path}/thriftgate.db.\n"
    )
    assert orjson.loads(empty.said(REPORT, "--json"))["rows"] == []


@pytest.mark.parametrize("zone", ["Mars/Olympus", "/etc", ""])
def test_a_zone_that_is_none_is_refused(runner: CommandRunner, zone: str) -> None:
    assert "there is no such time zone" in runner.error_of(REPORT, "--zone", zone)


def test_a_report_has_the_cost_of_a_thousand_calls_and_their_durations(
    runner: CommandRunner,
) -> None:
    document = orjson.loads(runner.said(REPORT, "--json", "--by", "model"))

    assert document["total"]["cost_per_1k_calls_usd"] == "4.000001"
    assert document["total"]["ttft_s"] == {"p50": 0.25, "p95": 0.25, "p99": 0.25}
    assert document["total"]["duration_s"] == {"p50": 1.5, "p95": 1.5, "p99": 1.5}
    assert [row["timed_calls"] for row in document["rows"]] == [2, 1]
    head, *rows = table_lines(runner.said(REPORT))
    assert "USD per 1k calls" in head
    assert "USD per 1k attempts" in table_lines(runner.said(REPORT, "--by", "model"))[0]
    assert "TTFT p50/p95/p99 s" in head
    assert all(row.split()[-2:] == ["0.25/0.25/0.25", "1.5/1.5/1.5"] for row in rows)


def test_a_model_is_the_one_that_answered_unless_the_requested_one_is_asked_for(
    tmp_path: Path,
) -> None:
    typed = CommandRunner(tmp_path, START + 60)
    typed.keep(a_receipt(1, model="big", route="two/small"))

    answered = orjson.loads(typed.said(REPORT, "--json", "--by", "model"))
    requested = orjson.loads(typed.said(REPORT, "--json", "--by", "requested"))

    assert [row["model"] for row in answered["rows"]] == ["small"]
    assert [row["requested"] for row in requested["rows"]] == ["big"]


def test_report_names_the_command_that_applies_the_best_layout_that_waits(
    runner: CommandRunner,
) -> None:
    store = runner.open()
    propose_layout(store, "chat", 2_500_000_000)
    store.close(5)

    command = "`thriftgate layout approve team_0 chat 1 --family gpt`"
    report = runner.said(REPORT)
    assert "should save $2.50 per 1,000 calls more (by estimate from 180 calls)." in report
    assert f"To apply it: {command}." in report
