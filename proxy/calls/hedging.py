"""Hedged attempts: while an answer is late, the next route is tried too; the first to begin wins.

::

    first ──────┬─ at once: the route passed over as silent too, every 2 s and in trials
                ├─ 0.6 of the deadline: the same model's next route too, if the hedge budget allows
                ├─ the deadline, of the hedge if there is one: the next route too
                ├─ each deadline, where a level was left for a route: that one, once it recovered
                └─ ten deadlines, where only last resorts are left: they too, for it hangs

No attempt ends another before one of them begins, so that a call with a deadline is never later
than one without. None is sent to a route that is known to be as slow. Each attempt that lost is
cancelled at once and leaves a receipt of its own, with what it may be billed.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any, Final

import msgspec

from proxy.calls.attempts.attempt import Attempt
from proxy.calls.attempts.failed_attempts import record_cancelled, record_refused, record_superseded
from proxy.calls.attempts.lost_attempts import LostAttempt, stalled_after_s
from proxy.calls.attempts.steps import AnsweredAttempt
from proxy.calls.deadlines import AwaitedEvent, NoWatchdog, gateway_interrupted
from proxy.calls.metering.settlement import (
    AttemptInfo,
    AttemptOutcome,
    attempt_cost,
    estimate_from_length,
    likely_prompt_tokens,
)
from proxy.calls.ports import CallContext, CheaperRoute
from proxy.calls.route_choice import RouteChoice
from proxy.calls.route_sequence import RouteSequence
from proxy.errors import ProxyError, UpstreamError
from proxy.records.receipt import Outcome
from proxy.records.timeline import Timeline
from slo.budgets.attempt_budgets import HedgeBudget, hedge_delay_s, may_begin_sooner

_log = logging.getLogger("thriftgate.upstreams")

#: An attempt at its commit point; or why another route may be tried.
Opening = AnsweredAttempt | UpstreamError | CheaperRoute
#: Brings an attempt to its commit point.
Begin = Callable[[Attempt], Coroutine[Any, Any, Opening]]
_AttemptTask = asyncio.Task[Opening]
#: Tokens of a prompt above which no replica reads it a second time from its beginning.
_MAX_HEDGED_PROMPT_TOKENS: Final = 8_000
#: Attempts of a call that are under way at once, and the fewest seconds between two looks at them.
_MAX_CONCURRENT_ATTEMPTS: Final = 3
_MIN_LOOK_INTERVAL_S: Final = 0.05


class HedgedAttempts:
    """The attempts of one call that are under way at once.

    Args:
        deadline: Seconds to the first content byte.

    Attributes:
        attempt: The attempt that its run ended with, also where it ended in an exception.
    """

    def __init__(
        self, context: CallContext, routes: RouteSequence, deadline: float, begin: Begin
    ) -> None:
        self._begin = begin
        self._context = context
        self._routes = routes
        self._deadline = deadline
        self._tasks: dict[_AttemptTask, Attempt] = {}
        self._started_at: dict[_AttemptTask, float] = {}
        self._is_late = False
        self._charged: HedgeBudget | None = None
        self._predicted: int | None = None
        self._start_next()
        self._probe_demoted()

    async def run(self) -> Opening:
        """Run attempts until one began; the last one's error where none did.

        The attempt it ended with is then the call's own, with its watch and its timeline.

        Raises:
            ProxyError: As ``begin``.
            CancelledError: The call was cancelled; no attempt is left under way.
        """
        try:
            while True:
                task = await self._wait_for_next_end()
                if task is None:
                    self._send_next()
                    continue
                self.attempt = self._tasks.pop(task)
                if not self._tasks or _has_begun(task):
                    break
                self._record_ended(task, self.attempt)
                self.attempt = next(iter(self._tasks.values()))
                self._reset_deadline()
        finally:
            try:
                await self._stop()
            finally:
                self._hand_over()
        return task.result()

    def _start_next(self) -> None:
        """Begin the attempt whose turn it is, with time of its own that goes on from the call's."""
        context = self._context
        now = context.timeline.now()
        timeline = Timeline(context.timeline.now)
        timeline.started = context.timeline.started
        timeline.waiting.seconds = context.timeline.waited_s
        own = msgspec.structs.replace(context, watchdog=NoWatchdog(), timeline=timeline)
        self.attempt = self._routes.next_attempt(own)
        task = asyncio.create_task(self._begin(self.attempt))  # noqa: TID251 - no race ends before its legs
        self._tasks[task] = self.attempt
        self._started_at[task] = now
        self._reset_deadline()
        self._late_at = now + hedge_delay_s(self._deadline)
        self._due = now + self._deadline
        self._hung_at = now + stalled_after_s(self._deadline)

    def _reset_deadline(self) -> None:
        """Wait as long as the attempt under way that was begun last may take."""
        context = self._context
        begun = max(self._started_at[task] for task in self._tasks)
        left = begun + context.deps.retry_policy.first_byte_s - context.timeline.now()
        context.watchdog.set_deadline(AwaitedEvent.FIRST_BYTE, max(left, 0.0))

    def _hand_over(self) -> None:
        """Make the attempt it ended with the call's own: what it waited for is what was waited for.

        Others' waits went by meanwhile, and so did the time in which it was prepared.
        """
        context, attempt = self._context, self.attempt
        context.timeline.waiting.seconds = attempt.context.timeline.waited_s
        context.timeline.ttft = attempt.context.timeline.ttft
        attempt.context = context
        if isinstance(attempt.step, AnsweredAttempt):
            attempt.step.answer.switch_timeline(context.timeline)

    async def _wait_for_next_end(self) -> _AttemptTask | None:
        """The attempt that ended first; None if it is time to do something about them."""
        wake = None
        if len(self._tasks) >= _MAX_CONCURRENT_ATTEMPTS:
            pass
        elif self._routes.has_ready_next:
            deadline = self._late_at if len(self._tasks) == 1 and not self._is_late else self._due
            wake = deadline - self._context.timeline.now()
        elif not self._routes.is_last:
            deadline = min(self._due, self._hung_at) if self._routes.has_suspect else self._hung_at
            wake = deadline - self._context.timeline.now()
        with self._context.timeline.waiting:
            done, _ = await asyncio.wait(
                self._tasks,
                timeout=None if wake is None else max(wake, 0.0),
                return_when=asyncio.FIRST_COMPLETED,
            )
        began = sorted(done, key=lambda task: (not _has_begun(task), self._tasks[task].info.number))
        return began[0] if began else None

    def _send_next(self) -> None:
        """Send the call to the next route too, where it is time for that and may help."""
        routes, now = self._routes, self._context.timeline.now()
        may_be_late = routes.has_ready_next
        if may_be_late and now < self._due:
            self._is_late = True
            if not self._may_hedge():
                return
        elif now < self._hung_at and not (may_be_late and routes.bring_forward(self._is_quicker)):
            self._due = now + max(self._deadline, _MIN_LOOK_INTERVAL_S)
            return
        else:
            self._is_late = False
        routes.advance()
        self._start_next()

    def _probe_demoted(self) -> None:
        """Send the call also to a route that was passed over as silent, where that is due.

        The call waits for neither, and the route is found to have recovered.
        """
        routes = self._routes
        choice = routes.next_choice
        if choice is None or not routes.is_probe_due(self._context.timeline.now()):
            return
        if self._fits_budget(choice, self._context.deps.route_health.probes):
            self._is_late = True
            routes.advance()
            self._start_next()

    def _may_hedge(self) -> bool:
        """True if the same call may go to the next route too: its model, its length, the budget."""
        choice = self._routes.next_choice
        if choice is None or choice.model != self.attempt.choice.model:
            return False
        hedges = self._context.deps.route_health.hedges
        return self._is_quicker(choice) and self._fits_budget(choice, hedges)

    def _fits_budget(self, choice: RouteChoice, budget: HedgeBudget) -> bool:
        """True if the call is short, and its second attempt within the budget; it is counted."""
        tokens = likely_prompt_tokens(self._context.call)
        if tokens > _MAX_HEDGED_PROMPT_TOKENS:
            return False
        self._predicted = self._abandoned_cost_nanos(choice)
        if not budget.try_acquire(self._predicted, self._context.timeline.now()):
            return False
        self._charged = budget
        return True

    def _is_quicker(self, choice: RouteChoice) -> bool:
        """True if a route may begin before all that are under way; not if known to be as slow."""
        registry, now = self._context.deps.route_health, self._context.timeline.now()
        ttft = registry.health_of(choice.route).ttft
        there = ttft.newest(now) if choice.is_suspect else ttft.median(now)
        return all(
            may_begin_sooner(
                there,
                registry.health_of(attempt.choice.route).ttft.usual(now),
                waited=self._waited_s(task),
                deadline=self._deadline,
            )
            for task, attempt in self._tasks.items()
        )

    def _abandoned_cost_nanos(self, choice: RouteChoice) -> int | None:
        """The cost of an attempt that is given up before its first content; None if unknown."""
        call = self._context.call
        end = AttemptOutcome(
            outcome=Outcome.FAILED, status=0, usage=estimate_from_length(call, "", choice.route)
        )
        paid = attempt_cost(AttemptInfo(call=call, route=choice.route), end)
        return None if paid is None else paid.effective_nanos

    def _record_ended(self, task: _AttemptTask, attempt: Attempt) -> None:
        """Keep the receipt of an attempt that failed while another is under way."""
        error = task.exception()
        failure = task.result() if error is None else error
        attempt.close(failure if isinstance(failure, BaseException) else None)
        if isinstance(failure, UpstreamError):
            # In the background: the call does not wait for its tokens to be counted.
            self._context.deps.tasks.start(partial(record_superseded, attempt, failure))
        elif isinstance(failure, ProxyError):
            record_refused(attempt, failure, final=False)
        elif isinstance(failure, BaseException):
            _log.error("An attempt of call %s failed", self._context.call.id, exc_info=failure)
            record_cancelled(attempt, gateway_interrupted(), final=False)

    async def _give_up(self, task: _AttemptTask) -> None:
        """Cancel an attempt that lost and keep its receipt; what it came to is closed.

        Raises:
            CancelledError: The call was cancelled; the attempt has ended all the same.
        """
        lost = LostAttempt(self._tasks[task], self.attempt, self._waited_s(task), self._deadline)
        why = lost.reason()
        task.cancel()
        over = await _wait_until_ended(task)
        attempt = self._tasks.pop(task)
        if not task.cancelled() and not _has_begun(task):  # it failed by itself
            self._record_ended(task, attempt)
        else:
            lost.note_slowness(self._context)
            is_failure = lost.has_stalled or lost.is_failed_probe(self._context)
            attempt.close(why if is_failure else asyncio.CancelledError())
            if (budget := self._charged) is not None:
                self._charged, cost = None, self._abandoned_cost_nanos(attempt.choice)
                budget.settle_hedge(cost, self._predicted, self._context.timeline.now())
            # At once, so that what it held is free for the next, and the call's cost is whole.
            record_cancelled(attempt, why, final=False)
        if over is not None:
            raise over

    def _waited_s(self, task: _AttemptTask) -> float:
        """Seconds that an attempt has taken."""
        return self._context.timeline.now() - self._started_at[task]

    async def _stop(self) -> None:
        """Cancel attempts under way; where none ended by itself, the last is recorded.

        Raises:
            CancelledError: The call was cancelled once more; all have ended all the same.
        """
        over = None
        for task, attempt in list(self._tasks.items()):
            if attempt is self.attempt:
                task.cancel()
                over = await _wait_until_ended(task) or over
                del self._tasks[task]
                continue
            try:
                await self._give_up(task)
            except asyncio.CancelledError as again:
                over = again
        if over is not None:
            raise over


async def _wait_until_ended(task: _AttemptTask) -> asyncio.CancelledError | None:
    """Wait until a cancelled attempt has let go of all it had open.

    What cancels the call meanwhile is handed back: no attempt is left behind for it.
    """
    over = None
    while not task.done():
        try:
            await asyncio.wait({task})
        except asyncio.CancelledError as again:
            over = again
    if not task.cancelled():
        task.exception()  # retrieved, so that asyncio does not warn of it
    return over


def _has_begun(task: _AttemptTask) -> bool:
    """True if the attempt came to an answer."""
    is_settled = task.done() and not task.cancelled() and task.exception() is None
    return is_settled and isinstance(task.result(), AnsweredAttempt)
