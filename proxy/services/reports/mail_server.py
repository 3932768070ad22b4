"""Mails through an SMTP server, with one deadline for all of it.

aiosmtplib speaks SMTP on the event loop, so that a deadline ends a connection that hangs. The
standard library's smtplib would hold a thread until each of its reads had timed out.

Source: RFC 5321, section 4.2.1 (reply codes); RFC 3207 (STARTTLS); RFC 8314 (implicit TLS).
"""

import asyncio
from importlib.util import find_spec
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote, urlsplit

import msgspec

from proxy.errors import how_to_install
from proxy.services.alerts.http_sender import DeliveryFailure
from slo.alert import single_line
from slo.policies.reports import is_mail_address

if TYPE_CHECKING:
    from aiosmtplib import SMTPResponseException

#: Seconds that one mail may take.
MAIL_DEADLINE_S: Final = 30.0
_PORTS: Final = {"smtp": 587, "smtps": 465}
_PERMANENT: Final = range(500, 600)
#: Replies that are about the sign-in or the connection, which an operator changes.
_NOT_ABOUT_THE_MAIL: Final = frozenset({530, 534, 535, 538})
_MAX_DETAIL_CHARS: Final = 200


class AddressedMail(msgspec.Struct, frozen=True):
    """A mail as it goes over the wire, and the address that it goes to."""

    recipient: str
    text: bytes


class MailServer(msgspec.Struct, frozen=True, kw_only=True):
    """An SMTP server, and the address that mails come from.

    Attributes:
        user: Name to sign in with; "" for none.
        is_tls: True if the connection begins with TLS. Without, it turns to TLS where the server
            offers it, and has to where there is a password.
        deadline_s: Seconds that one mail may take.
    """

    host: str
    port: int
    sender: str
    user: str = ""
    password: str = ""
    is_tls: bool = False
    deadline_s: float = MAIL_DEADLINE_S

    def __repr__(self) -> str:
        """Its address alone."""
        return f"MailServer({self.host}:{self.port})"

    async def send(self, mail: AddressedMail) -> DeliveryFailure | None:
        """Send a mail to its one recipient: None, or why the server did not take it."""
        import aiosmtplib  # noqa: PLC0415 - an extra

        client = aiosmtplib.SMTP(
            hostname=self.host,
            port=self.port,
            username=self.user or None,
            password=self.password or None,
            use_tls=self.is_tls,
            start_tls=None if self.is_tls or not self.user else True,
            local_hostname="[127.0.0.1]"
            if self.host in {"localhost", "127.0.0.1", "::1"}
            else self.sender.rpartition("@")[2],
            timeout=self.deadline_s,
        )
        try:
            async with asyncio.timeout(self.deadline_s):
                await client.connect()
                await client.sendmail(self.sender, mail.recipient, mail.text)
        except aiosmtplib.SMTPRecipientsRefused as error:
            return _reply_failure(error.recipients[0])
        except aiosmtplib.SMTPResponseException as error:
            return _reply_failure(error)
        except TimeoutError:
            return DeliveryFailure(f"it did not answer within {self.deadline_s:g} s")
        except (aiosmtplib.SMTPException, OSError, ValueError) as error:
            detail = single_line(str(error), _MAX_DETAIL_CHARS)
            return DeliveryFailure(f"it cannot be reached ({type(error).__name__})", detail=detail)
        finally:
            client.close()  # without a goodbye, which would only cost time
        return None


def mail_server(url: str, sender: str) -> MailServer:
    """The mail server of a URL.

    Args:
        url: ``smtp://USER:PASSWORD@HOST:PORT`` or ``smtps://``; user, password and port are
            optional. It is a secret.

    Raises:
        ValueError: It names no server, the sender is no address, or the extra ``mail`` is missing;
            the URL is not repeated.
    """
    if find_spec("aiosmtplib") is None:
        raise ValueError(f"mails need a package: {how_to_install('mail')}")
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise ValueError("THRIFTGATE_SMTP_URL holds no URL") from None
    if parts.scheme not in _PORTS or not parts.hostname or parts.path.strip("/") or parts.query:
        raise ValueError(
            "THRIFTGATE_SMTP_URL holds no smtp://USER:PASSWORD@HOST:PORT and no smtps://"
        )
    if bool(parts.username) != bool(parts.password):
        raise ValueError("THRIFTGATE_SMTP_URL holds a user or a password without the other")
    if not is_mail_address(sender):
        raise ValueError("THRIFTGATE_MAIL_FROM holds no address such as reports@example.com")
    return MailServer(
        host=parts.hostname,
        port=port or _PORTS[parts.scheme],
        sender=sender,
        user=unquote(parts.username or ""),
        password=unquote(parts.password or ""),
        is_tls=parts.scheme == "smtps",
    )


def _reply_failure(reply: "SMTPResponseException") -> DeliveryFailure:
    """A server's refusal, with its words for a person who tests it."""
    return DeliveryFailure(
        f"it answered {reply.code}",
        detail=single_line(reply.message, _MAX_DETAIL_CHARS),
        is_refused=reply.code in _PERMANENT and reply.code not in _NOT_ABOUT_THE_MAIL,
    )
