"""Reads from dry runs of compaction how much it would save, where it is off.

A call with the header ``x-thriftgate-compaction: dry-run`` goes unmodified, and its receipt says
how many tokens it would have had. Other receipts do not say which tokens are old turns.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple

from sqlalchemy import BigInteger, Connection, cast, func, select

from dashboards.reports import SpendFilter
from proxy.store.sql.rollups.spend_filters import filter_conditions
from proxy.store.sql.schema import BUCKETS
from proxy.store.sql.views.setup.repeated_calls import newest_attempts

#: Reasons of receipts of calls that were only to be looked at begin with it.
_DRY_RUN: Final = "dry_run: "
#: Dry runs of a feature from which on they say anything about its other calls.
MIN_DRY_RUNS: Final = 20


class DryRunTokens(NamedTuple):
    """Tokens that dry runs of a feature had, and would have had.

    Attributes:
        prompt: Billed tokens of their prompts.
        generated: Tokens of their answers, which compaction leaves as they are.
    """

    calls: int = 0
    before: int = 0
    after: int = 0
    prompt: int = 0
    generated: int = 0

    def saved_nanos(self, cost_nanos: int) -> int | None:
        """The most that compaction saves of a cost; None where too few dry runs are known.

        The prompts' part of a cost is at most their part of the tokens: answers cost more each.
        """
        tokens = self.prompt + self.generated
        if self.calls < MIN_DRY_RUNS or not tokens:
            return None
        return cost_nanos * self.prompt * (self.before - self.after) // (tokens * self.before)

    @property
    def basis(self) -> str:
        """The way the saving is known, or can be."""
        if self.calls < MIN_DRY_RUNS:
            return (
                f"Send {MIN_DRY_RUNS - self.calls} calls with x-thriftgate-compaction: dry-run to"
                " know; they go unmodified"
            )
        share = f"The share of prompts that {self.calls} dry runs would not have sent"
        return f"{share}, of the prompts' part of the cost"


def dry_run_tokens(
    connection: Connection, period: tuple[int, int], only: SpendFilter
) -> Mapping[tuple[str, str], DryRunTokens]:
    """The dry runs among the newest attempts, by team and feature."""
    newest = newest_attempts(period)
    generated = func.coalesce(newest.output, 0) + func.coalesce(newest.reasoning, 0)
    prompt = sum((func.coalesce(newest[name], 0) for name in BUCKETS), -generated)
    sums = (
        cast(func.sum(tokens), BigInteger)
        for tokens in (newest.tokens_before, newest.tokens_after, prompt, generated)
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
