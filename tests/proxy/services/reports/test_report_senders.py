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
    report: ScheduledReport, variables: dict[str, str] | None = None, **settings: Any
) -> tuple[ReportSenders, list[str]]:
    settings_fields = {
        "smtp_url": "smtp://mail.example.com",
        "mail_from": "r@example.com",
    } | settings
    (sender,), lacking = report_senders(
        [report], Settings(**settings_fields), KNOWN if variables is None else variables
    )
    return sender, lacking


def test_a_report_goes_to_each_address_and_to_its_webhook() -> None:
    sender, lacking = senders(a_scheduled_report(mail_to=("a@x.y", "b@x.y"), **HOOK))

    assert sender.recipients == ("mailto:a@x.y", "mailto:b@x.y", "webhook")
    assert lacking == []
    assert "xyzzy" not in repr(sender)


@pytest.mark.parametrize(
    ("variables", "settings", "left", "why"),
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
def test_an_unreachable_recipient_is_left_out_and_named(
    variables: dict[str, str], settings: dict[str, str], left: tuple[str, ...], why: str
) -> None:
    sender, (problem,) = senders(a_scheduled_report(**HOOK), variables, **settings)

    assert sender.recipients == left
    assert problem.startswith("The report `weekly` is not ")
    assert why in problem
    assert "xyzzy" not in problem


def test_a_report_without_mails_needs_no_mail_server() -> None:
    sender, lacking = senders(a_scheduled_report(mail_to=(), **HOOK), smtp_url="")

    assert (sender.recipients, lacking) == (("webhook",), [])
    assert report_variables([sender.scheduled]) == ["HOOK", "HOOK_SECRET"]
