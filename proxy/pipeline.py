"""The life of one call, straight down.

::

    call ─ decide ─┬─ per route, until one begins ─────────────────┐
                   │ prepare ∘ → hold → open → first byte ═ commit │ → pass on → settle → receipt
                   └───────────────────────────────────────────────┘

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
from itertools import count

import msgspec

from proxy.answer import Answer
from proxy.call import Call
from proxy.catalog.entries import Route
from proxy.decide import GENERATING, routes
from proxy.delivery import Delivery
from proxy.desk import Desk, Limits, Line
from proxy.errors import CallerError, ProxyError, UpstreamError
from proxy.prefix.planned import Planned, Unplanned
from proxy.prepare import prepare
from proxy.receipt import Outcome
from proxy.settle import Attempt, End, crude, receipt, terms
from proxy.timeline import Timeline
from proxy.upstream.port import Exchange, Unsent
from proxy.watch import HungUp, Interrupted, Wait
from proxy.wire.kinds import WIRES
from proxy.wire.port import Prepared
from slo.usage import Usage

_log = logging.getLogger("thriftgate.upstreams")

#: The longest error body that is read.
_FAILURE = 64 * 1024
#: Statuses of a request that is wrong in itself; it may be what planning made of it.
_REFUSED = frozenset({400, 413, 422})
#: Statuses that say nothing of a question in a request: those of the key, and of its limits.
_UNASKED = frozenset({401, 429})
_AGAIN = Unplanned("the planned prompt was refused, so it went as it came")
#: Bodies from this size on are prepared on a thread, for that takes milliseconds.
_LARGE = 256 * 1024


class _Work:
    """What became of an attempt.

    Attributes:
        was_taken: Whether the upstream was at work on it, and so may bill it.
        changed: What planning made of the caller's prompt; None where it left it as it came.
        status: The upstream's own; 0 where it answered nothing.
    """

    __slots__ = ("changed", "status", "was_taken")

    def __init__(self) -> None:
        self.was_taken = False
        self.changed: Planned | None = None
        self.status = 0

    def refused(self, failure: UpstreamError) -> Planned | None:
        """What planning made of the prompt, where the upstream may have refused just that.

        A question besides may not be allowed, known or free to every account.
        """
        if self.changed is None or failure.status in _REFUSED:
            return self.changed
        asked = self.changed.question is not None
        return self.changed if asked and _is_about_a_question(self.status) else None


def _is_about_a_question(status: int) -> bool:
    return 400 <= status < 500 and status not in _UNASKED


async def serve(line: Line) -> None:
    """Answer one call from the first of its routes that begins.

    Raises:
        ProxyError: If nothing was sent to the caller; the receipts are kept already.
    """
    try:
        candidates = routes(line.call, line.desk.catalog)
    except CallerError as refusal:
        refuse(line.call, refusal, line.desk, line.timeline)
        raise
    tried, refused = 0, None
    for number in count():
        route = candidates[min(tried, len(candidates) - 1)]
        work = _Work()
        failure = await _attempt(line, route, number, work, again=refused is not None)
        if failure is None:
            if refused is not None:
                line.desk.planning.refused(refused)
            return
        _log.warning(
            "Call %s, upstream %s: %s (%s)",
            line.call.id,
            route.upstream.name,
            failure.code,
            failure.detail or failure.message,
        )
        refused = work.refused(failure)
        pause: float | None = 0.0
        if refused is None:
            pause = line.desk.patience.pause(failure, tried, len(candidates))
            tried += 1
        attempt = Attempt(call=line.call, route=route, number=number)
        await _counted(line, attempt, failure, work, final=pause is None)
        if pause is None:
            raise failure
        await _paused(line, number + 1, pause)


def refuse(call: Call, refusal: ProxyError, desk: Desk, timeline: Timeline) -> None:
    """Keep the receipt of a call that is sent nowhere."""
    _refuse(Attempt(call=call), refusal, desk, timeline)


def _refuse(attempt: Attempt, refusal: ProxyError, desk: Desk, timeline: Timeline) -> None:
    end = End(outcome=Outcome.REFUSED, status=refusal.status, error=refusal.code)
    desk.ledger.keep(receipt(attempt, end, timeline, desk.seal))


async def _paused(line: Line, number: int, pause: float) -> None:
    """Wait before an attempt; if the call ends meanwhile, the attempt went nowhere."""
    try:
        with line.timeline.waiting:
            await asyncio.sleep(pause)
    except asyncio.CancelledError as cancelled:
        raise _nowhere(line, Attempt(call=line.call, number=number)) or cancelled from None


def _nowhere(line: Line, attempt: Attempt) -> ProxyError | None:
    """Keep the receipt of a cancelled attempt that went nowhere; why, if the watch cancelled it."""
    over = line.watch.told()
    _keep(line, attempt, over or Interrupted(), None, final=True)
    return over


async def _attempt(
    line: Line, route: Route, number: int, work: _Work, *, again: bool
) -> UpstreamError | None:
    """Try one route; the failure, if its answer did not begin.

    What was refused once planning had changed it is tried again as it came.

    Raises:
        CallerError: If the call cannot be said to this route's upstream.
        HungUp: If the caller left.
    """
    attempt = Attempt(call=line.call, route=route, number=number)
    planned: Planned | Unplanned = _AGAIN
    try:
        if not again:
            planned = await line.desk.planning.planned(line.call, route)
    except asyncio.CancelledError as cancelled:
        raise _nowhere(line, attempt) or cancelled from None
    if isinstance(planned, Planned) and planned.changes(line.call.body):
        work.changed = planned
    try:
        return await _tried(line, route, attempt, planned, work)
    finally:
        line.desk.planning.ended(planned)


async def _tried(
    line: Line, route: Route, attempt: Attempt, planned: Planned | Unplanned, work: _Work
) -> UpstreamError | None:
    prepared = await _prepared(line, route, attempt, planned)
    attempt = msgspec.structs.replace(attempt, notes=prepared.notes, planned=planned)
    if line.desk.limits is not None:
        attempt = await _admitted(line, attempt, prepared, line.desk.limits)
    try:
        answer = await _begun(line, route, prepared, work)
    except UpstreamError as failure:
        return failure
    except HungUp as left:
        await _counted(line, attempt, left, work, final=True)
        raise
    except BaseException:  # We stop, or made a mistake: it is billed all the same.
        usage = crude(line.call, "") if work.was_taken else None
        _keep(line, attempt, Interrupted(), usage, final=True)
        raise
    try:
        line.desk.planning.begun(planned)
        await Delivery(line, attempt, prepared.reader, answer).run()
    finally:
        answer.exchange.close()
    return None


async def _prepared(
    line: Line, route: Route, attempt: Attempt, planned: Planned | Unplanned
) -> Prepared:
    """The attempt's request; if the call ends meanwhile, the attempt went nowhere."""
    try:
        if len(line.call.body) < _LARGE:
            return prepare(line.call, route, planned)
        return await asyncio.to_thread(prepare, line.call, route, planned)
    except CallerError as refusal:
        _refuse(attempt, refusal, line.desk, line.timeline)
        raise
    except asyncio.CancelledError as cancelled:
        raise _nowhere(line, attempt) or cancelled from None


async def _admitted(line: Line, attempt: Attempt, prepared: Prepared, limits: Limits) -> Attempt:
    """The attempt, once what it may use is held; the receipt it ends with settles that."""
    try:
        headers = await limits.admit(attempt, prepared)
    except ProxyError as refusal:
        _refuse(attempt, refusal, line.desk, line.timeline)
        raise
    except asyncio.CancelledError as cancelled:
        raise _nowhere(line, attempt) or cancelled from None
    return msgspec.structs.replace(attempt, headers=headers) if headers else attempt


async def _begun(line: Line, route: Route, prepared: Prepared, work: _Work) -> Answer:
    """The answer, at its commit point.

    Raises:
        UpstreamError: If it did not get there, or not in time.
        HungUp: If the caller left.
    """
    wire = WIRES[route.upstream.kind]
    generates = line.call.method == "POST" and line.call.endpoint in GENERATING
    exchange = beginning = answer = None
    line.watch.expect(Wait.FIRST_BYTE, line.desk.patience.first_byte)
    try:
        work.was_taken = True
        with line.timeline.waiting:
            exchange = await line.desk.transport.open(route.upstream, prepared)
        work.status = exchange.status
        work.was_taken = exchange.status < 300
        if not work.was_taken:
            body = await _failure_body(line, exchange)
            raise wire.failure(exchange.status, exchange.headers, body)
        beginning = Answer(exchange, wire, line.timeline, generates=generates)
        await beginning.commit()
        answer = beginning
    except UpstreamError:
        work.was_taken = beginning is not None and not beginning.meter.broken
        raise
    except Unsent as cancelled:
        work.was_taken = False
        raise line.watch.told() or asyncio.CancelledError from cancelled
    except asyncio.CancelledError as cancelled:
        raise line.watch.told() or cancelled from None
    finally:
        if answer is None and exchange is not None:
            exchange.close()
    return answer


async def _failure_body(line: Line, exchange: Exchange) -> bytes:
    """The body of an error; b"" where it is too long or breaks off, for its status says enough."""
    try:
        with line.timeline.waiting:
            return await exchange.read_all(_FAILURE)
    except UpstreamError:
        return b""


async def _counted(
    line: Line, attempt: Attempt, failure: ProxyError, work: _Work, *, final: bool
) -> None:
    """Keep the receipt of an attempt that did not begin.

    What an upstream was working on when it was cut off is billed: its prompt is counted.
    """
    usage = None
    line.watch.rest()
    if attempt.route is not None and work.was_taken:
        try:
            usage = await line.desk.estimator.usage(line.call, attempt.route, None)
        except asyncio.CancelledError:
            _keep(line, attempt, failure, crude(line.call, ""), final=True)
            raise
    _keep(line, attempt, failure, usage, final=final)


def _keep(
    line: Line, attempt: Attempt, failure: ProxyError, usage: Usage | None, *, final: bool
) -> None:
    end = End(
        outcome=Outcome.HUNG_UP if isinstance(failure, HungUp) else Outcome.FAILED,
        status=failure.status,
        error=failure.code,
        usage=usage,
        estimated=usage is not None,
        terms=terms(attempt, "", {}),
        final=final,
    )
    line.desk.ledger.keep(receipt(attempt, end, line.timeline, line.desk.seal))
