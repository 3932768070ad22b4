from typing import Any

import pytest

from proxy.services.reports.report_senders import (
    ReportSenders,
    report_senders,
    report_variables,
)
from proxy.settings import Settings
from slo.policies.reports import ScheduledReport
from tests.fakes.scheduled_reports import a_scheduled_report

HOOK = {"url_env": "HOOK", "secret_env": "HOOK_SECRET"}
KNOWN = {"HOOK": "https://hooks.example/xyzzy", "HOOK_SECRET": "plugh"}


def senders(
    report: ScheduledReport, known: dict[str, str] | None = None, **settings: Any
) -> tuple[ReportSenders, list[str]]:
    said = {"smtp_url": "smtp://mail.example.com", "mail_from": "r@example.com"} | settings
    (found,), lacking = report_senders(
        [report], Settings(**said), KNOWN if known is None else known
    )
    return found, lacking


def test_a_report_goes_to_each_address_and_to_its_webhook() -> None:
    found, lacking = senders(a_scheduled_report(mail_to=("a@x.y", "b@x.y"), **HOOK))

    assert found.recipients == ("mailto:a@x.y", "mailto:b@x.y", "webhook")
    assert lacking == []
    assert "xyzzy" not in repr(found)


@pytest.mark.parametrize(
    ("known", "settings", "left", "why"),
    [
        (KNOWN, {"smtp_url": ""}, ("webhook",), "mailed: THRIFTGATE_SMTP_URL is not set"),
        (KNOWN, {"mail_from": "x"}, ("webhook",), "mailed: THRIFTGATE_MAIL_FROM holds no"),
        ({}, {}, ("mailto:ann@example.com",), "posted: HOOK is not set"),
        ({"HOOK": "ftp://xyzzy"}, {}, ("mailto:ann@example.com",), "HOOK holds no address"),
        (
            {"HOOK": "https://xyzzy"},
            {},
            ("mailto:ann@example.com",),
            "posted: HOOK_SECRET is not set",
        ),
    ],
)
def test_who_cannot_be_reached_is_left_out_and_named(
    known: dict[str, str], settings: dict[str, str], left: tuple[str, ...], why: str
) -> None:
    found, (said,) = senders(a_scheduled_report(**HOOK), known, **settings)

    assert found.recipients == left
    assert said.startswith("The report `weekly` is not ")
    assert why in said
    assert "xyzzy" not in said


def test_a_report_without_mails_needs_no_mail_server() -> None:
    found, lacking = senders(a_scheduled_report(mail_to=(), **HOOK), smtp_url="")

    assert (found.recipients, lacking) == (("webhook",), [])
    assert report_variables([found.scheduled]) == ["HOOK", "HOOK_SECRET"]
