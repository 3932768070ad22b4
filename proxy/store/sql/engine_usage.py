"""The use of engines' replicas, summed from rollups by upstream."""

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import Engine, func, select

from proxy.records.receipt import IDLE_TEAM
from proxy.store.sql import schema
from proxy.store.sql.database import read_transaction
from proxy.store.sql.timestamps import seconds

_DAY_S = 86_400


@dataclass(frozen=True, slots=True, kw_only=True)
class UpstreamUsage:
    """The use of one upstream since a moment.

    Attributes:
        calls: Calls that it answered in the end.
        prompt_tokens: Tokens of their prompts, however they were served.
        output_tokens: Tokens generated, reasoning included.
        gpu_micros: GPU time of its calls, in microseconds.
        cost_nanos: Their cost; None where no price was known.
        draft_tokens: Tokens that speculation proposed; 0 where none was reported.
        accepted_tokens: Those of them that models took.
    """

    upstream: str
    calls: int
    prompt_tokens: int
    output_tokens: int
    gpu_micros: int
    cost_nanos: int | None
    draft_tokens: int
    accepted_tokens: int


def upstream_usage(engine: Engine, upstreams: Sequence[str], since: int) -> list[UpstreamUsage]:
    """The use of these upstreams that had calls, by name.

    Args:
        engine: The database.
        upstreams: Names of upstreams.
        since: Beginning of a quarter of an hour, in seconds since the epoch.
    """
    table = schema.rollups.c
    prompt = (bucket for bucket in schema.BUCKETS if bucket not in {"output", "reasoning"})
    sums = {
        "calls": table.calls,
        "prompt_tokens": sum((table[bucket] for bucket in prompt), start=table.input * 0),
        "output_tokens": table.output + table.reasoning,
        "gpu_micros": table.gpu_seconds,
        "cost_nanos": table.cost_nanos,
        "draft_tokens": table.draft_tokens,
        "accepted_tokens": table.accepted_tokens,
    }
    query = (
        select(table.upstream, *(func.sum(each).label(name) for name, each in sums.items()))
        .where(
            table.upstream.in_(upstreams),
            table.team != IDLE_TEAM,
            table.day >= since // _DAY_S,
            table.quarter >= since,
        )
        .group_by(table.upstream)
        .order_by(table.upstream)
    )
    with read_transaction(engine) as connection:
        rows = [row._asdict() for row in connection.execute(query)]
    return [
        UpstreamUsage(
            upstream=row["upstream"],
            cost_nanos=None if row["cost_nanos"] is None else int(row["cost_nanos"]),
            **{name: int(row[name] or 0) for name in sums if name != "cost_nanos"},
        )
        for row in rows
    ]


class ReplicaTimeLedger:
    """The time of replicas in one database: used by calls, and booked as idle."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def used_micros(self, upstream: str, start: int, end: int) -> int:
        """GPU time of calls that began in whole quarters of an hour, in microseconds.

        Args:
            upstream: Name of the replica's upstream.
            start: Beginning of the first quarter, in seconds since the epoch.
            end: End of the last.
        """
        table = schema.rollups.c
        query = select(func.coalesce(func.sum(table.gpu_seconds), 0)).where(
            table.upstream == upstream,
            table.team != IDLE_TEAM,
            table.day.between(start // _DAY_S, end // _DAY_S),
            table.quarter >= start,
            table.quarter < end,
        )
        with read_transaction(self._engine) as connection:
            return int(connection.execute(query).scalar_one())

    def booked_until(self, row_ids: Sequence[str]) -> float | None:
        """End of the last time that these rows cover, in seconds since the epoch; None for none."""
        table = schema.calls.c
        query = select(func.max(table.started + table.duration)).where(table.call_id.in_(row_ids))
        with read_transaction(self._engine) as connection:
            found = connection.execute(query).scalar()
        return None if found is None else seconds(int(found))
