"""The receipts of attempts that came to no answer."""

import asyncio

from proxy.desk import Line
from proxy.errors import ProxyError
from proxy.opening import Opening
from proxy.receipt import Outcome
from proxy.settle import Attempt, End, crude, receipt, terms
from proxy.watch import HungUp
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
    kept(opening.line, opening.attempt, failure, usage, final=final)


async def spent(opening: Opening, failure: ProxyError) -> None:
    """Keep the receipt of an attempt that another one of its call outlived; never a final one."""
    try:
        usage = await _usage(opening)
    except asyncio.CancelledError:
        cut(opening, failure, final=False)
        raise
    kept(opening.line, opening.attempt, failure, usage, final=False)


def cut(opening: Opening, reason: ProxyError, *, final: bool) -> None:
    """Keep the receipt of an attempt that we ended ourselves, without waiting for a count."""
    usage = crude(opening.attempt.sent, "") if opening.was_taken else None
    kept(opening.line, opening.attempt, reason, usage, final=final)


def kept(
    line: Line, attempt: Attempt, failure: ProxyError, usage: Usage | None, *, final: bool
) -> None:
    """Keep the receipt of an attempt that failed like this."""
    end = End(
        outcome=Outcome.HUNG_UP if isinstance(failure, HungUp) else Outcome.FAILED,
        status=failure.status,
        error=failure.code,
        usage=usage,
        estimated=usage is not None,
        terms=terms(attempt, "", {}),
        final=final,
    )
    told = receipt(attempt, end, line.timeline, line.desk.seal)
    line.desk.ledger.keep(told)
    if not final:
        line.caller.attempted(told)


async def _usage(opening: Opening) -> Usage | None:
    """What the upstream may bill; None where it was not at work."""
    if not opening.was_taken:
        return None
    line = opening.line
    return await line.desk.estimator.usage(opening.attempt.sent, opening.choice.route, None)
