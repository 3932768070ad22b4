import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import typer
from pydantic import SecretStr

from proxy.cli.reports.report import reports
from proxy.cli.terminal import Terminal
from proxy.settings import Settings
from slo.policies.file import Policies
from tests.fakes.chaos import two_model_catalog
from tests.fakes.cli_runner import CommandRunner
from tests.fakes.mail_server import FakeMailServer, mail_server_running
from tests.fakes.receipts import START, a_receipt
from tests.fakes.scheduled_reports import ADDRESS, DUE, WEEK, a_scheduled_report


@pytest.fixture
def runner(tmp_path: Path) -> CommandRunner:
    command_runner = CommandRunner(tmp_path, DUE)
    command_runner.keep(a_receipt(0, cost_nanos=1_000_000_001), a_receipt(1, feature="\x1b[31m\nx"))
    return command_runner


def build(port: int = 0, **changes: Any) -> Any:
    settings = Settings(
        smtp_url=SecretStr(f"smtp://127.0.0.1:{port}" if port else ""), mail_from="r@example.com"
    )
    policies = Policies(reports=(a_scheduled_report(**changes),))

    def line(terminal: Terminal) -> typer.Typer:
        return reports(terminal, two_model_catalog, lambda: settings, lambda _: policies)

    return line


@contextmanager
def a_mail_server(**replies: str) -> Iterator[FakeMailServer]:
    """A server in a thread of its own, as the command runs a loop of its own."""
    loop, ends, began = asyncio.new_event_loop(), asyncio.Event(), threading.Event()
    servers: list[FakeMailServer] = []

    async def serve() -> None:
        async with mail_server_running(**replies) as server:
            servers.append(server)
            began.set()
            await ends.wait()

    thread = threading.Thread(target=loop.run_until_complete, args=(serve(),))
    thread.start()
    began.wait(30)
    try:
        yield servers[0]
    finally:
        loop.call_soon_threadsafe(ends.set)
        thread.join(30)
        loop.close()


def test_a_dry_run_prints_the_report_and_sends_nothing(runner: CommandRunner) -> None:
    shown = runner.said(build(), "send", "weekly", "--dry-run")

    assert shown.splitlines()[:2] == [f"To: {ADDRESS}", f"Subject: Costs of all teams, {WEEK}"]
    assert "$1.000000001" in shown
    assert "\x1b" not in shown


def test_a_report_is_sent_by_hand_as_often_as_one_wants(runner: CommandRunner) -> None:
    with a_mail_server() as server:
        outputs = [runner.said(build(server.port), "send", "weekly") for _ in range(2)]

    assert outputs == [f"Sent to mailto:{ADDRESS}.\n"] * 2
    assert [mail["Subject"] for _, _, mail in server.mails] == [f"Costs of all teams, {WEEK}"] * 2


def test_a_period_is_named(runner: CommandRunner) -> None:
    early = runner.said(build(), "send", "weekly", "--period", "2026-W30", "--dry-run")
    month = runner.now = START + 40 * 86_400
    monthly = runner.said(
        build(every="month"), "send", "weekly", "--period", "2026-09", "--dry-run"
    )

    assert month
    assert "2026-07-20 to 2026-07-26" in early
    assert "No calls in this period." in early
    assert "2026-09-01 to 2026-09-30" in monthly


def test_a_refusal_is_told_in_the_servers_words(runner: CommandRunner) -> None:
    with a_mail_server(rcpt="550 no such person") as server:
        why = runner.error_of(build(server.port), "send", "weekly")

    assert why == f"Not sent to mailto:{ADDRESS}: it answered 550. no such person"


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("other",), "There is no report other in the policies file; there are: weekly."),
        (("weekly", "--period", "2026-09"), "--period 2026-09: a week is written as 2026-W47."),
        (("weekly", "--period", "2026-W40"), "--period 2026-W40 has not ended."),
        (("weekly",), "The report `weekly` is not mailed: THRIFTGATE_SMTP_URL is not set."),
    ],
)
def test_a_report_that_cannot_be_sent_is_explained(
    runner: CommandRunner, words: tuple[str, ...], why: str
) -> None:
    assert runner.error_of(build(), "send", *words) == why


def test_a_team_that_does_not_exist_is_named(runner: CommandRunner) -> None:
    why = runner.error_of(build(team="nobody"), "send", "weekly", "--dry-run")

    assert why == "The report cannot be built: there is no team nobody."
