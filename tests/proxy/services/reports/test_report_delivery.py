import asyncio
import csv
import io
import logging
from collections.abc import Awaitable, Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from proxy.configuration import Snapshot
from proxy.services.alerts.http_sender import HttpSender
from proxy.services.reports.mail_server import MailServer
from proxy.services.reports.report_delivery import (
    LEASE_S,
    MAX_REFUSALS,
    MAX_TRIES,
    SETTLE_S,
    ReportScheduler,
    retry_pause_s,
    running_reports,
)
from proxy.services.reports.report_senders import ReportSenders
from proxy.settings import Settings
from proxy.store.store import Store
from slo.policies.file import Policies
from tests.fakes.app_context import AppContextCalls, fake_app_context
from tests.fakes.call_dependencies import catalog
from tests.fakes.mail_server import FakeMailServer, mail_server_running
from tests.fakes.savings import figures_of
from tests.fakes.scheduled_reports import (
    ADDRESS,
    BEFORE,
    DUE,
    WEEK,
    a_scheduled_report,
    calls_of_two_teams,
    open_store,
)
from tests.fakes.server import head, serving

A_WEEK = 7 * 86_400.0


class ReportGateways:
    """Gateways on one database, with one clock, one mail server and perhaps a webhook."""

    def __init__(self, stores: list[Store], mail: FakeMailServer, url: str = "") -> None:
        self.now = BEFORE
        self.mail = mail
        self.url = url
        self.stores = stores
        self._http = HttpSender()
        self.gateways = [self._gateway(store) for store in stores]

    def senders(self, **changes: Any) -> ReportSenders:
        server = MailServer(host="127.0.0.1", port=self.mail.port, sender="r@example.com")
        return ReportSenders(
            scheduled=a_scheduled_report(**changes), mail=server, url=self.url, secret="s"
        )

    async def at(self, now: float) -> None:
        """Let every gateway send at a moment, all together."""
        self.now = now
        await asyncio.gather(*(gateway.send_due() for gateway in self.gateways))

    def whys(self) -> list[str]:
        return [
            delivery.why
            for delivery in self.stores[0].report_deliveries.last_deliveries("weekly", 9)
        ]

    def _gateway(self, store: Store) -> ReportScheduler:
        figures = figures_of(store, self.now)
        return ReportScheduler(store, [self.senders()], self._http, figures, lambda: self.now)


Plan = Callable[[ReportGateways], Awaitable[None]]


def run(stores: list[Store], plan: Plan, url: str = "", **replies: str) -> FakeMailServer:
    async def all_of_it() -> FakeMailServer:
        async with mail_server_running(**replies) as mail:
            await plan(ReportGateways(stores, mail, url))
            return mail

    return asyncio.run(all_of_it())


async def a_week(office: ReportGateways) -> None:
    await office.at(BEFORE)
    await office.at(DUE)


def test_a_week_is_mailed_once_after_its_end_with_the_figures_of_the_ledger(store: Store) -> None:
    calls_of_two_teams(store)

    async def plan(office: ReportGateways) -> None:
        await office.at(BEFORE)
        await office.at(DUE - 3_600 - 1)
        assert office.mail.mails == []
        for later in (0, 60, 86_400):
            await office.at(DUE + later)

    ((_, recipient, mail),) = run([store], plan).mails
    (attached,) = mail.iter_attachments()
    rows = list(csv.DictReader(io.StringIO(attached.get_content(), newline="")))

    assert recipient == ADDRESS
    assert mail["Subject"] == f"Costs of all teams, {WEEK}"
    assert sum(Decimal(row["cost_usd"]) for row in rows) == Decimal("4.000000006")
    assert {row["feature"] for row in rows} == {"<b>", "'=1+1"}
    html = mail.get_body(("html",))
    assert html is not None
    assert "&lt;b&gt;" in html.get_content()
    assert "<b>" not in html.get_content()
    assert DUE - SETTLE_S >= DUE - 3 * 3_600


def test_of_two_gateways_one_sends(tmp_path: Path) -> None:
    stores = [open_store(tmp_path), open_store(tmp_path)]
    mails = run(stores, a_week).mails
    for store in stores:
        store.close(5)

    assert len(mails) == 1


def test_after_a_restart_nothing_is_sent_twice_and_what_was_missed_is_sent(tmp_path: Path) -> None:
    async def before(office: ReportGateways) -> None:
        await a_week(office)

    async def after(office: ReportGateways) -> None:
        await office.at(DUE + 60)
        assert office.mail.mails == []
        await office.at(DUE + 2 * A_WEEK)

    first, second = open_store(tmp_path), open_store(tmp_path)
    assert len(run([first], before).mails) == 1
    first.close(5)
    mails = run([second], after).mails
    second.close(5)

    assert [mail["Subject"][-8:] for _, _, mail in mails] == ["2026-W40", "2026-W41"]


def test_a_mail_that_fails_is_sent_again_later(store: Store) -> None:
    async def plan(office: ReportGateways) -> None:
        office.mail.replies["RCPT"] = "450 later"
        await a_week(office)
        assert office.whys() == ["it answered 450"]
        del office.mail.replies["RCPT"]
        await office.at(DUE + retry_pause_s(1) - 1)
        assert office.mail.mails == []
        await office.at(DUE + retry_pause_s(1))
        await office.at(DUE + A_WEEK - 7_200)

    assert len(run([store], plan).mails) == 1


@pytest.mark.parametrize(("reply", "tries"), [("550 unknown", MAX_REFUSALS), ("450 x", MAX_TRIES)])
def test_a_mail_that_always_fails_is_given_up(
    store: Store, reply: str, tries: int, caplog: pytest.LogCaptureFixture
) -> None:
    async def plan(office: ReportGateways) -> None:
        office.mail.replies["MAIL"] = reply
        await a_week(office)
        for n in range(1, tries + 5):
            await office.at(office.now + retry_pause_s(n))

    server = run([store], plan)
    commands = [command for command in server.commands if command.startswith("MAIL")]
    # The week after may have ended meanwhile; its mails are others.
    assert tries <= len(commands) < 2 * tries
    assert f"The report `weekly` of {WEEK} was not sent to mailto:{ADDRESS}, and is given up" in (
        caplog.text
    )


def test_one_recipient_that_fails_keeps_no_other_waiting(store: Store) -> None:
    async def all_of_it() -> tuple[FakeMailServer, int]:
        async with (
            serving([head(200, "content-length: 0")]) as hook,
            mail_server_running(rcpt="450 later") as mail,
        ):
            office = ReportGateways([store], mail, f"http://127.0.0.1:{hook.port}/hook")
            await a_week(office)
            await office.at(DUE + 120)
            return mail, len(hook.got)

    mail, posted = asyncio.run(all_of_it())
    assert (mail.mails, posted) == ([], 1)


def test_a_team_that_does_not_exist_is_a_failure_with_its_reason(store: Store) -> None:
    async def plan(office: ReportGateways) -> None:
        office.gateways[0].update([office.senders(team="nobody")])
        await a_week(office)
        assert office.whys() == ["there is no team nobody"]

    assert run([store], plan).mails == []


def test_a_gateway_that_died_with_a_claim_leaves_it_to_another(store: Store) -> None:
    async def plan(office: ReportGateways) -> None:
        await office.at(BEFORE)
        deliveries = store.report_deliveries
        office.gateways[0].update([office.senders(mail_to=())])
        office.now = DUE
        await office.gateways[0]._schedule(office.senders())
        assert deliveries.claim_due("weekly", [f"mailto:{ADDRESS}"], DUE, LEASE_S) is not None
        office.gateways[0].update([office.senders()])
        await office.at(DUE + LEASE_S - 1)
        assert office.mail.mails == []
        await office.at(DUE + LEASE_S)

    assert len(run([store], plan).mails) == 1


def test_pauses_grow_to_an_hour() -> None:
    assert [retry_pause_s(n) for n in (1, 2, 3, 7, 60)] == [60, 120, 240, 3_600, 3_600]


async def test_a_gateway_follows_the_reports_of_its_policies_file(
    store: Store, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    heard = AppContextCalls()

    context = fake_app_context(Settings(), store, heard)
    async with asyncio.timeout(30), running_reports(context):
        policies = Policies(reports=(a_scheduled_report(),))
        (prepare,) = heard.followed
        (await prepare(Snapshot(catalog(), policies)))()
    assert "The report `weekly` is not mailed: THRIFTGATE_SMTP_URL is not set" in caplog.text
