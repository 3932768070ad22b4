"""A message of blocks for an incoming webhook of Slack.

Callers' text may stand in it, so it is escaped, nothing in it becomes a mention or a link, and
blocks stay within Slack's sizes.

Source: Slack, formatting text for app surfaces; Block Kit reference, section (2026-11).
"""

from typing import Any, Final

import msgspec

from proxy.records.amounts import quantity
from proxy.services.alerts.http_sender import HttpMessage, Notification
from slo.alert import Alert, alert_lines
from slo.alerting import AlertGroup

#: Alerts told in full; of the others it says how many there are.
MAX_SHOWN_ALERTS: Final = 10
#: Characters of a section; Slack takes 3,000.
_MAX_SECTION_CHARS: Final = 2_900
_MAX_FALLBACK_CHARS: Final = 300
_encode: Final = msgspec.json.Encoder().encode


def message(telling: Notification) -> HttpMessage:
    """One message of all the alerts."""
    group = telling.group
    shown, rest = group.alerts[:MAX_SHOWN_ALERTS], len(group.alerts) - MAX_SHOWN_ALERTS
    blocks = [
        _section(_heading(group)),
        *(_alert_section(alert, telling.gateway_url) for alert in shown),
    ]
    if rest > 0:
        page = telling.gateway_url and f": {telling.gateway_url}/admin/budgets#alerts"
        blocks.append(_section(f"and {rest} more{page}"))
    first = group.alerts[0].title
    body = {
        "text": escape(f"{_heading(group)} {first}"[:_MAX_FALLBACK_CHARS]),
        "blocks": blocks,
        "link_names": False,
        "parse": "none",
        "unfurl_links": False,
        "unfurl_media": False,
    }
    return HttpMessage(_encode(body), {"content-type": "application/json"})


def escape(text: str) -> str:
    """Text that stands in Slack as it is written.

    What mentions and links are made of becomes entities, and an ``@`` is parted from its word, for
    some clients make mentions of bare words.
    """
    plain = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return plain.replace("@", "@\u200b")


def _heading(group: AlertGroup) -> str:
    count = len(group.alerts)
    if not group.is_open:
        return "Resolved:" if count == 1 else f"Resolved: {quantity(count, 'alert')}"
    urgency = group.severity.value.capitalize()
    return f"{urgency}:" if count == 1 else f"{urgency}: {quantity(count, 'alert')}"


def _alert_section(alert: Alert, gateway_url: str) -> dict[str, Any]:
    return _section(f"*{escape(alert.title)}*", *map(escape, alert_lines(alert, gateway_url)))


def _section(*lines: str) -> dict[str, Any]:
    """A block of as many whole lines as it has room for; an entity is never cut."""
    fitting: list[str] = []
    room = _MAX_SECTION_CHARS
    for line in lines:
        room -= len(line) + 1
        if room < 0:
            break
        fitting.append(line)
    text = {"type": "mrkdwn", "text": "\n".join(fitting), "verbatim": True}
    return {"type": "section", "text": text}
