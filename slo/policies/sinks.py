"""The sinks of a policies file: whom alerts are sent to.

::

[[sinks]]
name = "on-call"
kind = "slack"           # webhook, slack, alertmanager, apprise
url_env = "SLACK_URL"    # the environment variable that holds the URL, which is a secret, too
secret_env = "SECRET"    # webhook: what signs; alertmanager: a bearer token, if it wants one
at_least = "ticket"      # page, ticket, note; ticket is the default
"""

import re
from enum import StrEnum
from typing import Final

import msgspec

from slo.alert import Severity
from slo.policies.entries import entry_name
from slo.toml.table_reader import TableReader, describe_value

#: Keys of a sink's table.
KEYS = ("name", "kind", "url_env", "secret_env", "at_least")
_VARIABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}")
#: Names with this prefix are settings, and one that is none is an error.
_SETTINGS: Final = "THRIFTGATE_"


class SinkKind(StrEnum):
    """The protocol of a sink."""

    WEBHOOK = "webhook"  # a CloudEvent, signed
    SLACK = "slack"  # an incoming webhook
    ALERTMANAGER = "alertmanager"  # its API, version 2
    APPRISE = "apprise"  # a URL of the library Apprise: e-mail, PagerDuty, Teams and others


#: Kinds that have no secret but the URL, by the name people know them by.
_URL_ALONE: Final = {SinkKind.SLACK: "Slack", SinkKind.APPRISE: "Apprise"}


class Sink(msgspec.Struct, frozen=True, kw_only=True):
    """Destination of alerts.

    Attributes:
        name: Unique among sinks.
        kind: Protocol of the sink.
        url_env: The environment variable that holds its URL.
        secret_env: The one that holds its secret; "" where it has none.
        at_least: The least urgent of the alerts that it is sent.
    """

    name: str
    kind: SinkKind
    url_env: str
    secret_env: str = ""
    at_least: Severity = Severity.TICKET


def sink(table: TableReader) -> Sink:
    """The sink of a table, with stand-ins where it has problems."""
    kind = table.member("kind", SinkKind)
    url_env = environment_variable(table, "url_env", "ALERTS_URL")
    if "url_env" not in table.nodes:
        table.add_problem(
            "url_env", "is missing", "name the environment variable that holds the URL"
        )
    secret_env = environment_variable(table, "secret_env", "ALERTS_SECRET")
    if kind is SinkKind.WEBHOOK and "secret_env" not in table.nodes:
        fix = "name the environment variable that holds what signs"
        table.add_problem("secret_env", "is missing", fix)
    if kind in _URL_ALONE and "secret_env" in table.nodes:
        what = f"says nothing to {_URL_ALONE[kind]}, whose URL is the secret"
        table.add_problem("secret_env", what, "leave it out")
    return Sink(
        name=entry_name(table, "on-call"),
        kind=kind or SinkKind.WEBHOOK,
        url_env=url_env,
        secret_env=secret_env,
        at_least=table.member("at_least", Severity, Severity.TICKET) or Severity.TICKET,
    )


def environment_variable(table: TableReader, key: str, example: str) -> str:
    """The name of an environment variable; "" where there is none that is sound."""
    name = table.text(key, example)
    if name is None:
        return ""
    if not _VARIABLE.fullmatch(name):
        # It may be the secret itself, which is not to be printed.
        what = "names no environment variable" if name else f"is {describe_value(name)}"
        table.add_problem(key, what, f'write the name of one: {key} = "{example}"')
        return ""
    if name.upper().startswith(_SETTINGS):
        table.add_problem(key, f"begins with {_SETTINGS}, as settings do", "name it otherwise")
    return name
