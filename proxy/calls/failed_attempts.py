"""The receipts of attempts that came to no answer."""

import asyncio

from proxy.calls.abandoned_attempts import settle_abandoned
from proxy.calls.attempt import Opening
from proxy.calls.deadlines import HungUp
from proxy.calls.metering import Meter
from proxy.calls.ports import Line
from proxy.calls.settlement import Attempt, End, crude, receipt, terms
from proxy.errors import ProxyError
from proxy.records.receipt import Outcome
from slo.usage import Usage


def refused(opening: Opening, refusal: ProxyError, *, final: bool = True) -> None:
    """Keep the receipt of an attempt that the gateway would not send."""
    line = opening.line
    end = End(outcome=Outcome.REFUSED, status=refusal.status, error=refusal.code, final=final)
    line.desk.ledger.keep(receipt(opening.attempt, end, line.timeline, line.desk.seal))


async def counted(opening: Opening, failure: ProxyError, *, final: bool) -> None:
    """Keep the receipt of an attempt that did not begin.

    What an upstream was working on when it was cut off is billed: its prompt is counted. The call
    that is cancelled meanwhile has ended: its receipt is final whatever was meant to follow.
    """
    opening.line.watch.rest()
    try:
        usage = await _usage(opening)
    except asyncio.CancelledError:
        cut(opening, failure, final=True)
        raise
    _keep(opening, failure, usage, final=final, heard=opening.heard)


async def spent(opening: Opening, failure: ProxyError) -> None:
    """Keep the receipt of an attempt that another one of its call outlived; never a final one."""
    try:
        usage = await _usage(opening)
    except asyncio.CancelledError:
        cut(opening, failure, final=False)
        raise
    _keep(opening, failure, usage, final=False, heard=opening.heard)


def cut(opening: Opening, reason: ProxyError, *, final: bool) -> None:
    """Keep the receipt of an attempt that we ended ourselves, without waiting for a count."""
    usage = crude(opening.attempt.sent, "") if opening.was_taken else None
    _keep(opening, reason, usage, final=final)


def kept(
    line: Line,
    attempt: Attempt,
    failure: ProxyError,
    usage: Usage | None,
    *,
    final: bool,
    heard: Meter | None = None,
) -> None:
    """Keep the receipt of an attempt that failed like this.

    Args:
        line: The call.
        attempt: At its answer.
        failure: Why there is none.
        usage: What may be billed; None for nothing.
        final: Whether the call ended with it.
        heard: What was read before it failed; None for nothing.
    """
    end = End(
        outcome=Outcome.HUNG_UP if isinstance(failure, HungUp) else Outcome.FAILED,
        status=failure.status,
        error=failure.code,
        usage=usage,
        estimated=usage is not None and not (heard is not None and heard.exact),
        upstream_id=heard.upstream_id if heard is not None else "",
        terms=terms(attempt, heard.service_tier, heard.found) if heard else terms(attempt, "", {}),
        final=final,
    )
    told = receipt(attempt, end, line.timeline, line.desk.seal)
    line.desk.ledger.keep(told)
    if not final:
        line.caller.attempted(told)


def _keep(
    opening: Opening,
    failure: ProxyError,
    usage: Usage | None,
    *,
    final: bool,
    heard: Meter | None = None,
) -> None:
    """Keep the receipt of an attempt, with what its upstream may go on generating."""
    line, attempt = opening.line, opening.attempt
    if usage is not None and not (heard is not None and heard.exact):
        attempt, usage = settle_abandoned(line, attempt, failure, usage, heard)
    kept(line, attempt, failure, usage, final=final, heard=heard)


async def _usage(opening: Opening) -> Usage | None:
    """What the upstream may bill, as it says where it does; None where it was not at work."""
    line, heard = opening.line, opening.heard
    if not opening.was_taken or line.call.method != "POST":
        return None
    if heard is not None and heard.exact:
        return heard.usage
    return await line.desk.estimator.usage(opening.attempt.sent, opening.choice.route, heard)
