"""Writes the receipts of attempts that got no answer."""

import asyncio

from proxy.calls.attempts.abandoned_attempts import settle_abandoned
from proxy.calls.attempts.attempt import Attempt
from proxy.calls.attempts.steps import SentAttempt
from proxy.calls.deadlines import ClientDisconnected
from proxy.calls.metering.metering import Meter
from proxy.calls.metering.settlement import (
    AttemptInfo,
    AttemptOutcome,
    billing_terms,
    build_receipt,
    estimate_from_length,
    settle_share,
)
from proxy.calls.ports import CallContext
from proxy.errors import ProxyError
from proxy.records.receipt import Outcome
from slo.usage import Usage


def record_refused(attempt: Attempt, refusal: ProxyError, *, final: bool = True) -> None:
    """Keep the receipt of an attempt that the gateway would not send."""
    context = attempt.context
    end = AttemptOutcome(
        outcome=Outcome.REFUSED, status=refusal.status, error=refusal.code, final=final
    )
    context.deps.ledger.keep(
        build_receipt(attempt.info, end, context.timeline, context.deps.pseudonymizer)
    )


async def record_failed(attempt: Attempt, failure: ProxyError, *, final: bool) -> None:
    """Keep the receipt of an attempt that did not begin.

    What an upstream was working on when it was cut off is billed: its prompt is counted. The call
    that is cancelled meanwhile has ended: its receipt is final whatever was meant to follow.
    """
    attempt.context.watchdog.clear_deadline()
    try:
        usage = await _billable_usage(attempt)
    except asyncio.CancelledError:
        record_cancelled(attempt, failure, final=True)
        raise
    _record(attempt, failure, usage, final=final, meter=_failed_meter(attempt))


async def record_superseded(attempt: Attempt, failure: ProxyError) -> None:
    """Keep the receipt of an attempt that another one of its call outlived; never a final one."""
    try:
        usage = await _billable_usage(attempt)
    except asyncio.CancelledError:
        record_cancelled(attempt, failure, final=False)
        raise
    _record(attempt, failure, usage, final=False, meter=_failed_meter(attempt))


def record_cancelled(attempt: Attempt, reason: ProxyError, *, final: bool) -> None:
    """Keep the receipt of an attempt that we ended ourselves, without waiting for a count."""
    usage, info = None, attempt.info
    if _was_accepted(attempt):
        usage = estimate_from_length(info.sent_call, "", info.route)
    _record(attempt, reason, usage, final=final)


def record_failure_with_usage(
    context: CallContext,
    info: AttemptInfo,
    failure: ProxyError,
    usage: Usage | None,
    *,
    final: bool,
    meter: Meter | None = None,
) -> None:
    """Keep the receipt of an attempt that failed like this.

    Args:
        usage: Usage that may be billed; None for nothing.
        meter: Meter of what was read before it failed; None for nothing.
    """
    end = AttemptOutcome(
        outcome=Outcome.HUNG_UP if isinstance(failure, ClientDisconnected) else Outcome.FAILED,
        status=failure.status,
        error=failure.code,
        usage=usage,
        estimated=usage is not None and not (meter is not None and meter.has_exact_usage),
        upstream_id=meter.upstream_id if meter is not None else "",
        terms=billing_terms(info, meter.service_tier, meter.usage_object)
        if meter
        else billing_terms(info, "", {}),
        final=final,
        share=settle_share(info, context.timeline, None, None) if usage is not None else None,
    )
    if info.replica_use is not None:
        info.replica_use.release(context.timeline.now())
    receipt = build_receipt(info, end, context.timeline, context.deps.pseudonymizer)
    context.deps.ledger.keep(receipt)
    if not final:
        context.caller.note_attempt(receipt)


def _record(
    opening: Attempt,
    failure: ProxyError,
    usage: Usage | None,
    *,
    final: bool,
    meter: Meter | None = None,
) -> None:
    """Keep the receipt of an attempt, with what its upstream may go on generating."""
    context, attempt = opening.context, opening.info
    if usage is not None and not (meter is not None and meter.has_exact_usage):
        attempt, usage = settle_abandoned(context, attempt, failure, usage, meter)
    record_failure_with_usage(context, attempt, failure, usage, final=final, meter=meter)


async def _billable_usage(attempt: Attempt) -> Usage | None:
    """The usage that the upstream may bill; None where it had not begun to work."""
    context, meter = attempt.context, _failed_meter(attempt)
    if not _was_accepted(attempt) or context.call.method != "POST":
        return None
    if meter is not None and meter.has_exact_usage:
        return meter.usage
    return await context.deps.estimator.usage(attempt.info.sent_call, attempt.choice.route, meter)


def _was_accepted(attempt: Attempt) -> bool:
    """True if the upstream was at work on it, and so may bill it."""
    return isinstance(attempt.step, SentAttempt) and attempt.step.was_accepted


def _failed_meter(attempt: Attempt) -> Meter | None:
    """Meter of an answer that failed early; None where none came."""
    return attempt.step.failed_meter if isinstance(attempt.step, SentAttempt) else None
