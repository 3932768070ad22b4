import json

import pytest

from proxy.services.alerts.alertmanager import address, message
from proxy.services.alerts.http_sender import Notification
from slo.alert import resolve_alert
from slo.alerting import AlertGroup
from tests.fakes.alerts import NOW, an_alert


def told(*alerts, secret=""):
    sent = message(Notification(group=AlertGroup(alerts), id="e1", at=NOW + 600, secret=secret))
    return json.loads(sent.body), sent.headers


def test_labels_say_which_alert_it_is_and_no_values():
    (alert,), _ = told(an_alert(cost_nanos=5))

    assert alert["labels"] == {
        "alertname": "ThriftgateBurn",
        "severity": "page",
        "subject": "chat-ttft",
        "alert": an_alert().id,
    }
    assert alert["annotations"]["summary"] == "chat-ttft burns its error budget"
    assert "burn: 7.2" in alert["annotations"]["description"]


def test_an_alert_keeps_its_labels_while_its_facts_change_and_when_it_ends():
    first, _ = told(an_alert())
    later, _ = told(an_alert(facts=(("burn", "9"),), title="other"))
    over, _ = told(resolve_alert(an_alert(), NOW + 500))

    assert first[0]["labels"] == later[0]["labels"] == over[0]["labels"]


def test_an_open_alert_lasts_until_it_is_told_again_and_one_that_ended_says_when():
    (alert,), _ = told(an_alert())
    (over,), _ = told(resolve_alert(an_alert(), NOW + 500))

    assert (alert["startsAt"], alert["endsAt"]) == (
        "2026-09-21T14:13:20.000Z",
        "2026-09-21T14:27:20.000Z",
    )
    assert over["endsAt"] == "2026-09-21T14:21:40.000Z"


def test_a_secret_is_a_bearer_token():
    assert told(an_alert(), secret="t")[1]["authorization"] == "Bearer t"
    assert "authorization" not in told(an_alert())[1]


@pytest.mark.parametrize(
    "url", ["http://am:9093", "http://am:9093/", "http://am:9093/api/v2/alerts"]
)
def test_alerts_are_posted_to_its_api(url):
    assert address(url) == "http://am:9093/api/v2/alerts"
