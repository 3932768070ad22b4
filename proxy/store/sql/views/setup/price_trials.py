"""Dry runs of other prices over yesterday's attempts in the ledger."""

from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec
from sqlalchemy import Row, select

from proxy.store.sql import schema
from proxy.store.sql.database import read_transaction
from proxy.store.sql.ids import id_floor
from proxy.store.sql.timestamps import seconds
from proxy.store.sql.views.readers import Readers
from proxy.store.sql.views.setup.dry_runs import DryRun
from proxy.store.sql.views.setup.past_calls import DAY_S, yesterday
from slo.trials.price_trial import PricedAttempt, RoutePrices, try_prices
from slo.usage import Usage

_MAX_ATTEMPTS: Final = 50_000


class PriceQuestion(msgspec.Struct, frozen=True):
    """Prices to try.

    Attributes:
        now: Seconds since the epoch.
        prices: By route.
        since: Time from which the new ones hold; the beginning of time for always.
    """

    now: float
    prices: Mapping[str, RoutePrices]
    since: float = float("-inf")


def price_dry_run(readers: Readers, question: PriceQuestion) -> DryRun:
    """The trial of prices on the attempts of yesterday; blocks."""
    start, calls = yesterday(question.now), schema.calls.c
    columns = (calls.started, calls.route, calls.cost_nanos, *(calls[b] for b in schema.BUCKETS))
    query = (
        select(*columns)
        .where(
            calls.call_id >= id_floor(start),
            calls.call_id < id_floor(start + DAY_S),
            calls.route.in_(sorted(question.prices)),
            calls.input.is_not(None),
        )
        .order_by(calls.call_id, calls.attempt)
        .limit(_MAX_ATTEMPTS + 1)
    )
    with read_transaction(readers.engine) as connection:
        rows = connection.execute(query).all()
    is_cut = len(rows) > _MAX_ATTEMPTS
    trial = try_prices(question.prices, _attempts(rows[:_MAX_ATTEMPTS]), question.since)
    return DryRun(
        start=start, trial=trial, read_until=seconds(rows[-1].started) if is_cut else None
    )


def _attempts(rows: Iterable[Row[Any]]) -> Iterable[PricedAttempt]:
    for row in rows:
        usage = Usage(**dict(zip(schema.BUCKETS, row[-len(schema.BUCKETS) :], strict=True)))
        yield PricedAttempt(
            started=seconds(row.started), route=row.route, usage=usage, cost_nanos=row.cost_nanos
        )
