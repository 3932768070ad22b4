"""Delivers an answer: the second half of a call, from the commit point to the receipt."""

import asyncio

import msgspec

from proxy.calls.attempts.abandoned_attempts import settle_abandoned
from proxy.calls.deadlines import AwaitedEvent, ClientDisconnected, gateway_interrupted
from proxy.calls.metering.attempt_receipts import build_receipt
from proxy.calls.metering.settlement import (
    AttemptInfo,
    AttemptOutcome,
    billing_terms,
    estimate_from_length,
    settle_share,
    upstream_words,
)
from proxy.calls.ports import CallContext, Head
from proxy.calls.recalled_answer import RecalledAnswer
from proxy.calls.upstream_answer import UpstreamAnswer, translate_piece
from proxy.errors import ProxyError, UpstreamError
from proxy.prefix.planned import Planned
from proxy.providers.failures import redact_answer_keys, redact_error_keys, redact_keys
from proxy.providers.json_size import MAX_ANSWER, may_exceed
from proxy.providers.port import Reader
from proxy.providers.sse import is_idle
from proxy.providers.stream_endings import (
    error_event,
    malformed_answer,
    midway_failure,
    truncated_stream,
)
from proxy.records.receipt import Outcome, Receipt, answering_model
from proxy.records.timeline import WaitTimer
from slo.usage import Usage

#: Seconds an upstream has to end its answer after the closing event.
_STREAM_END_WAIT_S = 1.0
_IMPOSSIBLE_USAGE_NOTE = "the upstream reported an impossible usage: it was counted here"


class Delivery:
    """One answer on its way to its caller; it settles exactly once, however it ends."""

    __slots__ = ("_answer", "_attempt", "_began", "_context", "_is_final", "_reader", "_receipt")

    def __init__(
        self,
        context: CallContext,
        attempt: AttemptInfo,
        reader: Reader | None,
        answer: UpstreamAnswer | RecalledAnswer,
    ) -> None:
        self._context = context
        self._attempt = attempt
        self._reader = reader
        self._answer = answer
        self._began = context.timeline.now()
        self._is_final = True
        self._receipt: Receipt | None = None

    async def deliver(self) -> None:
        """Pass the answer on to its end; call ``settle`` afterwards, however it ends.

        Raises:
            UpstreamError: If the answer could not be read and nothing was sent of it.
            ClientDisconnected: If the caller left.
        """
        try:
            await (self._deliver_whole() if self._answer.is_whole else self._deliver_stream())
        except asyncio.CancelledError:
            reason = self._context.watchdog.take_cancel_reason()
            if reason is None:
                await self._interrupt()
                raise
            await self._cut_short(reason)
        except UpstreamError as failure:
            await self._cut_short(failure)

    def settle(self) -> None:
        """Keep the receipt where delivery did not get to it, without waiting for a count."""
        if self._receipt is None:
            self._record_at_once(gateway_interrupted())

    async def _deliver_whole(self) -> None:
        body, reason = self._answer.first_piece, None
        if self._answer.meter.is_broken:
            body = redact_answer_keys(body)
            reason = midway_failure() if self._answer.generates else None
        receipt = await self._settle(reason)
        with self._waiting_for_caller():
            await self._context.caller.send_whole(self._head(), body, receipt)

    async def _deliver_stream(self) -> None:
        caller, watch, meter = self._context.caller, self._context.watchdog, self._answer.meter
        stall = self._context.deps.retry_policy.stall_s
        await self._begin()
        heard, piece, last = self._context.timeline.now(), self._answer.first_piece, b""
        while piece:
            is_same = self._reader is None and not meter.is_broken
            out = piece if is_same else self._rewrite(piece)
            # an event log goes on after an error
            is_over = meter.is_finished or (meter.is_broken and not self._answer.is_retrieval)
            if is_over and self._receipt is None:
                out = await self._settle_end(out, midway_failure() if meter.is_broken else None)
            if self._receipt is not None and self._answer.is_read:
                last = out
                break
            if out:
                with self._waiting_for_caller():
                    await caller.send(out)
            now = self._context.timeline.now()
            if not is_idle(piece):
                heard = now
            left = heard + stall - now if self._receipt is None else _STREAM_END_WAIT_S
            watch.set_deadline(AwaitedEvent.NEXT_BYTE, left)
            piece = await self._answer.next()
        if self._receipt is None:
            last = await self._settle_end(last)
        with self._waiting_for_caller():
            await caller.end(last)

    async def _begin(self) -> None:
        """Send the head of a stream."""
        with self._waiting_for_caller():
            await self._context.caller.begin(self._head())

    async def _cut_short(self, reason: ProxyError) -> None:
        """End an answer that cannot go on, telling the caller if it is still there.

        What is no stream of events has no words for it: it stops short of its end, and the broken
        connection tells.
        """
        is_complete = self._receipt is not None
        await self._settle_broken(reason)
        if self._answer.is_whole or isinstance(reason, ClientDisconnected):
            raise reason
        await self._end_with_error(reason, is_complete=is_complete)

    async def _settle_broken(self, reason: ProxyError) -> Receipt:
        """The receipt of an answer that is cut short; final where the call ends meanwhile."""
        try:
            return await self._settle(reason)
        except asyncio.CancelledError as cancelled:
            over = self._context.watchdog.take_cancel_reason()
            self._is_final = True
            self._record_at_once(over or reason)
            raise over or cancelled from None

    async def _interrupt(self) -> None:
        """End an answer because we stop, and tell the caller of a stream."""
        is_complete = self._receipt is not None
        self.settle()
        if not self._answer.is_whole:
            await self._end_with_error(gateway_interrupted(), is_complete=is_complete)

    async def _end_with_error(self, reason: ProxyError, *, is_complete: bool) -> None:
        self._answer.exchange.close()
        if self._answer.is_stream:
            # Its reader may have written the error in the caller's API already.
            error = reason.stream_ending or error_event(self._context.call.endpoint, reason)
            last = b"" if is_complete else error
            with self._waiting_for_caller():
                await self._context.caller.end(last)

    def _waiting_for_caller(self) -> WaitTimer:
        """A block that waits for the caller to take what is sent, but not without end."""
        self._context.watchdog.set_deadline(
            AwaitedEvent.CALLER, self._context.deps.retry_policy.stall_s
        )
        return self._context.timeline.waiting

    def _rewrite(self, piece: bytes) -> bytes:
        """A piece in the caller's words, without the keys that an error may hold."""
        out = piece if self._reader is None else _translate(self._reader, piece)
        if self._answer.meter.is_broken:
            out = redact_error_keys(out) if self._receipt is None else redact_keys(out)
        return out

    async def _settle_end(self, last: bytes, reason: ProxyError | None = None) -> bytes:
        """The account, the last piece and its translated end; only a good end is settled as one.

        Raises:
            UpstreamError: If there is no good end; the piece is sent before.
        """
        try:
            last += self._reader.end() if self._reader is not None else b""
        except UpstreamError:
            if last:
                with self._waiting_for_caller():
                    await self._context.caller.send(last)
            raise
        answer = self._answer
        is_cut = answer.generates and not answer.meter.is_complete
        if reason is None and answer.is_stream and is_cut:
            raise truncated_stream()
        receipt = await self._settle(reason)
        return (self._context.caller.closing_event(receipt) if answer.is_stream else b"") + last

    def _head(self) -> Head:
        attempt, answer = self._attempt, self._answer
        model = attempt.call.model
        if model and attempt.route is not None:
            model = answering_model(attempt.route.name, model)
        headers = answer.headers
        if attempt.headers:
            headers = {**headers, **attempt.headers}
        return Head(answer.exchange.status, headers, model, attempt.notes)

    async def _settle(self, reason: ProxyError | None = None) -> Receipt:
        """The receipt, kept now unless it is already; the reason is why the answer is cut short."""
        if self._receipt is not None:
            return self._receipt
        context, meter, route = self._context, self._answer.meter, self._attempt.route
        context.watchdog.clear_deadline()
        if isinstance(planned := self._attempt.planned, Planned):
            await context.deps.planning.wait_until_stored(planned)
        usage = self._reported_usage
        if not self._answer.generates or route is None:
            return self._record(reason, usage, estimated=False)
        if (
            usage is None
            or meter.has_implausible_usage
            or (reason is not None and not meter.has_final_usage and not meter.is_finished)
        ):
            usage = await context.deps.estimator.usage(self._attempt.sent_call, route, meter)
            return self._record_estimated(reason, usage)
        if not self._has_recalled and self._attempt.continued is None:
            context.deps.estimator.learn(self._attempt.sent_call, route, usage)
        return self._record(reason, usage, estimated=False)

    def _record_at_once(self, reason: ProxyError) -> None:
        if self._answer.generates:
            usage = estimate_from_length(
                self._attempt.sent_call,
                self._answer.meter.delivered_text(),
                self._attempt.route,
            )
            self._record_estimated(reason, usage)
        else:
            self._record(reason, self._reported_usage, estimated=False)

    @property
    def _has_recalled(self) -> bool:
        return self._attempt.recall is not None and self._attempt.recall.rounds > 0

    def _first_usage(self, usage: Usage | None, estimated: bool) -> Usage | None:  # noqa: FBT001
        """The usage of the planned prompt; None where it was not counted by its provider."""
        if self._attempt.recall is not None and self._has_recalled:
            return self._attempt.recall.first
        return None if estimated else usage

    @property
    def _reported_usage(self) -> Usage | None:
        """The usage that the upstream reported; None for calls that only read."""
        return self._answer.meter.usage if self._context.call.method == "POST" else None

    def _record_estimated(self, reason: ProxyError | None, usage: Usage) -> Receipt:
        """The receipt by our own count, and by what the upstream may go on generating."""
        if self._answer.meter.has_impossible_usage:
            notes = (*self._attempt.notes, _IMPOSSIBLE_USAGE_NOTE)
            self._attempt = msgspec.structs.replace(self._attempt, notes=notes)
        self._attempt, usage = settle_abandoned(
            self._context, self._attempt, reason, usage, self._answer.meter
        )
        return self._record(reason, usage, estimated=True)

    def _record(
        self, reason: ProxyError | None, usage: Usage | None, *, estimated: bool
    ) -> Receipt:
        meter, status = self._answer.meter, self._answer.exchange.status
        is_told = (self._answer.is_whole and not meter.is_broken) or isinstance(
            reason, ClientDisconnected
        )
        planning, planned = self._context.deps.planning, self._attempt.planned
        timings = meter.timings if meter.is_complete else None
        end = AttemptOutcome(
            outcome=_outcome(reason),
            status=reason.status if reason is not None and is_told else status,
            error=reason.code if reason is not None else "",
            usage=usage,
            estimated=estimated,
            upstream_id=meter.upstream_id,
            terms=billing_terms(self._attempt, meter.service_tier, meter.usage_object),
            miss=planning.settle(planned, self._first_usage(usage, estimated), meter.miss_reason),
            timings=timings,
            final=self._is_final,
            share=settle_share(
                self._attempt, self._context.timeline, None if estimated else usage, timings
            ),
            upstream_error=upstream_words(reason, self._attempt.call),
        )
        self._receipt = build_receipt(
            self._attempt, end, self._context.timeline, self._context.deps.pseudonymizer
        )
        self._context.deps.ledger.keep(self._receipt)
        if self._attempt.route is not None and self._answer.generates:
            registry, now = self._context.deps.route_health, self._context.timeline.now()
            registry.record_answer_end(self._attempt.route, reason, self._began, now)
        return self._receipt


def _translate(reader: Reader, piece: bytes) -> bytes:
    if may_exceed(piece, MAX_ANSWER):
        raise malformed_answer()
    return translate_piece(reader, piece)


def _outcome(reason: ProxyError | None) -> Outcome:
    if reason is None:
        return Outcome.ANSWERED
    return Outcome.HUNG_UP if isinstance(reason, ClientDisconnected) else Outcome.BROKEN
