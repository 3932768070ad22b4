"""The life of one call, straight down.

::

    call ─ decide ─┬─ begin, per route until one has begun ────────────────┐   ┌─ finish ─────────┐
                   │ compact → plan → translate → reserve → send ═ commit  │ → │ deliver → settle │
                   └───────────────────────────────────────────────────────┘   └──────────────────┘

Its law:

1. One path: a JSON answer is a stream of one piece.
2. The first content byte is the commit point. Before it another route may be tried; after it,
   never: a failure midway ends the stream with an error event and the part delivered is priced.
   Where a policy says so, another route goes on from the text so far (``unbroken_stream.py``).
3. The exchange is open exactly as long as the answer, also when the caller leaves.
4. Each attempt starts from the caller's own bytes.
5. The receipt is kept before the last bytes of an answer are handed to the caller.
6. Each attempt yields one receipt; exactly one of a call's receipts is final.
"""

import asyncio
import logging
from functools import partial

import msgspec

from proxy.calls.attempts.attempt import Attempt
from proxy.calls.attempts.failed_attempts import (
    pause_before_attempt,
    record_cancelled,
    record_failed,
    record_refusal,
    record_refused,
    record_unsent,
    timeout_or_raise,
)
from proxy.calls.attempts.preparing import compact, convert, plan, reserve, translate
from proxy.calls.attempts.recalling import recall
from proxy.calls.attempts.sending import check_answer, commit, send
from proxy.calls.attempts.steps import AnsweredAttempt
from proxy.calls.deadlines import gateway_interrupted
from proxy.calls.delivery import Delivery
from proxy.calls.drafts.draft_choice import choose_draft
from proxy.calls.drafts.drafting import serve_with_draft
from proxy.calls.enabled_routes import enabled_choices
from proxy.calls.hedging import HedgedAttempts, Opening
from proxy.calls.metering.settlement import AttemptInfo, upstream_words
from proxy.calls.ports import CallContext, CheaperRoute, Dependencies
from proxy.calls.residency import allowed_choices, bind_call, check_residency
from proxy.calls.route_choice import RoutingDecision, requested_routes
from proxy.calls.route_sequence import RouteSequence
from proxy.calls.shared_answers.serving import serve_shared
from proxy.calls.translation.batch_models import BATCHES, with_batch_models
from proxy.calls.unbroken_stream import finish_unbroken, may_break
from proxy.errors import ProxyError, UpstreamError
from proxy.records.call import Call
from proxy.records.compaction_result import REFUSED
from proxy.upstream.port import REQUEST_ID_HEADER

_log = logging.getLogger("thriftgate.upstreams")


async def serve(context: CallContext) -> None:
    """Answer one call: by an answer given before, or from the first of its routes that begins.

    Raises:
        ProxyError: If nothing was sent to the caller; the receipts are kept already.
    """
    context, decision = _decide(context)
    if context.call.endpoint == BATCHES:
        context = await _name_batch_models(context, decision)
    answers, draft = context.deps.answers, None
    is_shared = answers is not None and answers.covers(context.call)
    if context.call.draft or context.deps.drafts:
        context, draft = choose_draft(context, decision, is_shared=is_shared)
    if draft is not None:
        await serve_with_draft(context, draft, begin, partial(_serve_upstream, decision))
    elif answers is not None and is_shared:
        await serve_shared(context, decision, answers, partial(_serve_upstream, decision))
    else:
        await _serve_upstream(decision, context)


async def _serve_upstream(decision: RoutingDecision, context: CallContext) -> None:
    """Answer a call from the first of its routes that begins.

    Raises:
        ProxyError: As ``serve``.
    """
    routes = RouteSequence(context, decision)
    try:
        await _answer(context, routes)
    except ProxyError as error:
        routes.add_skipped_header(error)
        raise


async def _answer(context: CallContext, routes: RouteSequence) -> None:
    """Go from attempt to attempt until one is answered.

    Raises:
        ProxyError: As ``serve``.
    """
    while True:
        attempt, opening = await _open_next(context, routes)
        if isinstance(opening, AnsweredAttempt):
            await _finish(context, routes, attempt, opening)
            _note_accepted_unmodified(context, routes)
            return
        if isinstance(opening, CheaperRoute):
            attempt.close()
            routes.switch_model(opening)
            continue
        failure = opening
        attempt.close(failure)
        _add_request_id(attempt, failure)
        _log.log(
            logging.INFO if failure.was_stale else logging.WARNING,
            "Call %s, upstream %s: %s (%s)",
            context.call.id,
            attempt.choice.route.upstream.name,
            failure.code,
            upstream_words(failure, context.call) or failure.message,
        )
        failure.name_upstream(attempt.choice.route.upstream.name)
        pause = routes.pause_after_failure(attempt, failure)
        await record_failed(attempt, failure, final=pause is None)
        if pause is None:
            raise routes.final_failure(attempt, failure)
        await pause_before_attempt(context, routes.attempt_count, pause)


async def _finish(
    context: CallContext, routes: RouteSequence, attempt: Attempt, opening: AnsweredAttempt
) -> None:
    """Finish the answer; where a policy says so, another route goes on if its upstream dies."""
    if context.deps.stream_continuation and may_break(context):
        await finish_unbroken(routes, attempt, opening, begin)
    else:
        await finish(attempt, opening)


def _add_request_id(attempt: Attempt, failure: UpstreamError) -> None:
    """Have a failure tell the caller the provider's id of the request, where it gave one."""
    if named := attempt.info.upstream_request_id:
        failure.headers = {**failure.headers, REQUEST_ID_HEADER: named}


def _note_accepted_unmodified(context: CallContext, routes: RouteSequence) -> None:
    """Notify planning or compaction that the prompt was refused modified, and taken unmodified."""
    compaction, refused = context.deps.compaction, routes.refused_compaction
    if routes.refused_plan is not None:
        context.deps.planning.note_refusal(routes.refused_plan)
    elif refused is not None and refused.why == REFUSED and compaction is not None:
        compaction.record_refusal(context.call, refused)


def _decide(context: CallContext) -> tuple[CallContext, RoutingDecision]:
    """The routes the call takes, and its context with the call as it is bound for them.

    Raises:
        ProxyError: It is sent nowhere; its receipt is kept.
    """
    try:
        rules = context.deps.residency
        call = bind_call(context.call, rules) if rules else context.call
        decision = _choose_routes(call, context.deps)
    except ProxyError as refusal:
        record_refusal(context.call, refusal, context.deps, context.timeline)
        raise
    if call is not context.call:
        context = msgspec.structs.replace(context, call=call)
    return context, decision


async def _name_batch_models(context: CallContext, decision: RoutingDecision) -> CallContext:
    """The context of a batch, with the upstream's names of its models.

    Raises:
        ProxyError: It is sent nowhere; its receipt is kept.
        CancelledError: The same.
    """
    upstream = decision.choices[0].route.upstream
    try:
        call = await with_batch_models(context.call, context.deps.catalog, upstream)
    except ProxyError as refusal:
        record_refusal(context.call, refusal, context.deps, context.timeline)
        raise
    except asyncio.CancelledError as cancelled:
        raise record_unsent(context, AttemptInfo(call=context.call), cancelled) from None
    return msgspec.structs.replace(context, call=call)


def _choose_routes(call: Call, deps: Dependencies) -> RoutingDecision:
    """The routes that the call takes, all of them where it may be processed.

    Raises:
        ProxyError: It is sent nowhere.
    """
    choices = check_residency(call, requested_routes(call, deps.catalog))
    decision = RoutingDecision(choices=choices)
    if deps.router is not None:
        decision = deps.router.decide(call, choices)
    if deps.small_first is not None:
        decision = deps.small_first.decide(call, decision)
    allowed = decision.choices
    if call.regions is not None and allowed is not choices:
        allowed = allowed_choices(call, allowed) or choices
    allowed = enabled_choices(call, deps.catalog, allowed)
    if allowed is decision.choices:
        return decision
    return msgspec.structs.replace(decision, choices=allowed)


async def begin(attempt: Attempt) -> Opening:
    """Bring an attempt to its commit point; or say why another route may be tried.

    Raises:
        CallerError: If the call cannot be said to this route's upstream, or does not fit.
        Unready: If it is unknown whether it fits.
        CancelledError: If it was cancelled; nothing is left open.
    """
    try:
        started = await convert(attempt)
        compacted = await compact(attempt, started)
        planned = await plan(attempt, compacted)
        translated = await translate(attempt, planned)
        reserved = await reserve(attempt, translated)
        if isinstance(reserved, CheaperRoute):
            return reserved
        accepted = await send(attempt, reserved)
        begun = await recall(attempt, await commit(attempt, accepted))
        return begun if attempt.choice.checks is None else await check_answer(attempt, begun)
    except UpstreamError as failure:
        return failure


async def finish(attempt: Attempt, answered: AnsweredAttempt) -> None:
    """Pass the answer that has begun on to its end, and settle it however it ends.

    Delivery settles before it hands over the last bytes; what is settled here was cut short.
    """
    reader = answered.request.reader
    delivery = Delivery(attempt.context, answered.info, reader, answered.answer)
    try:
        await delivery.deliver()
        if (small_first := attempt.context.deps.small_first) is not None:
            small_first.note_answer(attempt.context.call, answered.answer.meter)
    finally:
        delivery.settle()
        attempt.close()


class _SingleAttempt(msgspec.Struct, frozen=True):
    """The one attempt of a call that is under way, where no other is begun beside it."""

    attempt: Attempt

    async def run(self) -> Opening:
        """Bring it to its commit point."""
        return await begin(self.attempt)


async def _open_next(context: CallContext, routes: RouteSequence) -> tuple[Attempt, Opening]:
    """The next attempt, at its commit point; or why it did not begin.

    Where it has a deadline and other routes are left, several may be under way at once.

    Raises:
        ProxyError: The call ends with it; its receipt is kept.
        CancelledError: The same.
    """
    if context.deps.replicas is not None:
        await routes.order_replicas()
    deadline = routes.decision.deadline
    run: _SingleAttempt | HedgedAttempts
    if deadline is None or routes.is_last:
        run = _SingleAttempt(routes.next_attempt())
    else:
        run = HedgedAttempts(context, routes, deadline, begin)
    try:
        opening = await run.run()
    except asyncio.CancelledError as cancelled:
        return run.attempt, await timeout_or_raise(run.attempt, cancelled)
    except BaseException as error:
        run.attempt.close(error)
        if isinstance(error, ProxyError):
            record_refused(run.attempt, error)
        else:  # We made a mistake: it is billed all the same.
            record_cancelled(run.attempt, gateway_interrupted(), final=True)
        raise
    return run.attempt, opening
