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

from proxy.calls.attempt import Opening
from proxy.calls.deadlines import HungUp, Interrupted
from proxy.calls.delivery import Delivery
from proxy.calls.failed_attempts import counted, cut, kept, refused
from proxy.calls.hedging import Race
from proxy.calls.ports import Desk, Elsewhere, Line
from proxy.calls.route_choice import Decision, asked
from proxy.calls.route_sequence import Course
from proxy.calls.settlement import Attempt, End, receipt
from proxy.errors import ProxyError, UpstreamError
from proxy.records.call import Call
from proxy.records.receipt import Outcome
from proxy.records.timeline import Timeline

_log = logging.getLogger("thriftgate.upstreams")


async def serve(line: Line) -> None:
    """Answer one call from the first of its routes that begins.

    Raises:
        ProxyError: If nothing was sent to the caller; the receipts are kept already.
    """
    course = Course(line, _decided(line))
    try:
        await _answered(line, course)
    except ProxyError as error:
        course.tell_skipped(error)
        raise


async def _answered(line: Line, course: Course) -> None:
    """Go from attempt to attempt until one is answered.

    Raises:
        ProxyError: As ``serve``.
    """
    while True:
        opening, failure = await _opened(line, course)
        if failure is None:
            await _delivered(line, opening)
            _taken_as_it_came(line, course)
            return
        if isinstance(failure, Elsewhere):
            opening.close()
            course.moved(failure)
            continue
        opening.close(failure)
        opening.tell_request_id(failure)
        _log.warning(
            "Call %s, upstream %s: %s (%s)",
            line.call.id,
            opening.choice.route.upstream.name,
            failure.code,
            failure.detail or failure.message,
        )
        pause = course.failed(opening, failure)
        await counted(opening, failure, final=pause is None)
        if pause is None:
            raise course.reason(failure)
        await _paused(line, course.number, pause)


def refuse(call: Call, refusal: ProxyError, desk: Desk, timeline: Timeline) -> None:
    """Keep the receipt of a call that is sent nowhere."""
    end = End(outcome=Outcome.REFUSED, status=refusal.status, error=refusal.code)
    desk.ledger.keep(receipt(Attempt(call=call), end, timeline, desk.seal))


def _taken_as_it_came(line: Line, course: Course) -> None:
    """Tell whoever changed the prompt that it was taken without; the one that went last."""
    folding = line.desk.folding
    if course.refused is not None:
        line.desk.planning.refused(course.refused)
    elif course.misfolded is not None and folding is not None:
        folding.refused(line.call, course.misfolded)


def _decided(line: Line) -> Decision:
    """The routes the call takes.

    Raises:
        ProxyError: It is sent nowhere; its receipt is kept.
    """
    steering = line.desk.steering
    try:
        choices = asked(line.call, line.desk.catalog)
        if steering is None:
            return Decision(choices=choices)
        return steering.decide(line.call, choices)
    except ProxyError as refusal:
        refuse(line.call, refusal, line.desk, line.timeline)
        raise


async def _opened(line: Line, course: Course) -> tuple[Opening, UpstreamError | Elsewhere | None]:
    """The next attempt, and why it did not begin; None if it did.

    Where it has a deadline and other routes are left, several may be under way at once.

    Raises:
        ProxyError: The call ends with it; its receipt is kept.
        CancelledError: The same.
    """
    deadline = course.decision.deadline
    is_alone = deadline is None or course.is_last
    run = course.opening() if is_alone else Race(line, course, deadline or 0.0)
    try:
        failure = await run.run()
    except asyncio.CancelledError as cancelled:
        opening = run if isinstance(run, Opening) else run.opening
        return opening, await _told(line, opening, cancelled)
    except BaseException as error:
        opening = run if isinstance(run, Opening) else run.opening
        opening.close(error)
        if isinstance(error, ProxyError):
            refused(opening, error)
        else:  # We made a mistake: it is billed all the same.
            cut(opening, Interrupted(), final=True)
        raise
    return run if isinstance(run, Opening) else run.opening, failure


async def _told(line: Line, opening: Opening, cancelled: asyncio.CancelledError) -> UpstreamError:
    """That the upstream was late, if the watch cancelled the attempt for that.

    Raises:
        HungUp: The caller left; the receipt is kept.
        CancelledError: We stop; the receipt is kept.
    """
    over = line.watch.told()
    if isinstance(over, UpstreamError):
        return over
    opening.close(over or cancelled)
    if isinstance(over, HungUp):
        await counted(opening, over, final=True)
    else:
        cut(opening, over or Interrupted(), final=True)
    raise over or cancelled from None


async def _delivered(line: Line, opening: Opening) -> None:
    """Pass the answer that has begun on to its end."""
    answer = opening.answer
    assert answer is not None  # noqa: S101 - that is what begun means
    try:
        await Delivery(line, opening.attempt, opening.reader, answer).run()
    finally:
        opening.close()


async def _paused(line: Line, number: int, pause: float) -> None:
    """Wait before an attempt; if the call ends meanwhile, the attempt went nowhere."""
    try:
        with line.timeline.waiting:
            await asyncio.sleep(pause)
    except asyncio.CancelledError as cancelled:
        over = line.watch.told()
        attempt = Attempt(call=line.call, number=number)
        kept(line, attempt, over or Interrupted(), None, final=True)
        raise over or cancelled from None
