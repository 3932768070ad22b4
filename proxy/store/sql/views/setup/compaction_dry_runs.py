"""Reads from dry runs of compaction how much it would save, where it is off.

A call with the header ``x-thriftgate-compaction: dry-run`` goes unmodified, and its receipt says
how many tokens it would have had. Other receipts do not say which tokens are old turns.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple

from sqlalchemy import BigInteger, Connection, cast, func, select

from dashboards.reports import SpendFilter
from proxy.records.amounts import quantity
from proxy.store.sql.rollups.spend_filters import filter_conditions
from proxy.store.sql.views.setup.repeated_calls import newest_attempts

#: With which a receipt's reason begins of a call that was only to be looked at.
_DRY_RUN: Final = "dry_run: "


class DryRunTokens(NamedTuple):
    """Tokens that dry runs of a feature had, and would have had."""

    calls: int = 0
    before: int = 0
    after: int = 0

    def saved_nanos(self, cost_nanos: int) -> int | None:
        """The most that compaction saves of a cost; None where no dry run is known."""
        return cost_nanos * (self.before - self.after) // self.before if self.before else None

    @property
    def basis(self) -> str:
        """The way the saving is known, or can be."""
        if not self.before:
            return "Send calls with x-thriftgate-compaction: dry-run to know; they go unmodified"
        return f"The share of tokens that {quantity(self.calls, 'dry run')} would not have sent"


def dry_run_tokens(
    connection: Connection, period: tuple[int, int], only: SpendFilter
) -> Mapping[tuple[str, str], DryRunTokens]:
    """The dry runs among the newest attempts, by team and feature."""
    newest = newest_attempts(period)
    sums = (
        cast(func.sum(tokens), BigInteger) for tokens in (newest.tokens_before, newest.tokens_after)
    )
    query = (
        select(newest.team, newest.feature, func.count(), *sums)
        .where(
            newest.compaction_why.startswith(_DRY_RUN),
            newest.tokens_before > 0,
            *filter_conditions(newest, only),
        )
        .group_by(newest.team, newest.feature)
    )
    return {
        (team, feature): DryRunTokens(*tokens)
        for team, feature, *tokens in connection.execute(query)
    }
