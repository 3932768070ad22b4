"""The sinks of the policies file whose addresses and secrets are set."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final
from urllib.parse import urlsplit

import msgspec

from proxy.services.alerts import notices, slack, webhook
from proxy.services.alerts.http_sender import DeliveryFailure, HttpMessage, HttpSender, Notification
from proxy.services.alerts.notices import AppriseNotice
from proxy.store.sql.outbox import OutboxMessage
from slo.alert import TEST_KIND, Alert, stable_id
from slo.alerting import MAX_ALERTS_PER_MESSAGE, AlertGroup, repeat_interval_s
from slo.policies.sinks import Sink, SinkKind

_MESSAGES: Final[Mapping[SinkKind, Callable[[Notification], HttpMessage | AppriseNotice]]] = {
    SinkKind.WEBHOOK: webhook.cloud_event,
    SinkKind.SLACK: slack.message,
    SinkKind.ALERTMANAGER: webhook.alertmanager_message,
    SinkKind.APPRISE: lambda telling: notices.notice(telling.group.alerts[0], telling.gateway_url),
}


class ConfiguredSink(msgspec.Struct, frozen=True):
    """A sink that can be spoken to.

    Attributes:
        url: Address; a secret.
        secret: Signing secret or token; "" where the sink has none.
        gateway_url: URL at which browsers reach the gateway; "" where it is unknown.
    """

    sink: Sink
    url: str
    secret: str = ""
    gateway_url: str = ""

    def __repr__(self) -> str:
        """Its name alone."""
        return f"ConfiguredSink({self.sink.name})"

    def message(
        self, group: AlertGroup, letters: Sequence[OutboxMessage], time: float
    ) -> HttpMessage | AppriseNotice:
        """Builds the message to the sink about a group.

        Args:
            letters: The same unmodified from the outbox.
        """
        # Until somebody takes it, what is sent again goes by the same id.
        tellings = sorted(f"{letter.alert.id} {letter.phase} {letter.sent}" for letter in letters)
        named = stable_id(self.sink.name, *tellings)
        telling = Notification(
            group=group, id=named, at=time, secret=self.secret, gateway_url=self.gateway_url
        )
        return _MESSAGES[self.sink.kind](telling)

    @property
    def max_alerts(self) -> int:
        """Alerts in one message; services close each alert by itself, so they get one each."""
        return 1 if self.sink.kind is SinkKind.APPRISE else MAX_ALERTS_PER_MESSAGE

    def repeat_after_s(self, alert: Alert) -> float | None:
        """In how many seconds the sink is told of the alert again; None for never."""
        if self.sink.kind is SinkKind.ALERTMANAGER:
            return webhook.ALERTMANAGER_REPEAT_S if alert.is_open else None
        return repeat_interval_s(alert)


def configured_sinks(
    sinks: Iterable[Sink], variables: Mapping[str, str], gateway_url: str = ""
) -> tuple[list[ConfiguredSink], list[str]]:
    """The sinks that can be spoken to, and why each of the others cannot, in sentences.

    Args:
        variables: The values of the environment variables that they name.
        gateway_url: URL at which browsers reach the gateway, for links in messages.
    """
    configured, lacking = [], []
    for sink in sinks:
        url = variables.get(sink.url_env, "")
        secret = variables.get(sink.secret_env, "")
        why = _missing_setting(sink, url, secret)
        if why:
            lacking.append(f"The sink `{sink.name}` gets no alerts: {why}.")
            continue
        is_manager = sink.kind is SinkKind.ALERTMANAGER
        address = webhook.alertmanager_url(url) if is_manager else url
        configured.append(ConfiguredSink(sink, address, secret, gateway_url))
    return configured, lacking


def environment_variables(sinks: Iterable[Sink]) -> list[str]:
    """The environment variables that sinks name."""
    return [name for sink in sinks for name in (sink.url_env, sink.secret_env) if name]


def _missing_setting(sink: Sink, url: str, secret: str) -> str:
    """Reason that a sink cannot be reached; "" if it can."""
    if not url:
        return f"{sink.url_env} is not set"
    if why := _unusable(sink, url):
        return why
    if sink.secret_env and not secret:
        return f"{sink.secret_env} is not set"
    if not (secret.isascii() and (secret.isprintable())):
        return f"{sink.secret_env} holds what no header can"
    return ""


def _unusable(sink: Sink, url: str) -> str:
    """Reason that nothing can be sent to such a URL; "" if something can."""
    if sink.kind is SinkKind.APPRISE:
        why = notices.why_not(url)
        return why and f"{sink.url_env} {why}"
    return "" if is_http_address(url) else f"{sink.url_env} holds no address of http or https"


def is_http_address(url: str) -> bool:
    """True if something can be posted to this URL."""
    try:
        parts = urlsplit(url)
        parts.port  # noqa: B018 - it is read to be checked
    except ValueError:
        return False
    is_plain = url.isascii() and url.isprintable() and " " not in url
    return is_plain and parts.scheme in {"http", "https"} and bool(parts.hostname)


async def send_test_alert(
    outlet: ConfiguredSink, origin: str, now: float
) -> DeliveryFailure | None:
    """Sends a test as an alert that goes on: None, or why the sink did not take it.

    It goes on, because it is then that people have to be reached, and is as urgent as an alert has
    to be for the sink to be told of it. No alert for its end follows.

    Args:
        origin: Where it comes from, such as ``somebody ran ...``, for its receiver.
    """
    alert = Alert(
        kind=TEST_KIND,
        subject="thriftgate",
        severity=outlet.sink.at_least,
        title="TEST: this is a test of Thriftgate's alerts, and nothing is wrong",
        fix=f"Nothing: {origin}.",
        began=now,
    )
    letter = OutboxMessage(alert=alert, sink=outlet.sink.name)
    async with HttpSender() as http:
        return await http.send(outlet.url, outlet.message(AlertGroup((alert,)), [letter], now))
