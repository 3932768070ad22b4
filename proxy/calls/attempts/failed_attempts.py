"""Writes the receipts of attempts that got no answer."""

import asyncio
from typing import Final

import msgspec

from proxy.calls.attempts.abandoned_attempts import settle_abandoned
from proxy.calls.attempts.attempt import Attempt
from proxy.calls.attempts.steps import SentAttempt
from proxy.calls.deadlines import ClientDisconnected, gateway_interrupted
from proxy.calls.metering.attempt_receipts import build_receipt
from proxy.calls.metering.metering import Meter
from proxy.calls.metering.settlement import (
    AttemptInfo,
    AttemptOutcome,
    billing_terms,
    estimate_from_length,
    settle_share,
    upstream_words,
)
from proxy.calls.ports import CallContext, Dependencies
from proxy.errors import ProxyError, UpstreamError
from proxy.records.call import Call
from proxy.records.receipt import Outcome, Receipt
from proxy.records.timeline import Timeline
from slo.usage import Usage

#: Details of the errors by which limits refuse calls.
_LIMITS: Final = frozenset({"budget", "ceiling"})


def record_refusal(call: Call, refusal: ProxyError, deps: Dependencies, timeline: Timeline) -> None:
    """Keep the receipt of a call that is sent nowhere."""
    end = AttemptOutcome(outcome=Outcome.REFUSED, status=refusal.status, error=refusal.code)
    receipt = build_receipt(AttemptInfo(call=call), end, timeline, deps.pseudonymizer)
    deps.ledger.keep(_with_sentence(receipt, refusal))


def record_refused(attempt: Attempt, refusal: ProxyError, *, final: bool = True) -> None:
    """Keep the receipt of an attempt that the gateway would not send."""
    context = attempt.context
    end = AttemptOutcome(
        outcome=Outcome.REFUSED, status=refusal.status, error=refusal.code, final=final
    )
    context.deps.ledger.keep(_with_sentence(_receipt(context, attempt.info, end), refusal))


def _with_sentence(receipt: Receipt, refusal: ProxyError) -> Receipt:
    """The receipt with a limit's refusal as the caller got it; others may quote the call."""
    if not _LIMITS & refusal.details.keys():
        return receipt
    return msgspec.structs.replace(receipt, notes=(*receipt.notes, refusal.message))


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


async def timeout_or_raise(attempt: Attempt, cancelled: asyncio.CancelledError) -> UpstreamError:
    """That the upstream was late, if the watchdog cancelled the attempt for that.

    Raises:
        ClientDisconnected: The caller left; the receipt is kept.
        CancelledError: We stop; the receipt is kept.
    """
    reason = attempt.context.watchdog.take_cancel_reason()
    if isinstance(reason, UpstreamError):
        return reason
    attempt.close(reason or cancelled)
    if isinstance(reason, ClientDisconnected):
        await record_failed(attempt, reason, final=True)
    else:
        record_cancelled(attempt, reason or gateway_interrupted(), final=True)
    raise reason or cancelled from None


async def pause_before_attempt(context: CallContext, number: int, pause: float) -> None:
    """Wait before an attempt; if the call ends meanwhile, the attempt went nowhere."""
    try:
        with context.timeline.waiting:
            await asyncio.sleep(pause)
    except asyncio.CancelledError as cancelled:
        attempt = AttemptInfo(call=context.call, number=number)
        raise record_unsent(context, attempt, cancelled) from None


def record_unsent(
    context: CallContext, attempt: AttemptInfo, cancelled: asyncio.CancelledError
) -> BaseException:
    """Keep the receipt of an attempt that went nowhere, as the call ended; the error to raise."""
    reason = context.watchdog.take_cancel_reason()
    record_failure_with_usage(context, attempt, reason or gateway_interrupted(), None, final=True)
    return reason or cancelled


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
        upstream_error=upstream_words(failure, info.call),
    )
    if info.replica_use is not None:
        info.replica_use.release(context.timeline.now())
    receipt = _receipt(context, info, end)
    context.deps.ledger.keep(receipt)
    if not final:
        context.caller.note_attempt(receipt)


def _receipt(context: CallContext, info: AttemptInfo, end: AttemptOutcome) -> Receipt:
    """The receipt of an attempt without content; another one of the call may have had some."""
    receipt = build_receipt(info, end, context.timeline, context.deps.pseudonymizer)
    return receipt if receipt.ttft is None else msgspec.structs.replace(receipt, ttft=None)


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
