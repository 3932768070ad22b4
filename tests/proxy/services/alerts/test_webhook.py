import hmac
import json

import pytest

from proxy.services.alerts.http_sender import Notification
from proxy.services.alerts.webhook import (
    alertmanager_message,
    alertmanager_url,
    cloud_event,
    signature,
)
from slo.alert import resolve_alert
from slo.alerting import AlertGroup
from tests.fakes.alerts import NOW, POISON, SECRET, an_alert


def event_of(*alerts):
    return cloud_event(Notification(group=AlertGroup(alerts), id="e1", at=NOW + 0.5, secret=SECRET))


def test_a_webhook_gets_a_cloud_event_of_all_alerts():
    event = event_of(an_alert(), an_alert("b"))
    body = json.loads(event.body)

    assert event.headers["content-type"] == "application/cloudevents+json"
    assert {name: body[name] for name in ("specversion", "id", "source", "type", "time")} == {
        "specversion": "1.0",
        "id": "e1",
        "source": "urn:thriftgate",
        "type": "thriftgate.alerts.open",
        "time": "2026-09-21T14:13:20.500Z",
    }
    assert [alert["subject"] for alert in body["data"]["alerts"]] == ["chat-ttft", "b"]
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


def test_an_ended_alert_shows_duration_and_cost_in_the_webhook():
    body = json.loads(
        event_of(resolve_alert(an_alert(), NOW + 90.5, cost_nanos=1_200_000_000)).body
    )
    (alert,) = body["data"]["alerts"]

    assert body["type"] == "thriftgate.alerts.resolved"
    assert (alert["seconds"], alert["cost_usd"]) == (90.5, "1.2")
    assert alert["ended"] == "2026-09-21T14:14:50.500Z"


def test_the_signature_is_of_the_timestamp_and_the_body():
    event = event_of(an_alert(POISON))
    timestamp = event.headers["x-thriftgate-timestamp"]
    mac = hmac.new(SECRET.encode(), f"{timestamp}.".encode() + event.body, "sha256").hexdigest()

    assert timestamp == "1790000000"
    assert event.headers["x-thriftgate-signature"] == f"sha256={mac}"
    assert signature(SECRET, "1790000001", event.body) != f"sha256={mac}"
    assert SECRET not in str(event)


def alertmanager_told(*alerts, secret=""):
    message = alertmanager_message(
        Notification(group=AlertGroup(alerts), id="e1", at=NOW + 600, secret=secret)
    )
    return json.loads(message.body), message.headers


def test_labels_for_alertmanager_say_which_alert_it_is_and_no_values():
    (alert,), _ = alertmanager_told(an_alert(cost_nanos=5))

    assert alert["labels"] == {
        "alertname": "ThriftgateBudgetBurns",
        "severity": "page",
        "subject": "chat-ttft",
        "alert": an_alert().id,
    }
    assert alert["annotations"]["summary"] == "chat-ttft burns its error budget"
    assert "burn: 7.2" in alert["annotations"]["description"]


def test_to_alertmanager_an_alert_keeps_its_labels_while_its_facts_change_and_when_it_ends():
    first, _ = alertmanager_told(an_alert())
    later, _ = alertmanager_told(an_alert(facts=(("burn", "9"),), title="other"))
    over, _ = alertmanager_told(resolve_alert(an_alert(), NOW + 500))

    assert first[0]["labels"] == later[0]["labels"] == over[0]["labels"]


def test_to_alertmanager_an_open_alert_lasts_until_it_is_told_again_and_one_that_ended_says_when():
    (alert,), _ = alertmanager_told(an_alert())
    (over,), _ = alertmanager_told(resolve_alert(an_alert(), NOW + 500))

    assert (alert["startsAt"], alert["endsAt"]) == (
        "2026-09-21T14:13:20.000Z",
        "2026-09-21T14:27:20.000Z",
    )
    assert over["endsAt"] == "2026-09-21T14:21:40.000Z"


def test_alertmanagers_secret_is_a_bearer_token():
    assert alertmanager_told(an_alert(), secret="t")[1]["authorization"] == "Bearer t"
    assert "authorization" not in alertmanager_told(an_alert())[1]


@pytest.mark.parametrize(
    "url", ["http://am:9093", "http://am:9093/", "http://am:9093/api/v2/alerts"]
)
def test_alerts_are_posted_to_alertmanagers_api(url):
    assert alertmanager_url(url) == "http://am:9093/api/v2/alerts"
