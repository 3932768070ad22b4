"""The steps of an attempt at its upstream: send ══ commit point, check.

A small model's whole answer is in memory before the caller has anything of it. One that fails a
check is billed and not given: the next route is tried, as after a failure. Streams are given as
they come.
"""

import asyncio
from typing import Final

import msgspec

from proxy.calls.attempts.abandoned_attempts import note_sent
from proxy.calls.attempts.answer_webhook import refusal_of_webhook
from proxy.calls.attempts.attempt import Attempt
from proxy.calls.attempts.steps import (
    AcceptedAttempt,
    AnsweredAttempt,
    ReservedAttempt,
    SentAttempt,
)
from proxy.calls.deadlines import AwaitedEvent
from proxy.calls.eligibility.eligibility import CHAT
from proxy.calls.eligibility.retry_policy import BILLED_ENDPOINTS
from proxy.calls.metering.plausible_usage import usage_reader
from proxy.calls.metering.settlement import AttemptInfo
from proxy.calls.upstream_answer import ExpectedAnswer, UpstreamAnswer, read_failure
from proxy.errors import UpstreamError
from proxy.fast_path.small_first.answer_checks import CheckRules, failed_check
from proxy.providers.kinds import WIRES
from proxy.providers.port import PreparedRequest
from proxy.upstream.port import UpstreamExchange, request_id, was_never_sent

#: Bytes of request and answer from which on checking takes a millisecond or more.
_MIN_THREADED_CHECK_BYTES: Final = 16 * 1024
#: The route did its part: its breaker counts no failure, and another model may do better.
_REJECTED_STATUS: Final = 422


async def send(attempt: Attempt, step: ReservedAttempt) -> AcceptedAttempt:
    """Send the request; it is accepted once the head of its answer has come.

    Raises:
        UpstreamError: If there is none, or it is an error.
        CallerError: If the call must not go to its replica any more; nothing was sent.
    """
    context, upstream, request = attempt.context, attempt.choice.route.upstream, step.request
    if context.deps.tracing is not None:
        request = context.deps.tracing.propagate(step.info, request)
    sent = await _take_place(attempt, step, request)
    try:
        with context.timeline.waiting:
            exchange = await context.deps.transport.open(upstream, request)
    except UpstreamError as error:
        attempt.reach(msgspec.structs.replace(sent, was_accepted=error.is_billed))
        raise
    except asyncio.CancelledError as error:
        attempt.reach(msgspec.structs.replace(sent, was_accepted=not was_never_sent(error)))
        raise
    info = sent.info
    if named := request_id(exchange.headers):
        info = msgspec.structs.replace(info, upstream_request_id=named)
    is_good = exchange.status < 300
    sent = attempt.reach(msgspec.structs.replace(sent, info=info, was_accepted=is_good))
    if not is_good:
        raise await read_failure(exchange, WIRES[upstream.kind], context.timeline)
    return attempt.reach(
        AcceptedAttempt(
            **msgspec.structs.asdict(sent), answer=upstream_answer(attempt, exchange, info)
        )
    )


async def commit(attempt: Attempt, step: AcceptedAttempt) -> AnsweredAttempt:
    """Read the answer to its first content: from here on, no other route is tried.

    Raises:
        UpstreamError: If it did not get there; the answer is closed.
    """
    answer = step.answer
    try:
        await answer.commit(step.request.reader)
    except BaseException as error:
        if isinstance(error, UpstreamError):
            meter = answer.meter
            is_billed = not meter.is_broken or meter.usage is not None
            attempt.reach(msgspec.structs.replace(step, was_accepted=is_billed, failed_meter=meter))
        answer.exchange.close()
        raise
    context, route = attempt.context, attempt.choice.route
    health, now = context.deps.route_health, context.timeline.now()
    ttft = now - step.sent_at
    if context.call.is_streaming:
        health.health_of(route).ttft.record(ttft, now)
    health.record_outcome(route, None, step.sent_at, now)
    if attempt.choice.replica is not None:
        attempt.choice.replica.begin_answer()
    context.deps.planning.note_answer_started(step.plan)
    return attempt.reach(AnsweredAttempt(**msgspec.structs.asdict(step), ttft=ttft))


async def _take_place(
    attempt: Attempt, step: ReservedAttempt, request: PreparedRequest
) -> SentAttempt:
    """Wait for a place at the route and take it; the request is as good as sent then.

    Raises:
        UpstreamError: If the route is full.
        CallerError: If the call must not go to its replica any more.
    """
    context, route, replica = attempt.context, attempt.choice.route, attempt.choice.replica
    health, now = context.deps.route_health.health_of(route), context.timeline.now()
    if not health.try_acquire(now):
        await health.acquire(now)
    now = context.timeline.now()
    sent = attempt.reach(
        SentAttempt(
            info=step.info, plan=step.plan, request=request, sent_at=now, was_accepted=False
        )
    )
    if replica is not None:
        replica.send()
    is_paid = context.call.method == "POST"
    use = context.deps.replica_costs.begin(route.upstream, now) if is_paid else None
    info = msgspec.structs.replace(step.info, sent_at=now, replica_use=use)
    context.watchdog.set_deadline(AwaitedEvent.FIRST_BYTE, context.deps.retry_policy.first_byte_s)
    sent = attempt.reach(msgspec.structs.replace(sent, info=info, was_accepted=True))
    note_sent(context, info)
    return sent


def upstream_answer(
    attempt: Attempt, exchange: UpstreamExchange, info: AttemptInfo
) -> UpstreamAnswer:
    """The answer whose head came, in the form that the call asks for."""
    call, route = attempt.context.call, attempt.choice.route
    wire = WIRES[route.upstream.kind]
    return UpstreamAnswer(
        exchange,
        wire,
        attempt.context.timeline,
        generates=call.method == "POST" and call.endpoint in BILLED_ENDPOINTS,
        is_retrieval=call.method == "GET",
        expected=ExpectedAnswer(
            call.is_streaming,
            has_text=call.endpoint != "embeddings",
            read_usage=usage_reader(wire, info.sent_call, route),
        ),
    )


async def check_answer(attempt: Attempt, step: AnsweredAttempt) -> AnsweredAttempt:
    """Check a small model's whole answer where its choice asks for that.

    The team's own service is asked about answers of every API; other checks read those of chat.

    Raises:
        UpstreamError: If it fails; the answer is closed with the attempt.
    """
    rules, call = attempt.choice.checks, attempt.context.call
    if rules is None or not step.answer.is_whole:
        return step
    context, answer, failure = attempt.context, step.answer.first_piece, ""
    # Whatever ends it from here on, its whole answer is billed.
    attempt.reach(msgspec.structs.replace(step, failed_meter=step.answer.meter))
    if call.endpoint == CHAT:
        failure = await _failed_check(rules, call.body, answer)
    if not failure and rules.webhook is not None:
        transport = context.deps.transport
        with context.timeline.waiting:
            failure = await refusal_of_webhook(transport, rules.webhook, call.body, answer)
    if not failure:
        return attempt.reach(step)
    context.timeline.ttft = None
    raise UpstreamError(
        f"The small model's answer failed a check. {failure}",
        status=_REJECTED_STATUS,
        code="small_answer_rejected",
        retryable=False,
    )


async def _failed_check(rules: CheckRules, request: bytes, answer: bytes) -> str:
    """The first check that fails, on a thread where that takes long."""
    if len(request) + len(answer) < _MIN_THREADED_CHECK_BYTES:
        return failed_check(rules, request, answer)
    return await asyncio.to_thread(failed_check, rules, request, answer)
