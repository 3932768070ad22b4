"""Has a small model draft while the model asked for answers, in two attempts of one call.

::

    answer ─ begin ──────────────────── first content ─ deliver → settle → receipt, final
    draft  ─ begin ─ text ─ text ─ … ──┘ ended here: settle → receipt, not final

The draft is an attempt of its own, with its reservation and its receipt. It ends for good with the
answer's first content, or with the call; its upstream's connection is closed then, and what ran is
billed. However it fails, the answer goes on as without it.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final

import msgspec

from proxy.calls.attempts.attempt import Attempt, AttemptOptions
from proxy.calls.attempts.failed_attempts import (
    record_cancelled,
    record_refused,
    record_superseded,
)
from proxy.calls.attempts.steps import AnsweredAttempt
from proxy.calls.deadlines import ClientDisconnected, NoWatchdog, gateway_interrupted
from proxy.calls.delivery import Delivery
from proxy.calls.drafts.drafted_stream import DraftCaller, DraftedStream
from proxy.calls.hedging import Begin, Opening
from proxy.calls.metering.settlement import AttemptInfo
from proxy.calls.ports import CallContext
from proxy.calls.recalled_answer import RecalledAnswer
from proxy.calls.route_choice import RouteChoice
from proxy.calls.upstream_answer import UpstreamAnswer
from proxy.errors import ProxyError, UpstreamError
from proxy.providers.port import Reader
from proxy.records.receipt import DRAFT_ENDED, Receipt
from proxy.records.timeline import Timeline
from slo.usage import Usage

_log = logging.getLogger("thriftgate.upstreams")

#: The attempt's number on a draft's receipt; no call has as many other attempts.
DRAFT_NUMBER: Final = 1000
#: Header by which an upstream knows a call that it got before; the draft is another one.
_IDEMPOTENCY_KEY: Final = "idempotency-key"


class _DraftEnded(ClientDisconnected):
    """A draft was ended because the answer began."""

    def __init__(self) -> None:
        super().__init__()
        self.code = DRAFT_ENDED
        self.message = "The answer began, so the draft was ended."


async def serve_with_draft(
    context: CallContext,
    choice: RouteChoice,
    begin: Begin,
    serve_upstream: Callable[[CallContext], Awaitable[None]],
) -> None:
    """Answer a call while a draft runs on another route.

    Raises:
        ProxyError: As ``serve_upstream``, if nothing was sent to the caller.
    """
    stream = DraftedStream(context.caller, context.call, choice.model)
    draft = _Draft(context, choice, stream, begin)
    reason: ProxyError = _DraftEnded()
    try:
        await serve_upstream(msgspec.structs.replace(context, caller=stream))
    except ClientDisconnected as left:
        reason = left
        raise
    except ProxyError as error:
        if not await stream.end_with_error(error):
            raise
    except asyncio.CancelledError:
        reason = gateway_interrupted()
        await stream.end_with_error(reason)
        raise
    finally:
        await asyncio.wait({draft.end(reason)})


class _DraftWatchdog(NoWatchdog):
    """Remembers why a draft was cancelled.

    Attributes:
        reason: None as long as it was not.
    """

    def __init__(self) -> None:
        self.reason: ProxyError | None = None

    def take_cancel_reason(self) -> ProxyError | None:
        """Return why the draft was cancelled, and let it go on to its receipt."""
        task = asyncio.current_task()
        if self.reason is None or task is None or task.uncancel() > 0:
            return None
        return self.reason


class _Draft:
    """The draft of one call, under way from the start."""

    def __init__(
        self, context: CallContext, choice: RouteChoice, stream: DraftedStream, begin: Begin
    ) -> None:
        self._begin = begin
        self._watchdog = _DraftWatchdog()
        timeline = Timeline(context.timeline.now)
        timeline.started = context.timeline.started
        timeline.waiting.seconds = context.timeline.waited_s
        call = context.call
        headers = {name: text for name, text in call.headers.items() if name != _IDEMPOTENCY_KEY}
        own = msgspec.structs.replace(
            context,
            call=msgspec.structs.replace(call, headers=headers),
            caller=DraftCaller(stream, call.endpoint),
            watchdog=self._watchdog,
            timeline=timeline,
        )
        self._attempt = Attempt(own, choice, DRAFT_NUMBER, AttemptOptions(may_switch_model=False))
        self._task = context.deps.tasks.start(self._run)
        stream.follow(lambda: self.end(_DraftEnded()))

    def end(self, reason: ProxyError) -> asyncio.Task[None]:
        """End the draft for good; the task that does so, which keeps its receipt."""
        if self._watchdog.reason is None and not self._task.done():
            self._watchdog.reason = reason
            self._task.cancel()
        return self._task

    async def _run(self) -> None:
        """Draft until the end; whatever goes wrong is told by the receipt alone."""
        try:
            await self._order_replicas()
            opening = await self._begin(self._attempt)
        except asyncio.CancelledError as cancelled:
            self._attempt.close(cancelled)
            reason = self._watchdog.take_cancel_reason()
            if reason is None:
                record_cancelled(self._attempt, gateway_interrupted(), final=False)
                raise
            await self._record_failed(reason)
        except ProxyError as refusal:
            self._attempt.close(refusal)
            record_refused(self._attempt, refusal, final=False)
        except BaseException as error:  # We made a mistake: it is billed all the same, and logged.
            self._attempt.close(error)
            record_cancelled(self._attempt, gateway_interrupted(), final=False)
            raise
        else:
            await self._finish(opening)

    async def _order_replicas(self) -> None:
        """Take the best replica, where the route leads to an engine."""
        attempt, replicas = self._attempt, self._attempt.context.deps.replicas
        if replicas is None or not attempt.choice.route.upstream.engine:
            return
        order = await replicas.order(attempt.context.call, (attempt.choice,))
        if order.ready:
            options = attempt.options
            self._attempt = Attempt(attempt.context, order.ready[0], DRAFT_NUMBER, options)

    async def _finish(self, opening: Opening) -> None:
        """Show the draft that has begun; or keep the receipt of one that did not."""
        attempt = self._attempt
        if not isinstance(opening, AnsweredAttempt):
            failure = opening if isinstance(opening, UpstreamError) else None
            attempt.close(failure)
            if failure is not None:
                _log.info("Call %s has no draft: %s", attempt.info.call.id, failure.code)
                await self._record_failed(failure)
            return
        delivery = _DraftDelivery(
            attempt.context, opening.info, opening.request.reader, opening.answer
        )
        try:
            await delivery.deliver()
        finally:
            delivery.settle()
            attempt.close()

    async def _record_failed(self, failure: ProxyError) -> None:
        """Keep the receipt of a draft without text; it is kept also where it is ended meanwhile."""
        try:
            await record_superseded(self._attempt, failure)
        except asyncio.CancelledError:
            if self._watchdog.take_cancel_reason() is None:
                raise


class _DraftDelivery(Delivery):
    """A draft on its way to its caller, whose receipt is never the call's last."""

    __slots__ = ()

    def __init__(
        self,
        context: CallContext,
        attempt: AttemptInfo,
        reader: Reader | None,
        answer: UpstreamAnswer | RecalledAnswer,
    ) -> None:
        super().__init__(context, attempt, reader, answer)
        self._is_final = False

    async def _cut_short(self, reason: ProxyError) -> None:
        """End the draft at once, and count what ran."""
        self._answer.exchange.close()
        await self._settle(reason)

    async def _interrupt(self) -> None:
        self.settle()

    def _record(
        self, reason: ProxyError | None, usage: Usage | None, *, estimated: bool
    ) -> Receipt:
        receipt = super()._record(reason, usage, estimated=estimated)
        self._context.caller.note_attempt(receipt)
        return receipt
