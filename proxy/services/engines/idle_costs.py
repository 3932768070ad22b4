"""Books the idle time of replicas that are paid by the hour, so that the ledger sums to their bill.

::

    a row = the part of an hour that the replica ran, less the GPU time of calls that began in it

A row's id follows from hour and replica. So gateways that share a ledger book each hour once, and
a restart books none twice. An hour is booked an hour after its end, when its calls have ended too;
where a call went on beyond its hour, the hour's idle time may be negative, and the sums are right.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from hashlib import blake2b
from typing import Final

from proxy.app_context import AppContext
from proxy.catalog.entries import Upstream
from proxy.configuration import Snapshot
from proxy.errors import OperatorError
from proxy.records.receipt import IDLE_PREFIX, IDLE_TEAM, Outcome, Receipt
from proxy.services.engines.replica_monitor import ReplicaStatus
from proxy.services.engines.replica_uptime import ReplicaUptime
from proxy.store.errors import StoreError
from proxy.store.sql.ids import id_floor
from proxy.store.store import Store
from slo.replica_cost import ReplicaPrice

_log = logging.getLogger("thriftgate.engines")

_HOUR_S: Final = 3600
_MICROS_PER_S: Final = 1_000_000
#: Seconds after an hour's end before it is booked: as long as a call may take.
_WAIT_S: Final = 3600
#: Hours back that are booked yet where no gateway was there to do so.
_MAX_LATE_HOURS: Final = 48
_LOOK_INTERVAL_S: Final = 1.0
#: Looks between two times that runs are stored and hours are booked.
_LOOKS_PER_ROUND: Final = 10
#: Digits of an id behind its time.
_DIGITS: Final = 20


class IdleCosts:
    """Books idle time of replicas with a known price."""

    def __init__(self, opened: Store, upstreams: Iterable[Upstream]) -> None:
        self._opened = opened
        self._prices: dict[str, ReplicaPrice] = {}
        self._booked_hour = 0
        self.update(upstreams)

    def update(self, upstreams: Iterable[Upstream]) -> None:
        """Book these from now on."""
        self._booked_hour = 0
        self._prices = {
            upstream.name: upstream.replica_price
            for upstream in upstreams
            if upstream.replica_price is not None and upstream.replica_price.hour_nanos is not None
        }

    def book(self, now: float) -> list[Receipt]:
        """Book the hours that ended long enough ago; the rows of them; blocks.

        Raises:
            StoreError: The database is away.
            OperatorError: The database will never take a row.
        """
        newest = (int(now) - _WAIT_S) // _HOUR_S * _HOUR_S - _HOUR_S
        if newest <= self._booked_hour:
            return []
        oldest = max(newest - _MAX_LATE_HOURS * _HOUR_S, self._booked_hour) + _HOUR_S
        hours = range(oldest, newest + _HOUR_S, _HOUR_S)
        prices = self._prices
        rows = [row for name, price in prices.items() for row in self._rows(name, price, hours)]
        if rows:
            self._opened.book(rows)
        if prices is self._prices:
            self._booked_hour = newest
        return rows

    def _rows(self, upstream: str, price: ReplicaPrice, hours: Sequence[int]) -> Iterator[Receipt]:
        """The rows of a replica's hours that are not in the ledger yet and in which it ran."""
        ledger = self._opened.replica_time
        booked = ledger.booked_rows([_row_id(upstream, hour) for hour in hours])
        for hour in hours:
            if _row_id(upstream, hour) in booked:
                continue
            ran = round(ledger.run_seconds(upstream, hour, hour + _HOUR_S) * _MICROS_PER_S)
            if not ran:
                continue
            idle = ran * price.units - ledger.used_micros(upstream, hour, hour + _HOUR_S)
            nanos = idle * (price.gpu_hour_nanos or 0) // (_HOUR_S * _MICROS_PER_S)
            yield _row(upstream, hour, idle, nanos)


async def book_idle_costs(
    costs: IdleCosts, uptime: ReplicaUptime, context: AppContext, ticks: Callable[[], float]
) -> None:
    """Note each second which replicas run; store that and book their idle time."""
    opened, now, is_failing = context.opened, context.now, False
    while True:
        for _ in range(_LOOKS_PER_ROUND):
            uptime.note(now(), ticks())
            await asyncio.sleep(_LOOK_INTERVAL_S)
        if opened.is_offline:
            continue
        try:
            if runs := uptime.runs():
                await opened.ask(opened.replica_time.extend_runs, runs)
                uptime.forget(runs)
            if opened.drain.trouble is None:
                await opened.ask(costs.book, now())
            is_failing = False
        except (StoreError, OperatorError) as error:
            if not is_failing:
                _log.warning("Idle time of engines was not booked; it is tried again: %s", error)
            is_failing = True


def keep_idle_costs_booked(
    context: AppContext,
    ticks: Callable[[], float],
    status: Callable[[str], ReplicaStatus | None] = lambda _: None,
) -> "asyncio.Task[None]":
    """The task that books idle time of the catalog's replicas, and of each later catalog's.

    Args:
        status: The status of a replica by its name; None for one that is not watched.
    """
    costs = IdleCosts(context.opened, context.catalog.upstreams.values())
    uptime = ReplicaUptime(context.replica_costs, status)

    async def prepare(snapshot: Snapshot) -> Callable[[], None]:
        return lambda: costs.update(snapshot.catalog.upstreams.values())

    context.follow(prepare)
    return context.tasks.keep(lambda: book_idle_costs(costs, uptime, context, ticks))


def _row(upstream: str, hour: int, idle_micros: int, nanos: int) -> Receipt:
    """The ledger's row of a replica's idle time in an hour."""
    profile, colon, number = upstream.rpartition(":")
    engine = profile if colon and number.isdigit() else upstream
    return Receipt(
        call_id=_row_id(upstream, hour),
        attempt=0,
        final=False,
        started=float(hour),
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
        duration=float(_HOUR_S),
        overhead=0.0,
        gpu_seconds=idle_micros / _MICROS_PER_S,
    )


def _row_id(upstream: str, hour: int) -> str:
    """The id of the row of a replica's hour."""
    digits = blake2b(upstream.encode(), digest_size=_DIGITS // 2).hexdigest()
    return id_floor(hour)[:-_DIGITS] + digits
