"""Delivers an answer that was given before, or that an equal call is getting, to one more caller.

Each call has a receipt of its own, kept before its last bytes leave. It cost nothing; what the
answer cost the first time is what this call saved.
"""

import asyncio
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from typing import Final

import msgspec

from proxy.calls.attempts.failed_attempts import record_refusal
from proxy.calls.deadlines import AwaitedEvent, ClientDisconnected, gateway_interrupted
from proxy.calls.metering.attempt_receipts import build_receipt
from proxy.calls.metering.settlement import AttemptInfo, AttemptOutcome
from proxy.calls.ports import CallContext, Caller, Head
from proxy.calls.route_choice import RouteChoice
from proxy.calls.shared_answers.flight import FlightReader
from proxy.errors import ProxyError
from proxy.fast_path.answer_cache.cached_answer import CachedAnswer
from proxy.providers.stream_endings import error_event, midway_failure
from proxy.records.receipt import Outcome, Receipt, ServedBy

#: Header by which a caller learns the cache's part in its call.
CACHE_HEADER: Final = "x-thriftgate-cache"
_MEDIA: Final = "content-type"


async def deliver_recorded(context: CallContext, answer: CachedAnswer, choice: RouteChoice) -> None:
    """Give a caller an answer that was given before.

    Raises:
        ProxyError: The call's rate is limited; nothing was sent.
        ClientDisconnected: The caller left.
    """
    age_s = max(context.call.arrived - answer.started, 0.0)
    note = f"answered from the cache: the answer to {answer.call_id}, {age_s:.0f} s old"
    settlement = Settlement(context, note)
    try:
        limits = await _count_request(context, choice)
    except asyncio.CancelledError as cancelled:
        raise _cut_short(context, settlement, cancelled) from None
    context.timeline.mark_first_content()
    receipt = settlement.settle(Outcome.ANSWERED, answer.status, saved=answer.cost_nanos)
    cache_header = f"hit; age={age_s:.0f}; key={answer.key}"
    headers = {_MEDIA: answer.media, CACHE_HEADER: cache_header, **limits}
    head = Head(answer.status, headers, answer.model, answer.notes)
    caller, body, position = context.caller, answer.body, answer.closing_at
    context.watchdog.set_deadline(AwaitedEvent.CALLER, context.deps.retry_policy.stall_s)
    with context.timeline.waiting:
        if answer.is_whole:
            await caller.send_whole(head, body, receipt)
            return
        await caller.begin(head)
        if account := caller.closing_event(receipt):
            body = body[:position] + account + body[position:]
        await caller.end(body)


class Settlement:
    """The one receipt of a call that another call's answer answers."""

    def __init__(self, context: CallContext, note: str) -> None:
        self._context = context
        self._note = note
        self.receipt: Receipt | None = None

    def settle(
        self, outcome: Outcome, status: int, error: str = "", saved: int | None = None
    ) -> Receipt:
        """Keep the receipt, once.

        Args:
            saved: Cost of the answer when it was given first; None where that is unknown.
        """
        if self.receipt is None:
            context = self._context
            receipt = build_receipt(
                AttemptInfo(call=context.call, notes=(*context.call.notes, self._note)),
                AttemptOutcome(outcome=outcome, status=status, error=error),
                context.timeline,
                context.deps.pseudonymizer,
            )
            self.receipt = msgspec.structs.replace(
                receipt,
                list_nanos=0,
                cost_nanos=0,
                served_by=ServedBy.CACHE,
                fast_path_nanos=saved,
            )
            context.deps.ledger.keep(self.receipt)
        return self.receipt


class FlightDelivery:
    """Hands an answer under way to one caller, at the caller's own pace.

    Args:
        settle: Keeps the call's receipt, where it is not kept yet; None for the first call, whose
            receipt the pipeline keeps.
        waiting: A block in which the call waits.
        stall_s: Seconds that the caller has to take what is sent.
    """

    def __init__(
        self,
        reader: FlightReader,
        caller: Caller,
        settle: Callable[[], Receipt | None],
        waiting: AbstractContextManager[object],
        stall_s: float,
    ) -> None:
        self._reader = reader
        self._caller = caller
        self._settle = settle
        self._waiting = waiting
        self._stall_s = stall_s

    async def deliver(self, head: Head, broken_end: bytes) -> None:
        """Hand it over to its end.

        Args:
            broken_end: Event that ends a stream which breaks off without one.

        Raises:
            TimeoutError: The caller takes nothing.
        """
        flight, caller = self._reader.flight, self._caller
        if flight.whole is not None:
            receipt = self._settle()
            if receipt is not None:
                with self._waiting:
                    async with asyncio.timeout(self._stall_s):
                        await caller.send_whole(head, flight.whole, receipt)
            return
        with self._waiting:
            async with asyncio.timeout(self._stall_s):
                await caller.begin(head)
        is_last = False
        while not is_last:
            with self._waiting:
                run = await self._reader.next_run()
            out, is_last = run.before, run.is_last
            if run.after is not None and (receipt := self._settle()) is not None:
                out += caller.closing_event(receipt) + run.after
            if is_last:
                self._settle()
                out += broken_end if flight.has_failed else b""
            with self._waiting:
                async with asyncio.timeout(self._stall_s):
                    await (caller.end(out) if is_last else caller.send(out))


async def follow(context: CallContext, reader: FlightReader, choice: RouteChoice) -> bool:
    """Give a caller the answer that an equal call is getting; False if that call got none.

    Raises:
        ProxyError: The call's rate is limited; nothing was sent.
        ClientDisconnected: The caller left.
        CancelledError: We stop.
    """
    flight, timeline = reader.flight, context.timeline
    settlement = Settlement(context, "shared the answer to an equal call under way")

    def settle() -> Receipt:
        first = flight.receipt
        if first is None:
            status, failure = 200, midway_failure()
            return settlement.settle(Outcome.BROKEN, status, failure.code)
        return settlement.settle(first.outcome, first.status, first.error, first.cost_nanos)

    context.watchdog.clear_deadline()
    try:
        with timeline.waiting:
            first_head = await reader.head()
        if first_head is None:
            return False
        limits = await _count_request(context, choice)
        timeline.mark_first_content()
        stall_s = context.deps.retry_policy.stall_s
        delivery = FlightDelivery(reader, context.caller, settle, timeline.waiting, stall_s)
        broken_end = error_event(context.call.endpoint, midway_failure())
        await delivery.deliver(_shared_head(first_head, flight.key, limits), broken_end)
    except TimeoutError:
        settlement.settle(Outcome.HUNG_UP, ClientDisconnected().status, ClientDisconnected().code)
        raise ClientDisconnected from None
    except asyncio.CancelledError as cancelled:
        raise _cut_short(context, settlement, cancelled) from None
    finally:
        reader.leave()
    return True


def _cut_short(
    context: CallContext, settlement: Settlement, cancelled: asyncio.CancelledError
) -> BaseException:
    """Keep the receipt of a call that was cancelled; the error to raise."""
    reason = context.watchdog.take_cancel_reason()
    failure = reason or gateway_interrupted()
    is_gone = isinstance(failure, ClientDisconnected)
    outcome = Outcome.HUNG_UP if is_gone else Outcome.BROKEN
    settlement.settle(outcome, failure.status, failure.code)
    return reason or cancelled


def _shared_head(first: Head, key: str, limits: Mapping[str, str]) -> Head:
    """The head of an answer that another call is getting, without that call's limits and ids."""
    headers = {CACHE_HEADER: f"hit; age=0; key={key}", **limits}
    return Head(first.status, media_header(first.headers) | headers, first.model, first.notes)


def media_header(headers: Mapping[str, str]) -> dict[str, str]:
    """The one header of an upstream's that is about the answer and not about the call."""
    media = (text for name, text in headers.items() if name.lower() == _MEDIA)
    return {_MEDIA: next(media, "")}


async def _count_request(context: CallContext, choice: RouteChoice) -> Mapping[str, str]:
    """Count a call that costs nothing in the budgets of requests; returns headers for it.

    Raises:
        ProxyError: It does not fit; its receipt is kept.
    """
    limits = context.deps.limits
    if limits is None:
        return {}
    try:
        return await limits.admit_free(AttemptInfo(call=context.call, route=choice.route))
    except ProxyError as refusal:
        record_refusal(context.call, refusal, context.deps, context.timeline)
        raise
