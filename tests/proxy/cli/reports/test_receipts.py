"""Receipts of a log, put into the ledger, and receipts exported from it."""

import logging
import os
from datetime import date
from pathlib import Path

import orjson
import pytest

from dashboards.reports import ReportPeriod
from proxy.cli.main import LOG_FORMAT
from proxy.cli.reports import receipts as command
from proxy.cli.reports.receipts import export
from proxy.records.receipt import Receipt
from proxy.settings import Settings
from proxy.store.journal.journal import Journal
from proxy.store.journal.lines import encode, frame
from proxy.store.journal.logged_receipts import MARKER, to_log_line
from proxy.store.journal.segments import Disk
from proxy.store.sql.ledger import receipt_ledger
from proxy.tools.replay.logs.records import recorded_calls
from proxy.tools.replay.recorded_call import RecordedCall
from tests.fakes.cli_runner import CommandRunner, single_command
from tests.fakes.receipts import START, a_receipt

DAY = 86_400.0
EXPORT = single_command(export)
PROMPT = '{"model":"m","messages":[{"role":"user","content":"Good morning."}]}'


def build(terminal):
    return command.receipts(terminal, lambda: Settings(retention_days=30))


@pytest.fixture
def runner(tmp_path: Path) -> CommandRunner:
    return CommandRunner(tmp_path, START + 3_600)


@pytest.fixture
def team(runner: CommandRunner) -> str:
    """The id of the one team."""
    store = runner.open()
    record = store.teams.create("acme", now=START)
    store.close(5)
    return record.id


def line(receipt: Receipt) -> str:
    logged = MARKER + to_log_line(frame(encode(receipt)))
    return f"2026-11-23 15:00:00,123 CRITICAL proxy.store.journal.journal {logged}"


def write_log(tmp_path: Path, *lines: str) -> str:
    path = tmp_path / "serve.log"
    path.write_text("\n".join(["Thriftgate listens", *lines, "Thriftgate stopped."]) + "\n")
    return str(path)


def ledger(runner: CommandRunner) -> list[Receipt]:
    """All that the ledger holds."""
    store = runner.open()
    receipts = list(store.ledger.receipts_since(0.0))
    store.close(5)
    return receipts


def last_resort(folder: Path, some: list[Receipt]) -> str:
    """The log of a gateway whose disk took nothing and whose database was away when it stopped."""

    def write(file: int, data: bytes) -> int:
        raise OSError(28, os.strerror(28))

    def allocate(file: int, start: int, length: int) -> None:
        raise OSError(28, os.strerror(28))

    path = folder / "last.log"
    handler = logging.FileHandler(path, encoding="ascii")
    handler.setFormatter(logging.Formatter(LOG_FORMAT))
    logger = logging.getLogger("proxy.store.journal.journal")
    logger.addHandler(handler)
    try:
        journal = Journal(folder / "sick", disk=Disk(write=write, allocate=allocate))
        for receipt in some:
            journal.append(encode(receipt))
        journal.close()
        assert journal.log_waiting() == len(some)
    finally:
        logger.removeHandler(handler)
        handler.close()
    return str(path)


def test_receipts_logged_at_a_stop_are_imported_unchanged(
    runner: CommandRunner, team: str, tmp_path: Path
) -> None:
    text = '日本語 with "quotes" and \\ and \u2028'
    lost = [a_receipt(n, team=team, feature=text if n % 2 else "") for n in range(600)]
    log = last_resort(tmp_path, lost)
    output = runner.said(build, "import", log)

    assert "600 receipts found: 600 booked, 0 already in the ledger, 0 refused." in output
    assert ledger(runner) == lost


def test_a_log_that_is_read_twice_books_nothing_twice(
    runner: CommandRunner, team: str, tmp_path: Path
) -> None:
    lost = [a_receipt(n, team=team) for n in range(3)]
    log = write_log(tmp_path, *map(line, [*lost, lost[0]]))
    first, second = runner.said(build, "import", log), runner.said(build, "import", log, log)

    assert "6 lines read, 4 receipts found: 3 booked, 1 already in the ledger, 0 refused." in first
    assert "8 receipts found: 0 booked, 8 already in the ledger, 0 refused." in second
    assert ledger(runner) == lost


def test_sums_count_each_receipt_once(runner: CommandRunner, team: str, tmp_path: Path) -> None:
    lost = [a_receipt(n, team=team) for n in range(5)]
    runner.keep(*lost[:2])
    log = write_log(tmp_path, *map(line, lost))
    output = runner.said(build, "import", log, log)
    store = runner.open()
    period = ReportPeriod(first=date(2026, 9, 20), end=date(2026, 9, 23), zone="UTC")
    (spent,) = store.reports.spend(period, ())
    store.close(5)

    assert "3 booked, 7 already in the ledger" in output
    assert (spent.calls, spent.cost_nanos) == (5, sum(receipt.cost_nanos or 0 for receipt in lost))


def test_bad_lines_are_named_and_the_others_are_booked(
    runner: CommandRunner, team: str, tmp_path: Path
) -> None:
    good = [a_receipt(n, team=team) for n in range(2)]
    log = write_log(
        tmp_path,
        line(good[0]),
        line(a_receipt(5, team=team))[:-9],
        line(a_receipt(6, team="team_of_another")),
        line(a_receipt(7, team=team, started=START - 31 * DAY)),
        line(good[1]),
    )
    text, failed = runner.failure_of(build, "import", log)

    assert f"{log}:3: it is damaged or cut: its checksum does not fit." in text
    assert f"{log}:4: this ledger has no team 'team_of_another'" in text
    assert f"{log}:5: it is older than THRIFTGATE_RETENTION_DAYS" in text
    assert "7 lines read, 5 receipts found: 2 booked, 0 already in the ledger, 3 refused." in text
    assert failed == "3 lines refused."
    assert ledger(runner) == good


def test_a_receipt_that_the_database_never_takes_holds_no_other_up(
    runner: CommandRunner, team: str, tmp_path: Path
) -> None:
    good = [a_receipt(n, team=team) for n in range(3)]
    odd = a_receipt(9, team=team, cost_nanos=1 << 60)
    log = write_log(tmp_path, line(good[0]), line(odd), line(good[1]), line(good[2]))
    text, _ = runner.failure_of(build, "import", log)

    assert f"{log}:3: the database does not take it" in text
    assert ledger(runner) == good


def test_stdin_is_read_for_a_dash(runner: CommandRunner, team: str) -> None:
    lost = a_receipt(1, team=team)
    output = runner.said(build, "import", "-", stdin=f"{line(lost)}\n".encode())

    assert "1 line read, 1 receipt found: 1 booked" in output
    assert ledger(runner) == [lost]


def test_a_line_without_end_is_passed_over_and_the_next_is_read(
    runner: CommandRunner, team: str, tmp_path: Path
) -> None:
    lost = a_receipt(1, team=team)
    log = write_log(tmp_path, "x" * (3 << 20), MARKER + "y" * (2 << 20), line(lost))
    text, _ = runner.failure_of(build, "import", log)

    assert f"{log}:3: it is longer than 1,048,576 bytes." in text
    assert "5 lines read, 2 receipts found: 1 booked, 0 already in the ledger, 1 refused." in text


def test_a_file_that_is_not_there_is_reported(runner: CommandRunner, tmp_path: Path) -> None:
    missing = str(tmp_path / "none.log")

    assert runner.error_of(build, "import", missing) == (
        f"{missing} cannot be read: No such file or directory."
    )


def test_exported_receipts_can_be_replayed(runner: CommandRunner) -> None:
    runner.keep(a_receipt(1, prompt=PROMPT), a_receipt(2))
    with_prompt, without_prompt = map(orjson.loads, runner.said(EXPORT).splitlines())

    (read,) = recorded_calls(with_prompt)
    assert isinstance(read, RecordedCall)
    assert (read.at, read.key, read.feature) == (START + 1, "key_1", "support")
    assert orjson.loads(read.body)["messages"][0]["content"] == "Good morning."
    assert "prompt" not in without_prompt


def test_every_attempt_is_exported_once_in_order_however_many(
    runner: CommandRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(receipt_ledger, "_RECEIPTS_PER_READ", 3)
    receipts = [a_receipt(n) for n in range(7)]
    first = receipts[2]
    again = a_receipt(2, attempt=1)
    runner.keep(*receipts[:2], a_receipt(2, final=False), again, *receipts[3:])
    entries = [orjson.loads(line) for line in runner.said(EXPORT).splitlines()]

    assert [entry["call_id"] for entry in entries] == sorted(
        [*(receipt.call_id for receipt in receipts), first.call_id]
    )
    assert [entry.get("attempt", 0) for entry in entries if entry["call_id"] == first.call_id] == [
        0,
        1,
    ]


def test_a_teams_calls_of_some_days_alone_are_exported(runner: CommandRunner) -> None:
    runner.now = START + 90_000
    store = runner.open()
    team = store.teams.create("acme", now=START)
    store.close(5)
    runner.keep(a_receipt(1), a_receipt(2, team=team.id), a_receipt(80_000, team=team.id))

    assert len(runner.said(EXPORT).splitlines()) == 3
    assert len(runner.said(EXPORT, "--team", "acme").splitlines()) == 2
    assert len(runner.said(EXPORT, "--days", "1").splitlines()) == 1
    assert "no team named nobody" in runner.error_of(EXPORT, "--team", "nobody")
