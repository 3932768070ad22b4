"""The sinks of a policies file: whom alerts are sent to."""

import re
from enum import StrEnum
from typing import Final

import msgspec

from slo.alert import Severity
from slo.policies.entries import name_field
from slo.toml.fields import Field, one_of, read_fields
from slo.toml.table_reader import TableReader, describe_value

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
    """Destination of alerts."""

    name: str
    kind: SinkKind
    url_env: str
    secret_env: str = ""
    at_least: Severity = Severity.TICKET


def sink(table: TableReader) -> Sink:
    """The sink of a table, with stand-ins where it has problems."""
    sink = Sink(**read_fields(table, FIELDS))
    if sink.kind is SinkKind.WEBHOOK and "secret_env" not in table.nodes:
        fix = "name the environment variable that holds what signs"
        table.add_problem("secret_env", "is missing", fix)
    if sink.kind in _URL_ALONE and "secret_env" in table.nodes:
        what = f"says nothing to {_URL_ALONE[sink.kind]}, whose URL is the secret"
        table.add_problem("secret_env", what, "leave it out")
    return sink


def environment_variable(table: TableReader, field: Field) -> str | None:
    """The name of an environment variable; None where it is not sound."""
    key, name = field.key, table.text(field.key, field.example)
    if name is None:
        return None
    if not _VARIABLE.fullmatch(name):
        # It may be the secret itself, which is not to be printed.
        what = "names no environment variable" if name else f"is {describe_value(name)}"
        table.add_problem(key, what, f'write the name of one: {key} = "{field.example}"')
        return None
    if name.upper().startswith(_SETTINGS):
        table.add_problem(key, f"begins with {_SETTINGS}, as settings do", "name it otherwise")
    return name


FIELDS: Final = (
    name_field("on-call"),
    Field(
        "kind",
        SinkKind,
        None,
        "`webhook`, `slack`, `alertmanager`, `apprise`",
        missing=one_of(SinkKind),
    ),
    Field(
        "url_env",
        environment_variable,
        "",
        "the environment variable that holds the URL; not `THRIFTGATE_…`",
        missing="name the environment variable that holds the URL",
        example="ALERTS_URL",
    ),
    Field(
        "secret_env",
        environment_variable,
        "",
        "the variable that holds the secret; optional bearer token for `alertmanager`",
        shown="required for `webhook`; not allowed for `slack`, `apprise`",
        example="ALERTS_SECRET",
    ),
    Field(
        "at_least",
        Severity,
        Severity.TICKET,
        "`page`, `ticket`, `note`: the least urgent severity that is sent",
    ),
)
