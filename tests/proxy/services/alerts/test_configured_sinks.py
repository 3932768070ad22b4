import json

import msgspec
import pytest

from proxy.services.alerts.configured_sinks import (
    ConfiguredSink,
    configured_sinks,
    environment_variables,
)
from proxy.services.alerts.notices import notice
from proxy.store.sql.outbox import OutboxMessage
from slo.alert import Severity, resolve_alert
from slo.alerting import AlertGroup
from slo.policies.sinks import SinkKind
from tests.fakes.alerts import NOW, SECRET, a_sink, an_alert

URL = "https://hooks.example/T0/xyzzy"
KNOWN = {"URL": URL, "SECRET": SECRET}


def outlet(kind=SinkKind.WEBHOOK, **fields):
    sinks, _ = configured_sinks([a_sink(kind, **fields)], KNOWN)
    return sinks[0]


def event(letter, time=NOW):
    body = outlet().message(AlertGroup((letter.alert,)), [letter], time).body
    return json.loads(body)["id"]


def test_a_sink_is_joined_with_what_its_variables_hold():
    sinks = [a_sink(), a_sink(SinkKind.SLACK, name="chat", url_env="OTHER")]

    assert environment_variables(sinks) == ["URL", "SECRET", "OTHER"]
    assert configured_sinks(sinks, KNOWN | {"OTHER": URL}) == (
        [ConfiguredSink(sinks[0], URL, SECRET), ConfiguredSink(sinks[1], URL)],
        [],
    )
    assert outlet(SinkKind.ALERTMANAGER).url == f"{URL}/api/v2/alerts"


@pytest.mark.parametrize(
    ("variables", "problem"),
    [
        ({}, "URL is not set"),
        ({"URL": URL}, "SECRET is not set"),
        ({"URL": "hooks.example/xyzzy"}, "URL holds no address of http or https"),
        ({"URL": "ftp://h/xyzzy"}, "URL holds no address"),
        ({"URL": "https://h:port/xyzzy"}, "URL holds no address"),
        ({"URL": "https://h/xyzzy 1"}, "URL holds no address"),
        ({"URL": "https:///xyzzy"}, "URL holds no address"),
        ({"URL": URL, "SECRET": "xyz\nzy"}, "SECRET holds what no header can"),
    ],
)
def test_a_sink_that_cannot_be_spoken_to_says_why_without_the_address(variables, problem):
    sinks, lacking = configured_sinks([a_sink()], variables)

    assert sinks == []
    assert lacking[0].startswith("The sink `on-call` gets no alerts: ")
    assert problem in lacking[0]
    assert "xyzzy" not in lacking[0]


def test_an_outlet_shows_its_name_alone():
    assert repr(outlet()) == str(outlet()) == "ConfiguredSink(on-call)"


def test_each_kind_is_told_in_its_own_way():
    alert = an_alert()
    letter = OutboxMessage(alert=alert, sink="on-call")
    messages = [
        outlet(kind).message(AlertGroup((alert,)), [letter], NOW)
        for kind in (SinkKind.WEBHOOK, SinkKind.SLACK, SinkKind.ALERTMANAGER)
    ]
    bodies = [json.loads(message.body) for message in messages]

    assert bodies[0]["specversion"]
    assert bodies[1]["blocks"]
    assert bodies[2][0]["labels"]


def test_a_service_of_apprise_is_told_by_a_notice_one_alert_at_a_time():
    variables = {"URL": "json://127.0.0.1:1/xyzzy"}
    (sink,), lacking = configured_sinks([a_sink(SinkKind.APPRISE)], variables)
    alert = an_alert()

    assert lacking == []
    assert (sink.url, sink.max_alerts) == (variables["URL"], 1)
    letter = OutboxMessage(alert=alert, sink="on-call")
    assert sink.message(AlertGroup((alert,)), [letter], NOW) == notice(alert)


def test_a_url_that_apprise_does_not_understand_is_named_by_its_variable_alone():
    sinks, (why,) = configured_sinks([a_sink(SinkKind.APPRISE)], {"URL": "xyzzy"})

    assert sinks == []
    assert why.endswith("gets no alerts: URL holds no URL that Apprise understands.")


def test_a_resent_message_keeps_its_id_until_a_sink_accepts_it():
    letter = OutboxMessage(alert=an_alert(), sink="on-call")
    tried = msgspec.structs.replace(letter, tries=3, why="x", due=NOW)
    repeated = msgspec.structs.replace(letter, sent=NOW)
    over = msgspec.structs.replace(letter, alert=resolve_alert(letter.alert, NOW))

    assert event(letter) == event(tried, NOW + 60)
    assert len({event(letter), event(repeated), event(over)}) == 3


def test_only_alertmanager_is_told_every_minute():
    note = an_alert(severity=Severity.NOTE)

    assert outlet(SinkKind.ALERTMANAGER).repeat_after_s(note) == 60
    assert outlet(SinkKind.ALERTMANAGER).repeat_after_s(resolve_alert(note, NOW)) is None
    assert outlet().repeat_after_s(note) is None
    assert outlet(SinkKind.SLACK).repeat_after_s(an_alert()) == 4 * 3600
