"""Calls that warm one replica: for one token, held by budgets and kept in the ledger.

What is sent is what the model got before, so nothing is planned or compacted anew.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Final

import msgspec

from proxy.calls.deadlines import CallWatchdog, WatchdogTimer
from proxy.calls.eligibility.retry_policy import RetryPolicy
from proxy.calls.pipeline import serve
from proxy.calls.ports import CallContext, Dependencies, Head, ReceiptSink
from proxy.calls.translation.warming_call import warming_call
from proxy.catalog.entries import Model
from proxy.errors import CallerError
from proxy.prefix.explain.reasons import ProviderReason
from proxy.prefix.planned import Passthrough, Planned
from proxy.records.call import Call
from proxy.records.receipt import Receipt
from proxy.records.timeline import Timeline
from proxy.services.engines.replica_monitor import ReplicaStatus
from slo.usage import Usage

#: Seconds that a prompt may take to be read.
DEADLINE_S: Final = 30.0
_NOTE: Final = "reads a prompt ahead for a replica"
_PATIENCE: Final = RetryPolicy(first_byte_s=DEADLINE_S, stall_s=DEADLINE_S, retries=0)

WarmingSender = Callable[[ReplicaStatus, Call, asyncio.Event], Awaitable[Receipt | None]]
"""Warms a replica with the prompt of a call until the event is set; its receipt.

Raises a ``ProxyError`` where it was refused, failed, or was ended by the event.
"""


class _Listener:
    """The caller of a warming call; its answer is of no interest.

    Attributes:
        receipt: Its receipt, once there is one.
    """

    def __init__(self, stop: asyncio.Event) -> None:
        self._stop = stop
        self.receipt: Receipt | None = None

    async def begin(self, head: Head) -> None:
        """Do nothing."""

    async def send(self, piece: bytes) -> None:
        """Do nothing."""

    async def end(self, piece: bytes) -> None:
        """Do nothing."""

    async def send_whole(self, _head: Head, _body: bytes, receipt: Receipt) -> None:
        """Keep the receipt."""
        self.receipt = receipt

    def closing_event(self, receipt: Receipt) -> bytes:
        """Keep the receipt."""
        self.receipt = receipt
        return b""

    def note_attempt(self, receipt: Receipt) -> None:
        """Nothing: there is one attempt."""

    async def wait_until_gone(self) -> None:
        """Return once the warming is to end."""
        await self._stop.wait()


class Unplanned:
    """Sends every call unmodified."""

    async def plan(self, _call: Call, _route: object) -> Passthrough:
        """Nothing to plan."""
        return Passthrough()

    def note_answer_started(self, planned: Planned | Passthrough) -> None:
        """Do nothing."""

    def note_attempt_ended(self, planned: Planned | Passthrough) -> None:
        """Do nothing."""

    def note_refusal(self, planned: Planned) -> None:
        """Do nothing."""

    async def wait_until_stored(self, planned: Planned | Passthrough) -> None:
        """Do nothing."""

    def settle(
        self, _planned: Planned | Passthrough, _usage: Usage | None, _reason: ProviderReason | None
    ) -> None:
        """Nothing to learn."""


class OwnCallLedger(msgspec.Struct, frozen=True):
    """Keeps receipts of calls that no caller sent: their cost is a loss of the fast path."""

    ledger: ReceiptSink
    note: str

    def keep(self, receipt: Receipt) -> None:
        """Keep the receipt, its cost as a loss."""
        cost = receipt.spent_nanos
        lost = None if cost is None else -cost
        notes = (*receipt.notes, self.note)
        self.ledger.keep(msgspec.structs.replace(receipt, fast_path_nanos=lost, notes=notes))


def warming_sender(deps: Dependencies, ticks: Callable[[], float]) -> WarmingSender:
    """A sender of warming calls."""
    own = replace(
        deps, planning=Unplanned(), compaction=None, router=None, replicas=None,
        latency_target=None, retry_policy=_PATIENCE, ledger=OwnCallLedger(deps.ledger, _NOTE),
    )  # fmt: skip

    async def send(status: ReplicaStatus, call: Call, stop: asyncio.Event) -> Receipt | None:
        warming = warming_call(call)
        listener = _Listener(stop)
        only = _only_replica(own, warming, status)
        with CallWatchdog(WatchdogTimer(deps.tasks.start)) as watch:
            watch.watch_caller(listener.wait_until_gone)
            watch.check()  # it listens from now on, not from its next round on
            async with asyncio.timeout(DEADLINE_S):
                await serve(CallContext(warming, listener, only, watch, Timeline(ticks)))
        return listener.receipt

    return send


def call_of_its_own(template: Call, call_id: str, body: bytes, now: float) -> Call:
    """The call for whose prompt a replica is warmed, as its key's and team's.

    Of its headers none is taken: they are about another call.
    """
    return msgspec.structs.replace(
        template,
        id=call_id,
        method="POST",
        query="",
        headers={"content-type": "application/json"},
        body=body,
        notes=(),
        origin=None,
        arrived=now,
    )


def _only_replica(deps: Dependencies, call: Call, status: ReplicaStatus) -> Dependencies:
    """Dependencies with which this replica alone answers the call.

    Raises:
        CallerError: If the call's model is not served by it any more.
    """
    deps = deps.for_call(call)
    model = deps.catalog.find(call.model)
    routes = () if model is None else model.routes
    route = next(
        (candidate for candidate in routes if candidate.upstream.name == status.name), None
    )
    if model is None or route is None:
        raise CallerError("The replica serves this model no more.", code="not_an_engine")
    there = replace(route, upstream=replace(route.upstream, base_url=status.base_url))
    only = Model(id=model.id, routes=(there,))
    return replace(deps, catalog=replace(deps.catalog, models={model.id: only}))
