"""The scheduled cost reports of a policies file, and the tags by which calls are reported."""

import re
from collections.abc import Iterable
from enum import StrEnum
from typing import Final
from zoneinfo import ZoneInfo

import msgspec

from slo.budgets.budget import EVERY
from slo.policies.entries import TEAM, name_field
from slo.policies.sinks import environment_variable
from slo.toml.fields import Field, one_of, read_fields
from slo.toml.nodes import Node
from slo.toml.problems import Problem
from slo.toml.table_reader import (
    TableReader,
    checked_choice,
    checked_value,
    describe_value,
)
from slo.usage import MAX_TAG_KEYS, TAG_KEY, TAG_PREFIX

#: Dimensions of a cost report, as `dashboards.cost_reports` has them.
DIMENSIONS: Final = (
    "team", "feature", "model", "key", "user", "route", "provider", "upstream", "day", "month"
)  # fmt: skip
MAX_RECIPIENTS: Final = 50
_KEYS_FIX: Final = 'write keys = ["customer", "job"]'
_ADDRESS: Final = re.compile(
    r"[A-Za-z0-9.!#$%&'*+/=?^_`{|}~-]{1,64}@[A-Za-z0-9](?:[A-Za-z0-9.-]{0,188}[A-Za-z0-9])?"
)


class ReportInterval(StrEnum):
    """The length of a scheduled report's periods."""

    WEEK = "week"  # from Monday to Sunday
    MONTH = "month"


class ScheduledReport(msgspec.Struct, frozen=True, kw_only=True):
    """A cost report that is sent after the end of each period."""

    name: str
    team: str = EVERY
    by: tuple[str, ...] = ("team",)
    every: ReportInterval
    mail_to: tuple[str, ...] = ()
    url_env: str = ""
    secret_env: str = ""
    time_zone: str = "UTC"


class TagRule(msgspec.Struct, frozen=True, kw_only=True):
    """Names the keys of callers' metadata whose values a team's receipts keep."""

    name: str
    team: str = EVERY
    keys: tuple[str, ...] = ()


def report(table: TableReader) -> ScheduledReport:
    """The report of a table, with stand-ins where it has problems."""
    if ("url_env" in table.nodes) != ("secret_env" in table.nodes):
        missing = "secret_env" if "url_env" in table.nodes else "url_env"
        what = "holds what signs" if missing == "secret_env" else "holds the URL"
        table.add_problem(missing, "is missing", f"name the environment variable that {what}")
    if not {"mail_to", "url_env"} & table.nodes.keys():
        fix = 'write mail_to = ["ann@example.com"], or url_env and secret_env of a webhook'
        table.add_problem("mail_to", "is missing, and so is url_env", fix)
    return ScheduledReport(**read_fields(table, FIELDS))


def tag_rule(table: TableReader) -> TagRule:
    """The rule of a table, with stand-ins where it has problems."""
    return TagRule(**read_fields(table, TAG_FIELDS))


def tag_keys(rules: Iterable[TagRule], team: str) -> tuple[str, ...]:
    """The keys that count for a team, by the first rule about it; () for none."""
    return next((rule.keys for rule in rules if rule.team in {EVERY, team}), ())


def _dimensions(table: TableReader, field: Field) -> tuple[str, ...]:
    nodes = table.elements(field.key)
    if not nodes and isinstance(table.nodes[field.key].value, list):
        table.add_problem(field.key, "is empty", f"write some of {', '.join(DIMENSIONS)}")
    names = dict.fromkeys(_dimension(node, table.problems) for node in nodes)
    if sum(is_tag_dimension(name) for name in names) > MAX_TAG_KEYS:
        table.add_problem(field.key, "has too many tags", f"write at most {MAX_TAG_KEYS}")
    return tuple(filter(None, names))


def _dimension(node: Node, problems: list[Problem]) -> str:
    """The dimension that a node names; "" where there is none such."""
    if isinstance(node.value, str) and is_tag_dimension(node.value):
        return node.value
    return checked_choice(node, DIMENSIONS, problems)


def is_tag_dimension(name: str) -> bool:
    """True for a tag as a dimension, such as `tag:customer`."""
    return name.startswith(TAG_PREFIX) and bool(TAG_KEY.fullmatch(name, len(TAG_PREFIX)))


def _addresses(table: TableReader, field: Field) -> tuple[str, ...]:
    nodes = table.elements(field.key)
    is_array = isinstance(table.nodes[field.key].value, list)
    if is_array and not 1 <= len(nodes) <= MAX_RECIPIENTS:
        fix = f"write 1 to {MAX_RECIPIENTS} addresses"
        table.add_problem(field.key, f"has {len(nodes)} addresses", fix)
    addresses = []
    for node in nodes[:MAX_RECIPIENTS]:
        address = checked_value(node, str, table.problems)
        if address is not None and not is_mail_address(address):
            fix = 'write an address alone, such as "ann@example.com"'
            table.problems.append(node.problem(f"is {describe_value(address)}", fix))
        addresses.append(address or "")
    return tuple(dict.fromkeys(address for address in addresses if address))


def is_mail_address(text: str) -> bool:
    """True if a mail can be sent to it: one address without a name, in ASCII."""
    return _ADDRESS.fullmatch(text) is not None and ".." not in text


def _time_zone(table: TableReader, field: Field) -> str | None:
    zone = table.text(field.key, field.example)
    if zone is None:
        return None
    try:
        ZoneInfo(zone)
    except (KeyError, ValueError, OSError):
        what = f"is {describe_value(zone)}, which is no time zone"
        table.add_problem(field.key, what, f'write an IANA name, such as "{field.example}"')
    return zone


def _keys(table: TableReader, field: Field) -> tuple[str, ...]:
    nodes = table.elements(field.key)
    if not 1 <= len(nodes) <= MAX_TAG_KEYS:
        table.add_problem(field.key, f"lists {len(nodes)}", f"write 1 to {MAX_TAG_KEYS}")
    keys = []
    for node in nodes[:MAX_TAG_KEYS]:
        key = checked_value(node, str, table.problems, _KEYS_FIX)
        if key is None:
            continue
        if TAG_KEY.fullmatch(key) and key not in keys:
            keys.append(key)
        else:
            what = (
                f"is {describe_value(key)}, which is {'twice there' if key in keys else 'no key'}"
            )
            fix = "write up to 40 letters, digits, dots, dashes or underscores, each once"
            table.problems.append(node.problem(what, fix))
    return tuple(keys)


FIELDS: Final = (
    name_field("assistants-weekly"),
    TEAM,
    Field(
        "by",
        _dimensions,
        ("team",),
        f"`{'`, `'.join(DIMENSIONS)}`, or `tag:KEY` for a [tag](#tags), at most 4",
    ),
    Field(
        "every",
        ReportInterval,
        None,
        "`week` (from Monday), `month`",
        missing=one_of(ReportInterval),
    ),
    Field(
        "mail_to",
        _addresses,
        (),
        "up to 50 addresses, each of which gets a mail of its own",
        shown="required without `url_env`",
    ),
    Field(
        "url_env",
        environment_variable,
        "",
        "the environment variable that holds the URL of a webhook; not `THRIFTGATE_…`",
        shown="required without `mail_to`",
        example="REPORTS_URL",
    ),
    Field(
        "secret_env",
        environment_variable,
        "",
        "the variable that holds the secret that signs",
        shown="required with `url_env`",
        example="REPORTS_SECRET",
    ),
    Field("time_zone", _time_zone, "UTC", "an IANA name", example="Europe/Berlin"),
)

TAG_FIELDS: Final = (
    name_field("customers"),
    TEAM,
    Field(
        "keys",
        _keys,
        (),
        "1 to 4 keys of calls' `metadata`, each 1 to 40 letters, digits, `.`, `_` or `-`",
        missing=_KEYS_FIX,
    ),
)
