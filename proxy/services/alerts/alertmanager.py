"""Prometheus' Alertmanager, for those who do not run Prometheus: who does had better use its rules.

It takes an alert to be over that it is not told of for a while, so open ones are told every minute.

Source: prometheus.io, Alertmanager, sending alerts, and its OpenAPI 2.0 file (2026-11).
"""

from typing import Any, Final

import msgspec

from proxy.services.alerts.http_sender import HttpMessage, Notification, rfc3339
from slo.alert import Alert, alert_lines

#: Seconds between two tellings of an open alert.
REPEAT_INTERVAL_S: Final = 60.0
#: Seconds after which an alert that nobody tells of any more is over.
_EXPIRES_AFTER_S: Final = 4 * REPEAT_INTERVAL_S
_PATH: Final = "/api/v2/alerts"
_encode: Final = msgspec.json.Encoder().encode


def message(telling: Notification) -> HttpMessage:
    """All the alerts; the secret, where there is one, is a bearer token."""
    body = _encode([_posted_alert(alert, telling.at) for alert in telling.group.alerts])
    headers = {"content-type": "application/json"}
    if telling.secret:
        headers["authorization"] = f"Bearer {telling.secret}"
    return HttpMessage(body, headers)


def address(url: str) -> str:
    """Where alerts are posted on the Alertmanager with this URL."""
    plain = url.rstrip("/")
    return plain if plain.endswith(_PATH) else plain + _PATH


def _posted_alert(alert: Alert, at: float) -> dict[str, Any]:
    """An alert whose labels say which it is and nothing that changes: they are its identity."""
    return {
        "labels": {
            "alertname": f"Thriftgate{alert.kind.capitalize()}",
            "severity": alert.severity.value,
            "subject": alert.subject,
            "alert": alert.id,
        },
        "annotations": {"summary": alert.title, "description": "\n".join(alert_lines(alert))},
        "startsAt": rfc3339(alert.began),
        "endsAt": rfc3339(at + _EXPIRES_AFTER_S if alert.ended is None else alert.ended),
    }
