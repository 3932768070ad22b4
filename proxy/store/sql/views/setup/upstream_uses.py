"""Last uses of each upstream's key, from the newest receipts of a day."""

from collections.abc import Mapping
from typing import Final

import msgspec
from sqlalchemy import case, func, select

from proxy.records.receipt import Outcome
from proxy.store.sql import schema
from proxy.store.sql.database import read_transaction
from proxy.store.sql.ids import id_floor
from proxy.store.sql.timestamps import seconds
from proxy.store.sql.views.readers import Readers

_DAY_S: Final = 86_400.0
#: Receipts that are read, the newest.
MAX_RECEIPTS: Final = 50_000
#: Error of an attempt whose key or account the upstream refused.
_KEY_REFUSED: Final = "upstream_unauthorized"


class UpstreamUse(msgspec.Struct, frozen=True):
    """Uses of an upstream, in seconds since the epoch; None for no such attempt.

    Attributes:
        answered: Last time that it answered.
        refused: Last time that it refused the gateway's key or account.
        refusals: Number of attempts so refused.
    """

    answered: float | None
    refused: float | None
    refusals: int


def upstream_uses(readers: Readers, now: float) -> Mapping[str, UpstreamUse]:
    """Uses by upstream in the 24 hours before ``now``; blocks."""
    calls = schema.calls.c
    newest = (
        select(calls.upstream, calls.started, calls.outcome, calls.error)
        .where(calls.call_id >= id_floor(now - _DAY_S))
        .order_by(calls.call_id.desc())
        .limit(MAX_RECEIPTS)
        .subquery("newest")
    )
    rows = newest.c
    is_refused = rows.error == _KEY_REFUSED
    query = select(
        rows.upstream,
        func.max(case((rows.outcome == Outcome.ANSWERED.value, rows.started))).label("answered"),
        func.max(case((is_refused, rows.started))).label("refused"),
        func.sum(case((is_refused, 1), else_=0)).label("refusals"),
    ).group_by(rows.upstream)
    with read_transaction(readers.engine) as connection:
        return {
            row.upstream: UpstreamUse(
                _seconds(row.answered), _seconds(row.refused), int(row.refusals)
            )
            for row in connection.execute(query)
            if row.upstream
        }


def _seconds(micros: int | None) -> float | None:
    return None if micros is None else seconds(micros)
