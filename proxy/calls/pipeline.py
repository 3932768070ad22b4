"""The life of one call, straight down.

::

    call ─ decide ─┬─ begin, per route until one has begun ────────────────┐   ┌─ finish ─────────┐
                   │ compact → plan → translate → reserve → send ═ commit  │ → │ deliver → settle │
                   └───────────────────────────────────────────────────────┘   └──────────────────┘

Its law:

1. One path: a JSON answer is a stream of one piece.
2. The first content byte is the commit point. Before it another route may be tried; after it,
   never: a failure midway ends the stream with an error event and the part delivered is priced.
3. The exchange is open exactly as long as the answer, also when the caller leaves.
4. Each attempt starts from the caller's own bytes.
5. The receipt is kept before the last bytes of an answer are handed to the caller.
6. Each attempt yields one receipt; exactly one of a call's receipts is final.
"""

import asyncio
import logging

from proxy.calls.attempt import Attempt
from proxy.calls.deadlines import ClientDisconnected, GatewayInterrupted
from proxy.calls.delivery import Delivery
from proxy.calls.failed_attempts import (
    record_cancelled,
    record_failed,
    record_failure_with_usage,
    record_refused,
)
from proxy.calls.hedging import HedgedAttempts
from proxy.calls.ports import CallContext, CheaperRoute, Dependencies
from proxy.calls.route_choice import RoutingDecision, Untranslatable, requested_routes
from proxy.calls.route_sequence import RouteSequence
from proxy.calls.settlement import AttemptInfo, AttemptOutcome, build_receipt
from proxy.errors import ProxyError, UpstreamError
from proxy.records.call import Call
from proxy.records.receipt import Outcome
from proxy.records.timeline import Timeline

_log = logging.getLogger("thriftgate.upstreams")


async def serve(line: CallContext) -> None:
    """Answer one call from the first of its routes that begins.

    Raises:
        ProxyError: If nothing was sent to the caller; the receipts are kept already.
    """
    course = RouteSequence(line, _decide(line))
    try:
        await _answer(line, course)
    except ProxyError as error:
        course.add_skipped_header(error)
        raise


async def _answer(line: CallContext, course: RouteSequence) -> None:
    """Go from attempt to attempt until one is answered.

    Raises:
        ProxyError: As ``serve``.
    """
    while True:
        opening, failure = await _open_next(line, course)
        if failure is None:
            await finish(opening)
            _note_accepted_unmodified(line, course)
            return
        if isinstance(failure, CheaperRoute):
            opening.close()
            course.switch_model(failure)
            continue
        opening.close(failure)
        opening.add_request_id(failure)
        _log.warning(
            "Call %s, upstream %s: %s (%s)",
            line.call.id,
            opening.choice.route.upstream.name,
            failure.code,
            failure.detail or failure.message,
        )
        pause = course.pause_after_failure(opening, failure)
        await record_failed(opening, failure, final=pause is None)
        if pause is None:
            raise course.final_failure(failure)
        await _pause(line, course.attempt_count, pause)


def record_refusal(call: Call, refusal: ProxyError, deps: Dependencies, timeline: Timeline) -> None:
    """Keep the receipt of a call that is sent nowhere."""
    end = AttemptOutcome(outcome=Outcome.REFUSED, status=refusal.status, error=refusal.code)
    deps.ledger.keep(build_receipt(AttemptInfo(call=call), end, timeline, deps.pseudonymizer))


def _note_accepted_unmodified(line: CallContext, course: RouteSequence) -> None:
    """Tell whoever changed the prompt that it was taken without; the one that went last."""
    folding = line.deps.compaction
    if course.refused_plan is not None:
        line.deps.planning.refused(course.refused_plan)
    elif course.refused_compaction is not None and folding is not None:
        folding.refused(line.call, course.refused_compaction)


def _decide(line: CallContext) -> RoutingDecision:
    """The routes the call takes.

    Raises:
        ProxyError: It is sent nowhere; its receipt is kept.
    """
    steering = line.deps.router
    try:
        choices = requested_routes(line.call, line.deps.catalog)
        if steering is None:
            return RoutingDecision(choices=choices)
        return steering.decide(line.call, choices)
    except ProxyError as refusal:
        record_refusal(line.call, refusal, line.deps, line.timeline)
        raise


async def begin(attempt: Attempt) -> UpstreamError | CheaperRoute | None:
    """Bring an attempt to its commit point: None; or why another route may be tried.

    Raises:
        CallerError: If the call cannot be said to this route's upstream, or does not fit.
        Unready: If nobody can say whether it fits.
        CancelledError: If it was cancelled; nothing is left open.
    """
    await attempt.compact()
    await attempt.plan()
    prepared = await attempt.translate()
    if isinstance(prepared, Untranslatable):
        return prepared
    reserved = await attempt.reserve(prepared)
    if isinstance(reserved, CheaperRoute):
        return reserved
    try:
        answer = await attempt.send(reserved)
        await attempt.commit(answer)
    except UpstreamError as failure:
        return failure
    return None


async def finish(attempt: Attempt) -> None:
    """Pass the answer that has begun on to its end, and settle it however it ends.

    Delivery settles before it hands over the last bytes; what is settled here was cut short.
    """
    answer = attempt.answer
    assert answer is not None  # noqa: S101 - that is what begun means
    delivery = Delivery(attempt.context, attempt.info, attempt.reader, answer)
    try:
        await delivery.deliver()
    finally:
        delivery.settle()
        attempt.close()


async def _open_next(
    line: CallContext, course: RouteSequence
) -> tuple[Attempt, UpstreamError | CheaperRoute | None]:
    """The next attempt, and why it did not begin; None if it did.

    Where it has a deadline and other routes are left, several may be under way at once.

    Raises:
        ProxyError: The call ends with it; its receipt is kept.
        CancelledError: The same.
    """
    deadline = course.decision.deadline
    is_alone = deadline is None or course.is_last
    run = (
        course.next_attempt() if is_alone else HedgedAttempts(line, course, deadline or 0.0, begin)
    )
    try:
        failure = await (begin(run) if isinstance(run, Attempt) else run.run())
    except asyncio.CancelledError as cancelled:
        opening = run if isinstance(run, Attempt) else run.attempt
        return opening, await _timeout_or_raise(line, opening, cancelled)
    except BaseException as error:
        opening = run if isinstance(run, Attempt) else run.attempt
        opening.close(error)
        if isinstance(error, ProxyError):
            record_refused(opening, error)
        else:  # We made a mistake: it is billed all the same.
            record_cancelled(opening, GatewayInterrupted(), final=True)
        raise
    return run if isinstance(run, Attempt) else run.attempt, failure


async def _timeout_or_raise(
    line: CallContext, opening: Attempt, cancelled: asyncio.CancelledError
) -> UpstreamError:
    """That the upstream was late, if the watch cancelled the attempt for that.

    Raises:
        HungUp: The caller left; the receipt is kept.
        CancelledError: We stop; the receipt is kept.
    """
    over = line.watchdog.take_cancel_reason()
    if isinstance(over, UpstreamError):
        return over
    opening.close(over or cancelled)
    if isinstance(over, ClientDisconnected):
        await record_failed(opening, over, final=True)
    else:
        record_cancelled(opening, over or GatewayInterrupted(), final=True)
    raise over or cancelled from None


async def _pause(line: CallContext, number: int, pause: float) -> None:
    """Wait before an attempt; if the call ends meanwhile, the attempt went nowhere."""
    try:
        with line.timeline.waiting:
            await asyncio.sleep(pause)
    except asyncio.CancelledError as cancelled:
        over = line.watchdog.take_cancel_reason()
        attempt = AttemptInfo(call=line.call, number=number)
        record_failure_with_usage(line, attempt, over or GatewayInterrupted(), None, final=True)
        raise over or cancelled from None
