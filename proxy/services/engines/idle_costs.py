"""Books the idle time of replicas that are paid by the hour, so that the ledger sums to their bill.

::

    a row = the replica's hour, less the GPU time of calls that began in it by the ledger

A row's id follows from hour and replica. So gateways that share a ledger book each hour once, and
a restart books none twice. An hour is booked an hour after its end, when its calls have ended too;
where a call went on beyond its hour, the hour's idle time may be negative, and the sums are right.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable
from hashlib import blake2b
from typing import Final

from sqlalchemy.exc import SQLAlchemyError

from proxy.app_context import AppContext
from proxy.catalog.entries import Upstream
from proxy.configuration import Snapshot
from proxy.errors import OperatorError
from proxy.records.receipt import IDLE_PREFIX, IDLE_TEAM, Outcome, Receipt
from proxy.store.sql.ids import id_floor
from proxy.store.store import Store
from slo.replica_cost import ReplicaPrice

_log = logging.getLogger("thriftgate.engines")

_HOUR_S: Final = 3600
_QUARTER_S: Final = 900
_MICROS_PER_S: Final = 1_000_000
#: Seconds after an hour's end before it is booked: as long as a call may take.
_WAIT_S: Final = 3600
#: Seconds after which counting begins anew: no gateway was there to see the replica.
_MAX_GAP_S: Final = 3 * _HOUR_S
_POLL_INTERVAL_S: Final = 60.0
#: Digits of an id behind its time.
_DIGITS: Final = 20


class IdleCosts:
    """Books idle time of replicas with a known price.

    Args:
        opened: The store.
        upstreams: The upstreams of the catalog.
    """

    def __init__(self, opened: Store, upstreams: Iterable[Upstream]) -> None:
        self._opened = opened
        self._prices: dict[str, ReplicaPrice] = {}
        self.update(upstreams)

    def update(self, upstreams: Iterable[Upstream]) -> None:
        """Book these from now on."""
        self._prices = {
            each.name: each.replica_price
            for each in upstreams
            if each.replica_price is not None and each.replica_price.hour_nanos is not None
        }

    def book(self, now: float) -> list[Receipt]:
        """Book the hours that ended long enough ago; the rows of them; blocks.

        A replica that is seen for the first time gets a row of no cost: it is paid from the next
        quarter of an hour on.

        Raises:
            SQLAlchemyError: The database is away.
            OperatorError: The database will never take a row.
        """
        rows = [row for name, price in self._prices.items() for row in self._rows(name, price, now)]
        if rows:
            self._opened.book(rows)
        return rows

    def _rows(self, upstream: str, price: ReplicaPrice, now: float) -> list[Receipt]:
        hour = int(now) // _HOUR_S * _HOUR_S
        hours = range(hour - _MAX_GAP_S - _HOUR_S, hour + 2 * _HOUR_S, _HOUR_S)
        until = self._opened.replica_time.booked_until([_row_id(upstream, at) for at in hours])
        if until is None or now - until > _MAX_GAP_S:
            begin = -(-int(now) // _QUARTER_S) * _QUARTER_S
            return [_row(upstream, (begin, begin), 0, 0)]
        begin, rows = int(until), []
        while (end := begin // _HOUR_S * _HOUR_S + _HOUR_S) + _WAIT_S <= now:
            used = self._opened.replica_time.used_micros(upstream, begin, end)
            idle = (end - begin) * price.units * _MICROS_PER_S - used
            nanos = idle * (price.gpu_hour_nanos or 0) // (_HOUR_S * _MICROS_PER_S)
            rows.append(_row(upstream, (begin, end), idle, nanos))
            begin = end
        return rows


async def book_idle_costs(costs: IdleCosts, opened: Store, now: Callable[[], float]) -> None:
    """Book idle time every minute, while receipts reach the ledger; for ever."""
    while True:
        await opened.wait_until_online()
        try:
            if opened.drain.trouble is None:
                await opened.ask(costs.book, now())
        except (SQLAlchemyError, OperatorError) as error:
            _log.warning("Idle time of engines was not booked; the next try is soon: %s", error)
        await asyncio.sleep(_POLL_INTERVAL_S)


def keep_idle_costs_booked(context: AppContext) -> "asyncio.Task[None]":
    """The task that books idle time of the catalog's replicas, and of each later catalog's."""
    costs = IdleCosts(context.opened, context.catalog.upstreams.values())

    async def prepare(snapshot: Snapshot) -> Callable[[], None]:
        return lambda: costs.update(snapshot.catalog.upstreams.values())

    context.follow(prepare)
    return context.tasks.keep(lambda: book_idle_costs(costs, context.opened, context.now))


def _row(upstream: str, span: tuple[int, int], idle_micros: int, nanos: int) -> Receipt:
    """The ledger's row of a replica's idle time; the first of a replica covers no time."""
    begin, end = span
    profile, colon, number = upstream.rpartition(":")
    engine = profile if colon and number.isdigit() else upstream
    return Receipt(
        call_id=_row_id(upstream, begin),
        attempt=int(begin == end),
        final=False,
        started=float(begin),
        team=IDLE_TEAM,
        key_id="",
        feature=f"{IDLE_PREFIX}{engine}",
        user="",
        endpoint="",
        model="",
        route=f"{IDLE_PREFIX}{upstream}",
        upstream=upstream,
        streamed=False,
        status=0,
        outcome=Outcome.ANSWERED,
        list_nanos=nanos,
        cost_nanos=nanos,
        duration=float(end - begin),
        overhead=0.0,
        gpu_seconds=idle_micros / _MICROS_PER_S,
    )


def _row_id(upstream: str, at: int) -> str:
    """The id of the row of a replica's hour."""
    digits = blake2b(upstream.encode(), digest_size=_DIGITS // 2).hexdigest()
    return id_floor(at // _HOUR_S * _HOUR_S)[:-_DIGITS] + digits
