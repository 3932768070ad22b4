"""The senders of scheduled reports whose addresses and secrets are set."""

from collections.abc import Iterable, Mapping, Sequence
from email.policy import SMTP
from typing import Final

import msgspec

from proxy.services.alerts.configured_sinks import is_http_address
from proxy.services.alerts.http_sender import DeliveryFailure, HttpMessage, HttpSender
from proxy.services.reports.mail_server import AddressedMail, MailServer, mail_server
from proxy.services.reports.report_content import ReportContent
from proxy.settings import Settings
from slo.policies.reports import ScheduledReport

MAIL_PREFIX: Final = "mailto:"
WEBHOOK: Final = "webhook"


class ReportSenders(msgspec.Struct, frozen=True, kw_only=True):
    """The recipients of one report, and how they are reached.

    Attributes:
        mail: The server that takes its mails; None for none.
        url: Its webhook's URL, a secret; "" for none.
    """

    scheduled: ScheduledReport
    mail: MailServer | None = None
    url: str = ""
    secret: str = ""

    def __repr__(self) -> str:
        """Its name alone."""
        return f"ReportSenders({self.scheduled.name})"

    @property
    def recipients(self) -> tuple[str, ...]:
        """Those who can be reached: ``mailto:`` and an address, or ``webhook``."""
        mailed = self.scheduled.mail_to if self.mail is not None else ()
        hook = (WEBHOOK,) if self.url else ()
        return (*(f"{MAIL_PREFIX}{address}" for address in mailed), *hook)

    def message(
        self, content: ReportContent, recipient: str, time: float
    ) -> HttpMessage | AddressedMail:
        """The message to one of the recipients; blocks for as long as it has many rows.

        Args:
            recipient: One of ``recipients``.
        """
        if recipient == WEBHOOK:
            return content.event(self.secret, time)
        address = recipient.removeprefix(MAIL_PREFIX)
        sender = "" if self.mail is None else self.mail.sender
        text = content.mail().message(sender, address, time).as_bytes(policy=SMTP)
        return AddressedMail(address, text)

    async def send(
        self, http: HttpSender, message: HttpMessage | AddressedMail
    ) -> DeliveryFailure | None:
        """Send a message to its recipient: None, or why it was not taken."""
        if isinstance(message, HttpMessage):
            return await http.send(self.url, message)
        if self.mail is None:
            return DeliveryFailure("THRIFTGATE_SMTP_URL is not set")
        return await self.mail.send(message)


def report_senders(
    reports: Iterable[ScheduledReport], settings: Settings, variables: Mapping[str, str]
) -> tuple[list[ReportSenders], list[str]]:
    """The senders of each report, and what cannot be sent, in sentences.

    Args:
        variables: The values of the environment variables that reports name.
    """
    configured, lacking = [], []
    for report in reports:
        mail, why_mail = _mail(report, settings)
        url, secret, why_hook = _webhook(report, variables)
        lacking += [
            f"The report `{report.name}` is not {done}: {why}."
            for done, why in (("mailed", why_mail), ("posted", why_hook))
            if why
        ]
        configured.append(ReportSenders(scheduled=report, mail=mail, url=url, secret=secret))
    return configured, lacking


def report_variables(reports: Sequence[ScheduledReport]) -> list[str]:
    """The environment variables that reports name."""
    return [name for report in reports for name in (report.url_env, report.secret_env) if name]


def _mail(report: ScheduledReport, settings: Settings) -> tuple[MailServer | None, str]:
    """The mail server of a report, and why it has none though it needs one."""
    if not report.mail_to:
        return None, ""
    url = settings.smtp_url.get_secret_value()
    if not url:
        return None, "THRIFTGATE_SMTP_URL is not set"
    try:
        return mail_server(url, settings.mail_from), ""
    except ValueError as error:
        return None, str(error)


def _webhook(report: ScheduledReport, variables: Mapping[str, str]) -> tuple[str, str, str]:
    """The URL and the secret of a report's webhook, and why there are none though it names them."""
    if not report.url_env:
        return "", "", ""
    url, secret = variables.get(report.url_env, ""), variables.get(report.secret_env, "")
    if not url:
        return "", "", f"{report.url_env} is not set"
    if not is_http_address(url):
        return "", "", f"{report.url_env} holds no address of http or https"
    if not secret:
        return "", "", f"{report.secret_env} is not set"
    return url, secret, ""
