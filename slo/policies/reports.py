"""The scheduled cost reports of a policies file: whom they are sent to, and how often.

::

[[reports]]
name = "assistants-weekly"
team = "assistants"              # "*", the default: all teams in one report
by = ["feature", "model"]        # dimensions, as of `thriftgate report cost`; ["team"] without
every = "week"                   # week, from Monday; month
mail_to = ["ann@example.com"]    # each gets a mail of her own, through THRIFTGATE_SMTP_URL
url_env = "REPORTS_URL"          # the environment variable with a webhook's URL, as of a sink
secret_env = "REPORTS_SECRET"    # the one with what signs
time_zone = "Europe/Berlin"      # whose weeks and months they are; UTC without
"""

import re
from enum import StrEnum
from typing import Final
from zoneinfo import ZoneInfo

import msgspec

from slo.budgets.budget import EVERY
from slo.policies.entries import entry_name
from slo.policies.sinks import environment_variable
from slo.toml.table_reader import TableReader, checked_choice, checked_value, describe_value

#: Keys of a report's table.
KEYS = ("name", "team", "by", "every", "mail_to", "url_env", "secret_env", "time_zone")
#: Dimensions of a cost report, as `dashboards.cost_reports` has them.
DIMENSIONS: Final = (
    "team", "feature", "model", "key", "user", "route", "provider", "upstream", "day", "month"
)  # fmt: skip
MAX_RECIPIENTS: Final = 50
_ADDRESS: Final = re.compile(
    r"[A-Za-z0-9.!#$%&'*+/=?^_`{|}~-]{1,64}@[A-Za-z0-9](?:[A-Za-z0-9.-]{0,188}[A-Za-z0-9])?"
)


class ReportInterval(StrEnum):
    """The length of a scheduled report's periods."""

    WEEK = "week"  # from Monday to Sunday
    MONTH = "month"


class ScheduledReport(msgspec.Struct, frozen=True, kw_only=True):
    """A cost report that is sent after the end of each period.

    Attributes:
        name: Unique among reports.
        team: The team's name; ``*`` for all teams.
        by: Its dimensions, each once.
        every: The length of its periods.
        mail_to: Addresses that it is mailed to.
        url_env: The environment variable that holds its webhook's URL; "" for none.
        secret_env: The one that holds what signs.
        time_zone: An IANA name.
    """

    name: str
    team: str = EVERY
    by: tuple[str, ...] = ("team",)
    every: ReportInterval
    mail_to: tuple[str, ...] = ()
    url_env: str = ""
    secret_env: str = ""
    time_zone: str = "UTC"


def report(table: TableReader) -> ScheduledReport:
    """The report of a table, with stand-ins where it has problems."""
    url_env = environment_variable(table, "url_env", "REPORTS_URL")
    secret_env = environment_variable(table, "secret_env", "REPORTS_SECRET")
    if ("url_env" in table.nodes) != ("secret_env" in table.nodes):
        missing = "secret_env" if "url_env" in table.nodes else "url_env"
        what = "holds what signs" if missing == "secret_env" else "holds the URL"
        table.add_problem(missing, "is missing", f"name the environment variable that {what}")
    if not {"mail_to", "url_env"} & table.nodes.keys():
        fix = 'write mail_to = ["ann@example.com"], or url_env and secret_env of a webhook'
        table.add_problem("mail_to", "is missing, and so is url_env", fix)
    return ScheduledReport(
        name=entry_name(table, "assistants-weekly"),
        team=_team(table),
        by=_dimensions(table),
        every=table.member("every", ReportInterval) or ReportInterval.WEEK,
        mail_to=_addresses(table),
        url_env=url_env,
        secret_env=secret_env,
        time_zone=_time_zone(table),
    )


def _team(table: TableReader) -> str:
    team = table.text("team", EVERY)
    if team == "":
        table.add_problem("team", "is empty, and every call has a team", 'write a name, or "*"')
    return team or EVERY


def _dimensions(table: TableReader) -> tuple[str, ...]:
    if "by" not in table.nodes:
        return ("team",)
    nodes = table.elements("by")
    if not nodes and isinstance(table.nodes["by"].value, list):
        table.add_problem("by", "is empty", f"write some of {', '.join(DIMENSIONS)}")
    names = (checked_choice(node, DIMENSIONS, table.problems) for node in nodes)
    return tuple(dict.fromkeys(name for name in names if name))


def _addresses(table: TableReader) -> tuple[str, ...]:
    if "mail_to" not in table.nodes:
        return ()
    nodes = table.elements("mail_to")
    if isinstance(table.nodes["mail_to"].value, list) and not 1 <= len(nodes) <= MAX_RECIPIENTS:
        fix = f"write 1 to {MAX_RECIPIENTS} addresses"
        table.add_problem("mail_to", f"has {len(nodes)} addresses", fix)
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


def _time_zone(table: TableReader) -> str:
    zone = table.text("time_zone", "Europe/Berlin")
    if zone is None:
        return "UTC"
    try:
        ZoneInfo(zone)
    except (KeyError, ValueError, OSError):
        what = f"is {describe_value(zone)}, which is no time zone"
        table.add_problem("time_zone", what, 'write an IANA name, such as "Europe/Berlin"')
    return zone
