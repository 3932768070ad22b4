import json

from hypothesis import given
from hypothesis import strategies as st

from proxy.services.alerts.http_sender import Notification
from proxy.services.alerts.slack import MAX_SHOWN_ALERTS, escape, message
from slo.alert import Severity, resolve_alert
from slo.alerting import AlertGroup
from tests.fakes.alerts import NOW, POISON, an_alert


def message_body(*alerts):
    post = message(Notification(group=AlertGroup(alerts), id="e1", at=NOW))
    assert post.headers == {"content-type": "application/json"}
    return json.loads(post.body)


def texts(*alerts):
    return [block["text"]["text"] for block in message_body(*alerts)["blocks"]]


def test_an_alert_is_told_with_facts_what_was_done_and_what_to_do():
    heading, section = texts(an_alert())

    assert heading == "Page:"
    assert section.split("\n") == [
        "*chat-ttft burns its error budget*",
        "burn: 7.2",
        "budget left: 41 %",
        "since: 2026-09-21 14:13 UTC",
        "done: 12 % of chat moved to small since 14:02",
        "to do: Pin it",
    ]
    assert message_body(an_alert())["text"] == "Page: chat-ttft burns its error budget"


def test_an_ended_alert_shows_duration_cost_and_action_in_slack():
    sections = texts(resolve_alert(an_alert(), NOW + 125, cost_nanos=2_000_000_000))

    assert sections[0] == "Resolved:"
    assert "lasted: 2 min 5 s" in sections[1]
    assert "cost: $2" in sections[1]
    assert "done: 12 % of chat" in sections[1]


def test_many_alerts_are_one_message_of_bounded_size():
    many = [an_alert(f"s{n}", severity=Severity.TICKET) for n in range(MAX_SHOWN_ALERTS + 3)]
    sections = texts(*many)

    assert sections[0] == "Ticket: 13 alerts"
    assert len(sections) == 1 + MAX_SHOWN_ALERTS + 1
    assert sections[-1].startswith("and 3 more")
    assert texts(*[resolve_alert(alert, NOW) for alert in many])[0] == "Resolved: 13 alerts"


def test_names_make_no_mentions_links_or_lines():
    body = message_body(
        an_alert(POISON, title=POISON, facts=((POISON, POISON),) * 16, action=POISON)
    )
    pieces = [body["text"], *(block["text"]["text"] for block in body["blocks"])]

    for text in pieces:
        assert "<" not in text
        assert ">" not in text
        assert "@here" not in text
        assert "\x1b" not in text
        assert "\u202e" not in text
        assert len(text) <= 3_000
    assert not any(line.startswith("INJECTED") for text in pieces for line in text.splitlines())
    assert body["link_names"] is False
    assert body["parse"] == "none"
    assert all(block["text"]["verbatim"] for block in body["blocks"])


@given(st.text())
def test_escaped_text_reads_as_it_was_written(text):
    escaped = escape(text).replace("@\u200b", "@")

    assert escaped.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&") == text
    assert "<" not in escaped


def test_an_entity_is_never_cut():
    body = message_body(an_alert(title="&" * 200, facts=(("&" * 40, "&" * 160),) * 16))

    for block in body["blocks"]:
        assert block["text"]["text"].replace("&amp;", "").count("&") == 0
    assert body["text"].replace("&amp;", "").count("&") == 0
