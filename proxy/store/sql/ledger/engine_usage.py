"""The use of engines' replicas, summed by upstream, and the times that they ran."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from sqlalchemy import (
    Engine,
    Float,
    Select,
    case,
    cast,
    delete,
    func,
    literal,
    literal_column,
    select,
)

from proxy.records.receipt import IDLE_TEAM, Outcome
from proxy.store.sql import schema
from proxy.store.sql.database import read_transaction, write_transaction
from proxy.store.sql.ids import id_floor
from proxy.store.sql.rollups.rollup_statements import SUMS
from proxy.store.sql.rows import read_value, upsert
from proxy.store.sql.timestamps import micros

_DAY_S: Final = 86_400
_QUARTER_S: Final = 900
#: Seconds since a replica was last seen in which it still runs: gateways store it every 10 s.
_SEEN_LATELY_S: Final = 15
#: Seconds that a call's last attempt may begin after the call.
_MAX_CALL_S: Final = 3600
_PROMPT: Final = tuple(bucket for bucket in schema.BUCKETS if bucket not in {"output", "reasoning"})
_SUMS: Final = (
    "calls", *schema.BUCKETS, "gpu_seconds", "cost_nanos", "draft_tokens", "accepted_tokens",
)  # fmt: skip
_EXTEND_RUN: Final = upsert(
    schema.replica_runs,
    "DO UPDATE SET ended = CASE WHEN excluded.ended > replica_runs.ended THEN excluded.ended"
    " ELSE replica_runs.ended END",
)


class ReplicaRun(NamedTuple):
    """A time in which a replica ran without a break.

    Attributes:
        began: Its begin, in seconds since the epoch.
        ended: Its end, or when it was last seen.
    """

    upstream: str
    began: float
    ended: float


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


def upstream_usage(engine: Engine, upstreams: Sequence[str], since: float) -> list[UpstreamUsage]:
    """The use of these upstreams that had calls, by name, from a moment on to the second.

    Args:
        since: Seconds since the epoch; whole quarters of an hour after it are read from rollups.
    """
    quarter = math.ceil(since / _QUARTER_S) * _QUARTER_S
    usages: dict[str, dict[str, int | None]] = {}
    with read_transaction(engine) as connection:
        for query in (_rollup_sums(upstreams, quarter), _receipt_sums(upstreams, since, quarter)):
            for row in connection.execute(query):
                sums = usages.setdefault(row.upstream, dict.fromkeys(_SUMS))
                for name in _SUMS:
                    value = row._mapping[name]  # noqa: SLF001 - by name
                    if value is not None:
                        sums[name] = (sums[name] or 0) + int(value)
    return [_usage(name, usages[name]) for name in sorted(usages)]


def _rollup_sums(upstreams: Sequence[str], quarter: int) -> Select[Any]:
    """Sums of the rollups from a quarter of an hour on."""
    table = schema.rollups.c
    return (
        select(table.upstream, *(func.sum(table[name]).label(name) for name in _SUMS))
        .where(
            table.upstream.in_(upstreams),
            table.team != IDLE_TEAM,
            table.day >= quarter // _DAY_S,
            table.quarter >= quarter,
        )
        .group_by(table.upstream)
    )


def _receipt_sums(upstreams: Sequence[str], since: float, until: float) -> Select[Any]:
    """The same sums of receipts between two moments."""
    table = schema.calls.c
    return (
        select(table.upstream, *(literal_column(SUMS[name]).label(name) for name in _SUMS))
        .where(
            table.upstream.in_(upstreams),
            table.team != IDLE_TEAM,
            table.call_id >= id_floor(since - _MAX_CALL_S),
            table.call_id < id_floor(until),
            table.started >= micros(since),
            table.started < micros(until),
        )
        .group_by(table.upstream)
    )


def _usage(name: str, sums: dict[str, int | None]) -> UpstreamUsage:
    prompt = sum(sums[bucket] or 0 for bucket in _PROMPT)
    return UpstreamUsage(
        upstream=name,
        calls=sums["calls"] or 0,
        prompt_tokens=prompt,
        output_tokens=(sums["output"] or 0) + (sums["reasoning"] or 0),
        gpu_micros=sums["gpu_seconds"] or 0,
        cost_nanos=sums["cost_nanos"],
        draft_tokens=sums["draft_tokens"] or 0,
        accepted_tokens=sums["accepted_tokens"] or 0,
    )


class FeatureSpeeds(NamedTuple):
    """Answered calls of one feature at some upstreams, with drafts or without.

    Attributes:
        samples: Those of the calls with output and a time of decode; the next three are theirs.
        rate_squares: Sum of tokens squared by seconds of decode.
    """

    feature: str
    is_drafted: bool
    calls: int
    draft_tokens: int
    accepted_tokens: int
    samples: int
    tokens: float
    decode_s: float
    rate_squares: float


def feature_speeds(engine: Engine, upstreams: Sequence[str], since: float) -> list[FeatureSpeeds]:
    """Speeds of decode of answered calls by feature, with drafts and without."""
    table = schema.calls.c
    output = cast(func.coalesce(table.output, 0) + func.coalesce(table.reasoning, 0), Float)
    seconds_of_decode = table.decode / literal(1e6)
    is_drafted = case((table.draft_tokens > 0, 1), else_=0)
    is_timed = (output > 0) & (table.decode > 0)
    query = (
        select(
            table.feature,
            is_drafted,
            func.count(),
            func.coalesce(func.sum(table.draft_tokens), 0),
            func.coalesce(func.sum(table.accepted_tokens), 0),
            func.count(case((is_timed, 1))),
            func.coalesce(func.sum(case((is_timed, output))), 0),
            func.coalesce(func.sum(case((is_timed, seconds_of_decode))), 0),
            func.coalesce(func.sum(case((is_timed, output * output / seconds_of_decode))), 0),
        )
        .where(
            table.upstream.in_(upstreams),
            table.team != IDLE_TEAM,
            table.outcome == Outcome.ANSWERED,
            table.call_id >= id_floor(since),
        )
        .group_by(table.feature, is_drafted)
    )
    with read_transaction(engine) as connection:
        rows = connection.execute(query).all()
    return [
        FeatureSpeeds(
            feature,
            bool(drafted),
            *(int(count) for count in counts[:4]),
            *(float(value) for value in counts[4:]),
        )
        for feature, drafted, *counts in rows
    ]


class ReplicaTimeLedger:
    """The time of replicas in one database: run, used by calls, and booked as idle."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def used_micros(self, upstream: str, start: int, end: int) -> int:
        """GPU time of calls that began in whole quarters of an hour, in microseconds.

        Args:
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
        return int(read_value(self._engine, query))

    def booked_rows(self, row_ids: Sequence[str]) -> frozenset[str]:
        """Those of these rows that the ledger has."""
        table = schema.calls.c
        query = select(table.call_id).where(table.call_id.in_(row_ids))
        with read_transaction(self._engine) as connection:
            return frozenset(connection.execute(query).scalars())

    def extend_runs(self, runs: Sequence[ReplicaRun]) -> None:
        """Keep these times that replicas ran; one that is kept already gets the later end."""
        if not runs:
            return
        with write_transaction(self._engine) as connection:
            connection.execute(_EXTEND_RUN, [run._asdict() for run in sorted(runs)])

    def run_seconds(self, upstream: str, start: float, end: float) -> float:
        """Seconds between two moments in which a replica ran, as any gateway saw it."""
        return _covered_seconds(self._runs(upstream, start, end), start, end)

    def run_seconds_until_now(self, upstream: str, start: float, now: float) -> float:
        """The same up to the present: a replica that was seen a moment ago still runs."""
        runs = self._runs(upstream, start, now)
        if runs and now - max(ended for _, ended in runs) <= _SEEN_LATELY_S:
            runs.append((runs[-1][0], now))
        return _covered_seconds(runs, start, now)

    def _runs(self, upstream: str, start: float, end: float) -> list[tuple[float, float]]:
        """Begin and end of the runs that reach into a time, by their begin."""
        table = schema.replica_runs.c
        query = (
            select(table.began, table.ended)
            .where(table.upstream == upstream, table.began < end, table.ended > start)
            .order_by(table.began)
        )
        with read_transaction(self._engine) as connection:
            return [(began, ended) for began, ended in connection.execute(query)]

    def delete_runs(self, before: float) -> None:
        """Delete the runs that ended before a moment."""
        step = delete(schema.replica_runs).where(schema.replica_runs.c.ended < before)
        with write_transaction(self._engine) as connection:
            connection.execute(step)


def _covered_seconds(runs: Sequence[tuple[float, float]], start: float, end: float) -> float:
    """Seconds of a time that runs cover, overlaps counted once.

    Args:
        runs: Begin and end of each, by their begin.
    """
    total, covered = 0.0, start
    for began, ended in runs:
        until = min(ended, end)
        total += max(until - max(began, covered), 0.0)
        covered = max(covered, until)
    return total
