"""Passing an answer on: the second half of a call, from the commit point to the receipt."""

import asyncio

from proxy.calls.abandoned_attempts import settle_abandoned
from proxy.calls.deadlines import HungUp, Interrupted, Wait
from proxy.calls.ports import Head, Line
from proxy.calls.settlement import Attempt, End, crude, receipt, terms
from proxy.calls.upstream_answer import Answer, said
from proxy.errors import ProxyError, UpstreamError
from proxy.prefix.explain.diagnostics import Heard
from proxy.providers.failures import unkeyed, unkeyed_answer, unkeyed_error
from proxy.providers.json_size import MAX_ANSWER, may_exceed
from proxy.providers.port import Reader
from proxy.providers.sse import is_idle
from proxy.providers.stream_endings import cut_off, error_event, failed_midway, malformed
from proxy.records.receipt import Outcome, Receipt, answering_model
from proxy.records.timeline import Waiting
from slo.usage import Usage

#: Seconds an upstream has to end its answer after the closing event.
_LINGER = 1.0


class Delivery:
    """One answer on its way to its caller; it settles exactly once, however it ends."""

    __slots__ = ("_answer", "_attempt", "_line", "_reader", "_receipt")

    def __init__(self, line: Line, attempt: Attempt, reader: Reader | None, answer: Answer) -> None:
        self._line = line
        self._attempt = attempt
        self._reader = reader
        self._answer = answer
        self._receipt: Receipt | None = None

    async def run(self) -> None:
        """Pass the answer on to its end.

        Raises:
            UpstreamError: If the answer could not be read and nothing was sent of it.
            HungUp: If the caller left.
        """
        try:
            await (self._whole() if self._answer.is_whole else self._pieces())
        except asyncio.CancelledError:
            reason = self._line.watch.told()
            if reason is None:
                await self._interrupted()
                raise
            await self._cut(reason)
        except UpstreamError as failure:
            await self._cut(failure)
        finally:
            self._settle_at_once()

    async def _whole(self) -> None:
        body, reason = self._answer.first, None
        if self._answer.meter.broken:
            body = unkeyed_answer(body)
            reason = failed_midway() if self._answer.generates else None
        kept = await self._settled(reason)
        with self._handing():
            await self._line.caller.whole(self._head(), body, kept)

    async def _pieces(self) -> None:
        caller, watch, meter = self._line.caller, self._line.watch, self._answer.meter
        stall = self._line.desk.patience.stall
        with self._handing():
            await caller.begin(self._head())
        heard, piece = self._line.timeline.now(), self._answer.first
        while piece:
            out = self._read(piece)
            if meter.broken:
                out = unkeyed_error(out) if self._receipt is None else unkeyed(out)
            if self._receipt is None and self._has_ended:
                out = (
                    self._closing(await self._settled(failed_midway() if meter.broken else None))
                    + out
                )
            if out:
                with self._handing():
                    await caller.send(out)
            if not is_idle(piece):
                heard = self._line.timeline.now()
            left = heard + stall - self._line.timeline.now()
            watch.expect(Wait.NEXT_BYTE, left if self._receipt is None else _LINGER)
            piece = await self._answer.next()
        out = self._end()
        if self._receipt is None:
            if self._answer.is_stream and not self._is_complete:
                raise cut_off()
            out = self._closing(await self._settled()) + out
        with self._handing():
            await caller.end(out)

    async def _cut(self, reason: ProxyError) -> None:
        """End an answer that cannot go on, telling the caller if it is still there.

        What is no stream of events has no words for it: it stops short of its end, and the broken
        connection tells.
        """
        is_complete = self._receipt is not None
        try:
            await self._settled(reason)
        except asyncio.CancelledError as cancelled:
            over = self._line.watch.told()
            self._keep_at_once(over or reason)
            raise over or cancelled from None
        if self._answer.is_whole or isinstance(reason, HungUp):
            raise reason
        await self._told(reason, is_complete=is_complete)

    async def _interrupted(self) -> None:
        """End an answer because we stop, and tell the caller of a stream."""
        is_complete = self._receipt is not None
        self._settle_at_once()
        if not self._answer.is_whole:
            await self._told(Interrupted(), is_complete=is_complete)

    async def _told(self, reason: ProxyError, *, is_complete: bool) -> None:
        self._answer.exchange.close()
        if self._answer.is_stream:
            last = b"" if is_complete else error_event(self._line.call.endpoint, reason)
            with self._handing():
                await self._line.caller.end(last)

    def _handing(self) -> Waiting:
        """A block that waits for the caller to take what is sent, but not for ever."""
        self._line.watch.expect(Wait.CALLER, self._line.desk.patience.stall)
        return self._line.timeline.waiting

    def _closing(self, kept: Receipt) -> bytes:
        return self._line.caller.closing(kept) if self._answer.is_stream else b""

    def _read(self, piece: bytes) -> bytes:
        if self._reader is None:
            return piece
        if may_exceed(piece, MAX_ANSWER):
            raise malformed()
        return said(self._reader, piece)

    def _end(self) -> bytes:
        return self._reader.end() if self._reader is not None else b""

    @property
    def _has_ended(self) -> bool:
        """True if the upstream has said that nothing follows; an event log goes on after errors."""
        meter = self._answer.meter
        return meter.finished or (meter.broken and not self._answer.is_retrieval)

    @property
    def _is_complete(self) -> bool:
        """True if a stream that has ended had said all; of those we do not know, nobody can say."""
        return self._answer.meter.complete or not self._answer.generates

    def _head(self) -> Head:
        attempt, exchange = self._attempt, self._answer.exchange
        model = attempt.call.model
        if model and attempt.route is not None:
            model = answering_model(attempt.route.name, model)
        headers = exchange.headers
        if attempt.headers:
            headers = {**headers, **attempt.headers}
        return Head(exchange.status, headers, model, attempt.notes)

    async def _settled(self, reason: ProxyError | None = None) -> Receipt:
        """The receipt, kept now unless it is already; the reason is why the answer is cut short."""
        if self._receipt is not None:
            return self._receipt
        line, meter, route = self._line, self._answer.meter, self._attempt.route
        line.watch.rest()
        await line.desk.planning.kept(self._attempt.planned)
        usage = self._said
        if not self._answer.generates or route is None:
            return self._keep(reason, usage, estimated=False)
        if usage is None or meter.suspicious or (reason is not None and not meter.billed):
            usage = await line.desk.estimator.usage(self._attempt.sent, route, meter)
            return self._keep_estimated(reason, usage)
        line.desk.estimator.learn(self._attempt.sent, route, usage)
        return self._keep(reason, usage, estimated=False)

    def _settle_at_once(self) -> None:
        """Keep the receipt of a call that we ended ourselves, without waiting for a count."""
        if self._receipt is None:
            self._keep_at_once(Interrupted())

    def _keep_at_once(self, reason: ProxyError) -> None:
        if self._answer.generates:
            usage = crude(self._attempt.sent, self._answer.meter.delivered_text())
            self._keep_estimated(reason, usage)
        else:
            self._keep(reason, self._said, estimated=False)

    @property
    def _said(self) -> Usage | None:
        """What the upstream said was used by this call; what only reads has been paid before."""
        return self._answer.meter.usage if self._line.call.method == "POST" else None

    def _keep_estimated(self, reason: ProxyError | None, usage: Usage) -> Receipt:
        """The receipt by our own count, and by what the upstream may go on generating."""
        self._attempt, usage = settle_abandoned(
            self._line, self._attempt, reason, usage, self._answer.meter
        )
        return self._keep(reason, usage, estimated=True)

    def _keep(self, reason: ProxyError | None, usage: Usage | None, *, estimated: bool) -> Receipt:
        meter, status = self._answer.meter, self._answer.exchange.status
        is_told = (self._answer.is_whole and not meter.broken) or isinstance(reason, HungUp)
        planning, planned = self._line.desk.planning, self._attempt.planned
        end = End(
            outcome=_outcome(reason),
            status=reason.status if reason is not None and is_told else status,
            error=reason.code if reason is not None else "",
            usage=usage,
            estimated=estimated,
            upstream_id=meter.upstream_id,
            terms=terms(self._attempt, meter.service_tier, meter.found),
            miss=planning.settled(
                planned, None if estimated else usage, Heard(meter.upstream_id, meter.said)
            ),
        )
        self._receipt = receipt(self._attempt, end, self._line.timeline, self._line.desk.seal)
        self._line.desk.ledger.keep(self._receipt)
        return self._receipt


def _outcome(reason: ProxyError | None) -> Outcome:
    if reason is None:
        return Outcome.ANSWERED
    return Outcome.HUNG_UP if isinstance(reason, HungUp) else Outcome.BROKEN
