"""Notices by Apprise, to a server on this machine."""

import asyncio
import logging

import pytest

from proxy.services.alerts.notices import AppriseNotice, AppriseSender, notice, why_not
from slo.alert import Severity, resolve_alert
from tests.fakes.alerts import NOW, an_alert, json_of_post
from tests.fakes.server import CLOSE, WAIT, Server, head, serving

OK = [head(200, "content-length: 0")]
NOTICE = AppriseNotice(title="A title", body="One line\nanother", kind="failure")
TARGETS = {
    "e-mail": "mailto://user:xyzzy@example.org?to=ops@example.org",
    "PagerDuty": "pagerduty://A1B2C3@xyzzy?action=map",
    "Teams": "workflows://host.example/WORKFLOW/xyzzy",
    "two": "json://127.0.0.1:1/xyzzy json://127.0.0.1:2/xyzzy",
}


def send_notice(*answers, deadline=5.0, path="xyzzy?k=xyzzy"):
    """The server after a notice, and why it was not taken."""

    async def run() -> tuple[Server, str]:
        async with serving(*answers) as server:
            notices = AppriseSender(deadline)
            try:
                return server, await notices.send(f"json://127.0.0.1:{server.port}/{path}", NOTICE)
            finally:
                notices.close()

    return asyncio.run(run())


def test_a_notice_is_sent_with_its_title_lines_and_kind():
    server, why = send_notice(OK)

    assert why == ""
    (request,) = server.got
    assert request.line.startswith("POST /xyzzy")
    body = json_of_post(request)
    assert (body["title"], body["message"], body["type"]) == (
        "A title",
        "One line\nanother",
        "failure",
    )


@pytest.mark.parametrize("answer", [[head(500, "content-length: 0")], [CLOSE]])
def test_a_service_that_fails_has_not_taken_it(answer):
    assert send_notice(answer)[1] == "the service did not take it"


def test_a_service_that_hangs_is_waited_for_no_longer_than_the_deadline():
    assert send_notice([WAIT], deadline=0.2)[1] == "it did not answer within 0.2 s"


def test_a_sink_that_hangs_gets_no_second_thread():
    async def run() -> list[str]:
        async with serving([WAIT]) as server:
            notices = AppriseSender(0.2)
            url = f"json://127.0.0.1:{server.port}"
            try:
                return [await notices.send(url, NOTICE) for _ in range(2)]
            finally:
                notices.close()

    assert asyncio.run(run()) == [
        "it did not answer within 0.2 s",
        "it still works on the notice before",
    ]


def test_url_of_a_sink_is_never_logged(caplog):
    caplog.set_level(logging.DEBUG)
    send_notice(OK)
    send_notice([CLOSE])
    send_notice([head(500, "content-length: 0")])
    why_not("json://xyzzy:xyzzy@")

    assert "xyzzy" not in caplog.text


@pytest.mark.parametrize("url", TARGETS.values(), ids=TARGETS.keys())
def test_services_are_known_by_their_urls(url):
    assert why_not(url) == ""


@pytest.mark.parametrize("url", ["xyzzy", "xyzzy://host", "json://", "mailto://xyzzy"])
def test_an_unknown_service_is_reported_without_the_url(url):
    assert why_not(url) == "holds no URL that Apprise understands"


def test_without_the_library_the_extra_is_named():
    reason = why_not("json://host/xyzzy", find=lambda name: None)

    assert reason == (
        "is for the package apprise, which is missing: run pip install 'thriftgate[alerts]'"
    )


@pytest.mark.parametrize(
    ("severity", "kind"),
    [(Severity.PAGE, "failure"), (Severity.TICKET, "warning"), (Severity.NOTE, "info")],
)
def test_an_alert_is_as_urgent_as_it_is_and_its_end_a_success_of_the_same_title(severity, kind):
    alert = an_alert(severity=severity)
    begun, ended = notice(alert), notice(resolve_alert(alert, NOW + 60))

    assert (begun.kind, ended.kind) == (kind, "success")
    assert begun.title == ended.title == alert.title
    assert "to do: Pin it" in begun.body
    assert ended.body.startswith("Resolved.\n")


def test_callers_text_makes_no_mentions():
    message = notice(an_alert(title="@everyone <!channel> <@U1>", action="@here"))

    for text in (message.title, message.body):
        assert not any(mention in text for mention in ("@everyone", "<!channel>", "<@U1", "@here"))
