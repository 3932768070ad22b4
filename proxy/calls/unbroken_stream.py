"""Continues a stream whose upstream dies midway, on the next route that can go on from its text.

::

    part ─ broken: its receipt, not final ─┬─ next route begins ─▶ part …
                                           └─ none does ─▶ error event

Each part is an attempt of its own: it reserves its budget, starts from the caller's own bytes with
the text so far as the assistant's last message, and leaves a receipt. Of the caller's stream the
first part gives the head, and the last the end.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable

from proxy.calls.attempts.attempt import AnswerBeginning, Attempt
from proxy.calls.attempts.failed_attempts import (
    pause_before_attempt,
    record_cancelled,
    record_failed,
    record_refused,
    record_unsent,
    timeout_or_raise,
)
from proxy.calls.attempts.steps import AnsweredAttempt
from proxy.calls.deadlines import gateway_interrupted
from proxy.calls.eligibility.continuable import may_be_continued
from proxy.calls.hedging import Opening
from proxy.calls.metering.settlement import AttemptInfo
from proxy.calls.ports import CallContext
from proxy.calls.route_sequence import RouteSequence
from proxy.calls.unbroken_delivery import (
    BrokenStream,
    DeliveredStream,
    StreamPart,
    UnbrokenDelivery,
)
from proxy.errors import ProxyError, UpstreamError
from proxy.providers.continuations.continuation_requests import CONTINUED_ENDPOINTS
from proxy.providers.continuations.seam import Seam
from slo.policies.stream_continuation import continuations_allowed

_log = logging.getLogger("thriftgate.upstreams")
Begin = Callable[[Attempt], Awaitable[Opening]]


def may_break(context: CallContext) -> bool:
    """True if the answer is a stream that is continued where it breaks off, by the policies."""
    call = context.call
    if not call.is_streaming or call.endpoint not in CONTINUED_ENDPOINTS:
        return False
    return _max_continuations(context) > 0


async def finish_unbroken(
    routes: RouteSequence, attempt: Attempt, answered: AnsweredAttempt, begin: Begin
) -> None:
    """Pass the stream that has begun on to its end, from as many routes as it takes.

    Args:
        begin: Brings an attempt to its commit point.
    """
    stream = _UnbrokenStream(attempt.context, routes, begin)
    part: tuple[Attempt, AnsweredAttempt] | None = (attempt, answered)
    while part is not None:
        part = await stream.deliver(*part)


class _UnbrokenStream:
    """One stream, part by part."""

    def __init__(self, context: CallContext, routes: RouteSequence, begin: Begin) -> None:
        self._context = context
        self._routes = routes
        self._begin = begin
        self._delivered = DeliveredStream()
        self._seam: Seam | None = None
        self._left = _max_continuations(context)

    async def deliver(
        self, attempt: Attempt, answered: AnsweredAttempt
    ) -> tuple[Attempt, AnsweredAttempt] | None:
        """Deliver a part; returns the next one, which has begun, or None at the stream's end."""

        def can_continue(failure: UpstreamError) -> bool:
            return self._can_continue(attempt, failure)

        delivery = UnbrokenDelivery(
            attempt.context,
            answered.info,
            answered.request.reader,
            answered.answer,
            StreamPart(self._delivered, self._seam, can_continue),
        )
        try:
            await delivery.deliver()
        finally:
            delivery.settle()
            attempt.close()
        broken = delivery.broken
        if broken is None:
            self._note_answer(answered)
            return None
        self._left -= 1
        try:
            following = await self._open_next(attempt, broken)
        except asyncio.CancelledError:
            await delivery.end_with_failure(gateway_interrupted())
            raise
        if following is None:
            await delivery.end_with_failure(broken.failure)
        return following

    def _note_answer(self, answered: AnsweredAttempt) -> None:
        """Have an answer of one part compared; the last of several has only the rest of it."""
        small_first = self._context.deps.small_first
        if small_first is not None and self._seam is None:
            small_first.note_answer(self._context.call, answered.answer.meter)

    def _can_continue(self, attempt: Attempt, failure: UpstreamError) -> bool:
        """True if a route is left that may go on where this attempt broke off."""
        if self._left <= 0 or not may_be_continued(self._context.call):
            return False
        return self._routes.plan_continuations(attempt.choice, failure)

    async def _open_next(
        self, attempt: Attempt, broken: BrokenStream
    ) -> tuple[Attempt, AnsweredAttempt] | None:
        """The next part, at its first content; None where no route goes on.

        Raises:
            ClientDisconnected: The caller left; the receipt is kept.
            CancelledError: We stop; the receipt is kept.
        """
        beginning = _beginning(attempt, broken)
        if self._context.deps.replicas is not None:
            await self._order_replicas()
        while True:
            following = self._routes.next_continuation(beginning)
            opening = await self._open(following)
            if isinstance(opening, AnsweredAttempt):
                echoes = following.choice.route.continues == "prefix_echoed"
                self._seam = broken.answer.seam(echoes=echoes)
                return following, opening
            pause = await self._record_failed(following, opening)
            if pause is None:
                return None
            await pause_before_attempt(self._context, self._routes.attempt_count, pause)

    async def _order_replicas(self) -> None:
        """Put the best replica first; if the call ends meanwhile, the next part went nowhere."""
        try:
            await self._routes.order_replicas()
        except asyncio.CancelledError as cancelled:
            unsent = AttemptInfo(call=self._context.call, number=self._routes.attempt_count)
            raise record_unsent(self._context, unsent, cancelled) from None

    async def _open(self, attempt: Attempt) -> AnsweredAttempt | ProxyError:
        """The attempt, at its first content; or why it did not get there."""
        try:
            opening = await self._begin(attempt)
        except asyncio.CancelledError as cancelled:
            opening = await timeout_or_raise(attempt, cancelled)
        except ProxyError as refusal:
            attempt.close(refusal)
            return refusal
        except BaseException as error:  # We made a mistake: it is billed all the same.
            attempt.close(error)
            record_cancelled(attempt, gateway_interrupted(), final=True)
            raise
        if isinstance(opening, AnsweredAttempt):
            return opening
        failure = opening if isinstance(opening, UpstreamError) else _expensive_route()
        attempt.close(failure)
        return failure

    async def _record_failed(self, attempt: Attempt, failure: ProxyError) -> float | None:
        """Keep the receipt of an attempt that did not go on; seconds before the next one."""
        call_id, name = attempt.info.call.id, attempt.choice.route.upstream.name
        _log.warning("Call %s, upstream %s did not go on: %s", call_id, name, failure.code)
        pause = self._routes.pause_before_continuation(failure)
        if isinstance(failure, UpstreamError):
            await record_failed(attempt, failure, final=pause is None)
        else:
            record_refused(attempt, failure, final=pause is None)
        return pause


def _max_continuations(context: CallContext) -> int:
    """Times that the call's stream may be continued."""
    call = context.call
    rules = context.deps.stream_continuation
    return continuations_allowed(rules, call.key.team_name, call.feature)


def _beginning(attempt: Attempt, broken: BrokenStream) -> AnswerBeginning:
    """The beginning of the answer, with the note for the receipt of what goes on."""
    text, route = broken.answer.text, attempt.choice.route
    note = f"continues {route.name} after {len(text)} characters: {broken.failure.code}"
    return AnswerBeginning(text, note)


def _expensive_route() -> UpstreamError:
    """The failure of a route on which the call would be too expensive."""
    return UpstreamError(
        "The answer was not continued.", status=502, code="not_continuable", retryable=False
    )
