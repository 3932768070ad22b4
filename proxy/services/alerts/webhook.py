"""Payloads for programs: signed CloudEvents (alerts and reports), and Alertmanager's alerts.

Where Prometheus runs, use the generated alerting rules instead of the Alertmanager sink.
Alertmanager closes an alert that it does not get for a while, so open ones are sent every minute.

Sources: CloudEvents 1.0.2, JSON event format, and HTTP binding, structured mode (2022-02);
prometheus.io, Alertmanager, sending alerts, and its OpenAPI 2.0 file (2026-11).
"""

import hmac
from typing import Any, Final

import msgspec

from proxy.services.alerts.http_sender import HttpMessage, Notification, rfc3339
from slo.alert import NANOS, RULE_NAMES, TEST_KIND, Alert, alert_lines, alert_page

SIGNATURE: Final = "x-thriftgate-signature"
TIMESTAMP: Final = "x-thriftgate-timestamp"
_CONTENT_TYPE: Final = "application/cloudevents+json"
_encode: Final = msgspec.json.Encoder().encode
#: Seconds after which an open alert is sent again.
ALERTMANAGER_REPEAT_S: Final = 60.0
#: Seconds after which an alert without news is over.
_ALERTMANAGER_EXPIRY_S: Final = 4 * ALERTMANAGER_REPEAT_S
_ALERTMANAGER_PATH: Final = "/api/v2/alerts"


def cloud_event(notification: Notification) -> HttpMessage:
    """One event of all the alerts, signed with the sink's secret."""
    group = notification.group
    phase = "open" if group.is_open else "resolved"
    body = _encode(
        {
            "specversion": "1.0",
            "id": notification.id,
            "source": "urn:thriftgate",
            "type": f"thriftgate.alerts.{phase}",
            "time": rfc3339(notification.at),
            "datacontenttype": "application/json",
            "data": {
                "phase": phase,
                "severity": group.severity.value,
                "alerts": [
                    _alert_fields(alert, notification.gateway_url) for alert in group.alerts
                ],
            },
        }
    )
    return signed_event(body, notification.secret, notification.at)


def signed_event(body: bytes, secret: str, time: float) -> HttpMessage:
    """A CloudEvent to post, signed.

    Args:
        secret: Shared with the receiver, who checks it.
    """
    whole = str(int(time))
    return HttpMessage(
        body,
        {
            "content-type": _CONTENT_TYPE,
            TIMESTAMP: whole,
            SIGNATURE: signature(secret, whole, body),
        },
    )


def signature(secret: str, timestamp: str, body: bytes) -> str:
    """The value of the signature header for a body: ``sha256=`` and the HMAC of ``timestamp.body``.

    Args:
        secret: Shared with the receiver, who checks it.
        timestamp: Value of its header, in whole seconds since the epoch; an old one is a replay.
    """
    digest = hmac.digest(secret.encode(), timestamp.encode() + b"." + body, "sha256")
    return f"sha256={digest.hex()}"


def _alert_fields(alert: Alert, gateway_url: str) -> dict[str, Any]:
    fields: dict[str, Any] = {
        "id": alert.id,
        "kind": alert.kind,
        "subject": alert.subject,
        "severity": alert.severity.value,
        "title": alert.title,
        "facts": [{"name": name, "value": value} for name, value in alert.facts],
        "action": alert.action,
        "fix": alert.fix,
        "began": rfc3339(alert.began),
        "ended": None,
        "seconds": None,
        "cost_usd": None,
    }
    if gateway_url and alert.kind != TEST_KIND:
        fields["page"] = alert_page(alert, gateway_url)
    if alert.ended is not None:
        fields["ended"] = rfc3339(alert.ended)
        fields["seconds"] = round(alert.ended - alert.began, 3)
    if alert.cost_nanos is not None:
        whole, part = divmod(alert.cost_nanos, NANOS)
        fields["cost_usd"] = f"{whole}.{part:09d}".rstrip("0").rstrip(".")
    return fields


def alertmanager_message(notification: Notification) -> HttpMessage:
    """All the alerts for Alertmanager; the secret, where there is one, is a bearer token."""
    body = _encode(
        [_alertmanager_alert(alert, notification) for alert in notification.group.alerts]
    )
    headers = {"content-type": "application/json"}
    if notification.secret:
        headers["authorization"] = f"Bearer {notification.secret}"
    return HttpMessage(body, headers)


def alertmanager_url(url: str) -> str:
    """URL for posting alerts to the Alertmanager with this URL."""
    plain = url.rstrip("/")
    return plain if plain.endswith(_ALERTMANAGER_PATH) else plain + _ALERTMANAGER_PATH


def _alertmanager_alert(alert: Alert, notification: Notification) -> dict[str, Any]:
    """An alert whose labels say which it is and nothing that changes: they are its identity."""
    return {
        "labels": {
            "alertname": RULE_NAMES.get(alert.kind, f"Thriftgate{alert.kind.capitalize()}"),
            "severity": alert.severity.value,
            "subject": alert.subject,
            "alert": alert.id,
        },
        "annotations": {
            "summary": alert.title,
            "description": "\n".join(alert_lines(alert, notification.gateway_url)),
        },
        "startsAt": rfc3339(alert.began),
        "endsAt": rfc3339(
            notification.at + _ALERTMANAGER_EXPIRY_S if alert.ended is None else alert.ended
        ),
    }
