"""Sums of what compaction did for each feature, from the ledger."""

from collections.abc import Sequence
from typing import Final

import msgspec
from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Engine,
    Label,
    case,
    cast,
    func,
    or_,
    select,
)

from compaction.policy import CompactionMode
from dashboards.reports import ALL_CALLS
from proxy.records.receipt import Outcome
from proxy.store.sql import schema
from proxy.store.sql.database import read_transaction
from proxy.store.sql.ids import id_floor
from proxy.store.sql.rollups.bucket_sums import SumQuery, bucket_sums
from proxy.store.sql.timestamps import micros

_QUARTER_S: Final = 900


class CompactionTotals(msgspec.Struct, frozen=True, kw_only=True):
    """Sums over a feature's calls since a moment.

    Attributes:
        calls: Attempts that compaction had a part in.
        compacted: Number of them sent with facts in the place of messages; of receipts that do not
            tell, those that were sent shorter other than by mode trim.
        trimmed: Number of them sent shorter otherwise: tool results, and nothing else.
        resets: Number of calls that were the first after a compaction.
        tokens_before: Tokens of those sent shorter unmodified, by estimate.
        tokens_after: Tokens of them as they were sent.
        nanos: Savings in 1e-9 US dollars, net of resets; None where unknown.
        needed: Values that the compacted calls' newest tool calls took from compacted text.
        lost: Number of them that were not sent.
        control_needed: The same of those that went unmodified, and of what would have been
            compacted: a model that was shown all can need what it would not have been shown.
        control_lost: Number of them that would not have been sent.
    """

    team: str
    feature: str
    calls: int
    compacted: int
    resets: int
    tokens_before: int
    tokens_after: int
    nanos: int | None
    needed: int
    lost: int
    control_needed: int = 0
    control_lost: int = 0
    trimmed: int = 0

    @property
    def tokens_saved(self) -> int:
        """Tokens that were not sent."""
        return self.tokens_before - self.tokens_after


class CompactionReceipts:
    """Sums over one database; every method may block."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def totals(self, since: float) -> Sequence[CompactionTotals]:
        """Each feature's sums since a moment, in seconds since the epoch."""
        calls = schema.calls.c
        is_shorter = calls.compacted == 1
        is_trimmed = or_(calls.compaction == CompactionMode.TRIM, calls.compacted_messages == 0)
        query = (
            select(
                calls.team,
                calls.feature,
                func.count().label("calls"),
                _sum(case((is_trimmed, 0), else_=calls.compacted), "compacted"),
                _sum(case((is_trimmed, calls.compacted)), "trimmed"),
                _sum(calls.reset, "resets"),
                _sum(case((is_shorter, calls.tokens_before)), "tokens_before"),
                _sum(case((is_shorter, calls.tokens_after)), "tokens_after"),
                cast(func.sum(calls.compaction_nanos), BigInteger).label("nanos"),
                _sum(case((is_shorter, calls.needed)), "needed"),
                _sum(case((is_shorter, calls.lost)), "lost"),
                _sum(case((calls.compacted.is_(None), calls.needed)), "control_needed"),
                _sum(case((calls.compacted.is_(None), calls.lost)), "control_lost"),
            )
            .where(
                calls.call_id >= id_floor(since),
                calls.started >= micros(since),
                calls.compaction.is_not(None),
                calls.outcome != Outcome.FAILED,
            )
            .group_by(calls.team, calls.feature)
            .order_by(calls.team, calls.feature)
        )
        with read_transaction(self._engine) as connection:
            rows = connection.execute(query).mappings()
            return [CompactionTotals(**row) for row in rows]

    def savings_by_feature(self, since: float, until: float) -> dict[tuple[str, str], int]:
        """Nano-dollars that compaction saved each feature, resets paid for, by the rollups.

        Args:
            since: The beginning, in seconds since the epoch; its quarter of an hour counts.
            until: The end.
        """
        edges = [int(since // _QUARTER_S) * _QUARTER_S, int(until // _QUARTER_S + 1) * _QUARTER_S]
        query = SumQuery(
            place=lambda rows: [rows.team, rows.feature],
            addends=lambda rows: {"nanos": rows.compaction_nanos},
            only=ALL_CALLS,
        )
        with read_transaction(self._engine) as connection:
            sums = bucket_sums(connection, edges, query)
        return {(team, feature): total["nanos"] for (_, team, feature), total in sums.items()}


def _sum(column: ColumnElement[int], name: str) -> Label[int]:
    return cast(func.coalesce(func.sum(column), 0), BigInteger).label(name)
