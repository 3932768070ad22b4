import asyncio
import sys
from typing import Any

import pytest

from proxy.services.alerts.http_sender import DeliveryFailure
from proxy.services.reports.mail_server import AddressedMail, MailServer, mail_server
from tests.fakes.mail_server import FakeMailServer, mail_server_running

MAIL = AddressedMail("ann@example.com", b"Subject: costs\r\n\r\n.one\r\ntwo\r\n")


def send_mail(
    deadline_s: float = 20.0, user: str = "", **replies: Any
) -> tuple[FakeMailServer, DeliveryFailure | None]:
    """The server after a mail, and why it was not taken."""

    async def run() -> tuple[FakeMailServer, DeliveryFailure | None]:
        async with mail_server_running(**replies) as server:
            to = MailServer(
                host="127.0.0.1",
                port=server.port,
                sender="reports@example.com",
                user=user,
                password="hunter2" if user else "",
                deadline_s=deadline_s,
            )
            return server, await to.send(MAIL)

    return asyncio.run(run())


def test_a_mail_arrives_as_it_is() -> None:
    server, failure = send_mail()
    ((sender, recipient, mail),) = server.mails

    assert failure is None
    assert (sender, recipient) == ("reports@example.com", "ann@example.com")
    assert mail["Subject"] == "costs"
    assert mail.get_content().splitlines() == [".one", "two"]


@pytest.mark.parametrize(
    ("replies", "reason", "is_refused"),
    [
        ({"rcpt": "550 no such person"}, "it answered 550", True),
        ({"rcpt": "450 later"}, "it answered 450", False),
        ({"mail": "553 not you"}, "it answered 553", True),
        ({"mail": "530 sign in first"}, "it answered 530", False),
        ({"data": "554 no"}, "it answered 554", True),
        ({"dot": "552 too large"}, "it answered 552", True),
        ({"dot": "451 busy"}, "it answered 451", False),
    ],
)
def test_a_refusal_of_the_mail_is_told_from_a_server_at_fault(
    replies: dict[str, Any],
    reason: str,
    is_refused: bool,  # noqa: FBT001 - a test's case
) -> None:
    server, failure = send_mail(**replies)

    assert failure is not None
    assert (failure.reason, failure.is_refused) == (reason, is_refused)
    assert server.mails == []


@pytest.mark.parametrize("verb", ["ehlo", "mail", "rcpt", "data", "dot"])
def test_a_server_that_hangs_is_left_at_the_deadline(verb: str) -> None:
    _, failure = send_mail(deadline_s=0.3, **{verb: ""})

    assert failure is not None
    assert failure.reason == "it did not answer within 0.3 s"


def test_a_password_is_never_sent_without_tls() -> None:
    server, failure = send_mail(user="ann")

    assert failure is not None
    assert not failure.is_refused
    assert not any("AUTH" in command for command in server.commands)
    assert server.mails == []


def test_a_server_that_is_away_is_named_by_the_kind_of_error() -> None:
    to = MailServer(host="127.0.0.1", port=1, sender="r@example.com")
    failure = asyncio.run(to.send(MAIL))

    assert failure is not None
    assert failure.reason.startswith("it cannot be reached (")


def test_a_url_names_server_and_account() -> None:
    server = mail_server("smtp://ann%40x:p%3Aw@mail.example.com", "r@example.com")

    assert (server.host, server.port, server.is_tls) == ("mail.example.com", 587, False)
    assert (server.user, server.password) == ("ann@x", "p:w")
    assert "p:w" not in repr(server)
    secure = mail_server("smtps://mail.example.com:4650", "r@example.com")
    assert (secure.port, secure.is_tls, secure.user) == (4650, True, "")
    assert mail_server("smtps://h", "r@example.com").port == 465


@pytest.mark.parametrize(
    ("url", "sender"),
    [
        ("mail.example.com", "r@x.y"),
        ("https://xyzzy@mail.example.com", "r@x.y"),
        ("smtp://xyzzy@mail.example.com", "r@x.y"),
        ("smtp://u:xyzzy@", "r@x.y"),
        ("smtp://u:xyzzy@h:99999", "r@x.y"),
        ("smtp://u:xyzzy@h/path", "r@x.y"),
        ("smtp://u:xyzzy@h", ""),
        ("smtp://u:xyzzy@h", "Reports <r@x.y>"),
    ],
)
def test_a_mistake_is_named_by_its_setting_and_not_repeated(url: str, sender: str) -> None:
    with pytest.raises(ValueError, match=r"^THRIFTGATE_(SMTP_URL|MAIL_FROM) holds") as bad:
        mail_server(url, sender)
    assert "xyzzy" not in str(bad.value)


def test_a_mail_server_without_the_client_names_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "aiosmtplib", None)

    with pytest.raises(ValueError, match=r"thriftgate\[mail\]"):
        mail_server("smtp://mail.example.com", "reports@example.com")
