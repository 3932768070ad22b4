"""The contexts of a policies file: which teams may keep texts here and name them in their calls."""

import re
from enum import StrEnum
from typing import Final

import msgspec

from slo.budgets.budget import EVERY
from slo.policies.entries import TEAM, name_field
from slo.toml.fields import Field, read_fields
from slo.toml.table_reader import TableReader, checked_value, describe_value

_MAX_PREFIXES = 50
_FIX = 'write fetch = ["https://docs.example.com/guides/"]'
#: A prefix ends its host with a slash: ``https://docs.example.com`` would match other hosts, too.
_PREFIX = re.compile(r"https?://[A-Za-z0-9.-]+(:\d{1,5})?/([A-Za-z0-9._~/-]*/)?")
_MAX_DEADLINE_MS: Final = 10_000


class LateRule(StrEnum):
    """The substitute for a page that is late or fails."""

    OMIT = "omit"  #: Nothing: it is left out, and a note names it.
    LAST = "last"  #: Its last copy here, however old; where there is none, as ``omit``.
    REFUSE = "refuse"  #: The call is refused.


class ContextPolicy(msgspec.Struct, frozen=True, kw_only=True):
    """Lets a team name stored texts, and pages below these addresses, in its calls.

    Attributes:
        fetch: Prefixes of the URLs that may be fetched, each with a slash after its host.
        deadline_ms: Milliseconds for all pages of a call together.
    """

    name: str
    team: str = EVERY
    fetch: tuple[str, ...] = ()
    deadline_ms: int = 300
    late: LateRule = LateRule.OMIT


def context_policy(table: TableReader) -> ContextPolicy:
    """The policy of a table, with stand-ins where it has problems."""
    return ContextPolicy(**read_fields(table, FIELDS))


def _prefixes(table: TableReader, field: Field) -> tuple[str, ...]:
    nodes = table.elements(field.key)
    if len(nodes) > _MAX_PREFIXES:
        table.add_problem(field.key, f"lists {len(nodes)}", f"write up to {_MAX_PREFIXES}")
    prefixes = []
    for node in nodes[:_MAX_PREFIXES]:
        prefix = checked_value(node, str, table.problems, _FIX)
        if prefix is None:
            continue
        if _PREFIX.fullmatch(prefix) and "/." not in prefix:
            prefixes.append(prefix)
        else:
            what = f"is {describe_value(prefix)}, which is no address that ends in a slash"
            table.problems.append(node.problem(what, _FIX))
    return tuple(prefixes)


def _deadline(table: TableReader, field: Field) -> int | None:
    deadline = table.get(field.key, int)
    if deadline is not None and not 1 <= deadline <= _MAX_DEADLINE_MS:
        fix = f"write 1 to {_MAX_DEADLINE_MS:,} milliseconds"
        table.add_problem(field.key, f"is {deadline}", fix)
    return deadline


FIELDS: Final = (
    name_field("support-handbooks"),
    TEAM,
    Field(
        "fetch",
        _prefixes,
        (),
        "prefixes of URLs that calls may have fetched, each to a slash; `[]`: none",
    ),
    Field("deadline_ms", _deadline, 300, "milliseconds for all pages of a call together"),
    Field(
        "late",
        LateRule,
        LateRule.OMIT,
        "for a page that is late or fails: `omit` it, take its `last` copy, or `refuse` the call",
    ),
)
