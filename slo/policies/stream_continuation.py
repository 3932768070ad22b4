"""The rules of a policies file for streams whose upstream dies midway: who goes on from there."""

from collections.abc import Iterable
from typing import Final

import msgspec

from slo.budgets.budget import EVERY
from slo.decimals import whole_number
from slo.policies.entries import FEATURE, TEAM, name_field
from slo.toml.fields import Field, read_fields
from slo.toml.table_reader import TableReader, describe_value

_DEFAULT_CONTINUATIONS: Final = 1
_MOST_CONTINUATIONS: Final = 5


class StreamContinuation(msgspec.Struct, frozen=True, kw_only=True):
    """Lets broken streams be continued on another route.

    Attributes:
        max_continuations: Times that one stream may be continued; 0 for never.
    """

    name: str
    team: str = EVERY
    feature: str = EVERY
    max_continuations: int = _DEFAULT_CONTINUATIONS

    def governs(self, team: str, feature: str) -> bool:
        """True if it is about calls of this team and feature."""
        return self.team in {EVERY, team} and self.feature in {EVERY, feature}


def stream_continuation(table: TableReader) -> StreamContinuation:
    """The rule of a table, with stand-ins where it has problems."""
    return StreamContinuation(**read_fields(table, FIELDS))


def continuations_allowed(rules: Iterable[StreamContinuation], team: str, feature: str) -> int:
    """Times that a stream may be continued: the least of all rules about it, 0 without any."""
    counts = (rule.max_continuations for rule in rules if rule.governs(team, feature))
    return min(counts, default=0)


def _count(table: TableReader, field: Field) -> int | None:
    value = table.nodes[field.key].value
    count = whole_number(value)
    if count is None or not 0 <= count <= _MOST_CONTINUATIONS:
        fix = f"write a number from 0, for never, to {_MOST_CONTINUATIONS}"
        table.add_problem(field.key, f"is {describe_value(value)}", fix)
        return None
    return count


FIELDS: Final = (
    name_field("long-answers"),
    TEAM,
    FEATURE,
    Field(
        "max_continuations",
        _count,
        _DEFAULT_CONTINUATIONS,
        "times that one stream may be continued, 0 to 5; 0: never",
    ),
)
