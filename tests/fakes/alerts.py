"""Alerts to tell of, and sinks to tell."""

import json
from collections.abc import Mapping
from typing import Any

from proxy.services.alerts.configured_sinks import ConfiguredSink, configured_sinks
from slo.alert import Alert, Severity
from slo.policies.sinks import Sink, SinkKind
from tests.fakes.server import ReceivedAnswer, Server

NOW = 1_790_000_000.0
SECRET = "s3cret"
#: A name as an attacker would choose it.
POISON = "<!channel> @here *x* `y` & \u202eevil\x00\x1b[31m\r\nINJECTED: 1\ud800" + "z" * 500


def an_alert(subject: str = "chat-ttft", **fields: Any) -> Alert:
    own_fields: dict[str, Any] = {
        "kind": "burn",
        "subject": subject,
        "severity": Severity.PAGE,
        "title": f"{subject} burns its error budget",
        "facts": (("burn", "7.2"), ("budget left", "41 %")),
        "action": "12 % of chat moved to small since 14:02",
        "fix": "Pin it",
        "began": NOW,
    }
    return Alert(**(own_fields | fields))


def a_sink(kind: SinkKind = SinkKind.WEBHOOK, **fields: Any) -> Sink:
    own_fields: dict[str, Any] = {"name": "on-call", "kind": kind, "url_env": "URL"}
    if kind is SinkKind.WEBHOOK:
        own_fields["secret_env"] = "SECRET"
    return Sink(**(own_fields | fields))


def an_outlet(server: Server, kind: SinkKind = SinkKind.WEBHOOK, **fields: Any) -> ConfiguredSink:
    outlets, lacking = configured_sinks([a_sink(kind, **fields)], values(server))
    assert lacking == []
    return outlets[0]


def values(server: Server) -> Mapping[str, str]:
    """The variables of the environment."""
    return {"URL": f"http://127.0.0.1:{server.port}/hook", "SECRET": SECRET}


def json_of_post(request: ReceivedAnswer) -> Any:
    """The JSON of a post."""
    return json.loads(request.body)


class AlertRecorder(list[Alert]):
    """Takes alerts and keeps them."""

    def __call__(self, alert: Alert) -> bool:
        """Keep an alert."""
        self.append(alert)
        return True
