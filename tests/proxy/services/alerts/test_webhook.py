import hmac
import json

from proxy.services.alerts.http_sender import Notification
from proxy.services.alerts.webhook import message, signature
from slo.alert import resolve_alert
from slo.alerting import AlertGroup
from tests.fakes.alerts import NOW, POISON, SECRET, an_alert


def told(*alerts):
    return message(Notification(group=AlertGroup(alerts), id="e1", at=NOW + 0.5, secret=SECRET))


def test_it_is_a_cloud_event_of_all_alerts():
    sent = told(an_alert(), an_alert("b"))
    body = json.loads(sent.body)

    assert sent.headers["content-type"] == "application/cloudevents+json"
    assert {name: body[name] for name in ("specversion", "id", "source", "type", "time")} == {
        "specversion": "1.0",
        "id": "e1",
        "source": "urn:thriftgate",
        "type": "thriftgate.alerts.open",
        "time": "2026-09-21T14:13:20.500Z",
    }
    assert [each["subject"] for each in body["data"]["alerts"]] == ["chat-ttft", "b"]
    assert body["data"]["alerts"][0] == {
        "id": an_alert().id,
        "kind": "burn",
        "subject": "chat-ttft",
        "severity": "page",
        "title": "chat-ttft burns its error budget",
        "facts": [{"name": "burn", "value": "7.2"}, {"name": "budget left", "value": "41 %"}],
        "action": "12 % of chat moved to small since 14:02",
        "fix": "Pin it",
        "began": "2026-09-21T14:13:20.000Z",
        "ended": None,
        "seconds": None,
        "cost_usd": None,
    }


def test_what_ended_says_how_long_it_was_and_what_it_cost():
    body = json.loads(told(resolve_alert(an_alert(), NOW + 90.5, cost_nanos=1_200_000_000)).body)
    (alert,) = body["data"]["alerts"]

    assert body["type"] == "thriftgate.alerts.resolved"
    assert (alert["seconds"], alert["cost_usd"]) == (90.5, "1.2")
    assert alert["ended"] == "2026-09-21T14:14:50.500Z"


def test_the_signature_is_of_the_timestamp_and_the_body():
    sent = told(an_alert(POISON))
    at = sent.headers["x-thriftgate-timestamp"]
    mac = hmac.new(SECRET.encode(), f"{at}.".encode() + sent.body, "sha256").hexdigest()

    assert at == "1790000000"
    assert sent.headers["x-thriftgate-signature"] == f"sha256={mac}"
    assert signature(SECRET, "1790000001", sent.body) != f"sha256={mac}"
    assert SECRET not in str(sent)
