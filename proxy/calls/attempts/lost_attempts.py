"""Attempts that lost against a hedge: their receipts, and how slow their routes count as."""

from math import inf
from typing import Final

import msgspec

from proxy.calls.attempts.attempt import Attempt
from proxy.calls.attempts.steps import AnsweredAttempt, SentAttempt
from proxy.calls.ports import CallContext
from proxy.errors import UpstreamError
from slo.breaker import BreakerState
from slo.budgets.attempt_budgets import hedge_delay_s

#: Number of deadlines, and seconds, after which an attempt counts as stalled: then also
#: conversations under way are rerouted, and the route's breaker counts a failure.
_STALL_AFTER_DEADLINES: Final = 10
_MIN_STALL_S: Final = 10.0


class _AttemptLost(UpstreamError):
    """An attempt was given up, because another one's answer began first."""

    leaves_upstream_running = True

    def __init__(self, message: str, code: str) -> None:
        super().__init__(message, status=504, code=code, retryable=True)


def superseded_error() -> UpstreamError:
    """The error of an attempt that was not late."""
    return _AttemptLost("Another attempt was answered first.", "hedge_lost")


def late_error() -> UpstreamError:
    """The error of an attempt that was late."""
    return _AttemptLost("The upstream was late, and another route answered first.", "ttft_deadline")


def stalled_error() -> UpstreamError:
    """The error of an attempt that was so late that it hangs."""
    return _AttemptLost("The upstream hung, and another route answered first.", "ttft_hang")


class LostAttempt(msgspec.Struct, frozen=True):
    """An attempt that is given up because another one's answer began first.

    Attributes:
        deadline: Seconds that its first content could take.
    """

    attempt: Attempt
    winner: Attempt
    waited_s: float
    deadline: float

    def reason(self) -> UpstreamError:
        """Error that its receipt tells, by how long it took until another began."""
        if self.has_stalled:
            return stalled_error()
        return late_error() if self.waited_s >= self.deadline else superseded_error()

    @property
    def has_stalled(self) -> bool:
        """True if it was so late that its route failed."""
        return self.waited_s >= stalled_after_s(self.deadline)

    def is_failed_probe(self, context: CallContext) -> bool:
        """True if it was late on a route that failed and is tried again.

        Lateness alone is no failure: objectives judge of time. But a route that stays on trial
        after it was late is tried again by the next call, and each would wait for it.
        """
        breaker = context.deps.route_health.health_of(self.attempt.choice.route).breaker
        is_on_trial = breaker.state(context.timeline.now()) is BreakerState.HALF_OPEN
        return self._is_late and is_on_trial

    def note_slowness(self, context: CallContext) -> None:
        """Remember of its route how slow it is taken to be.

        One that was late has no time of its own. One that a route outran which is slow itself is
        taken to be as slow as that, or each call would be sent there in vain.
        """
        step, winner = self.attempt.step, self.winner.step
        if isinstance(step, AnsweredAttempt) or not isinstance(step, SentAttempt):
            return
        registry, now = context.deps.route_health, context.timeline.now()
        ttft = registry.health_of(self.attempt.choice.route).ttft
        if self._is_late:
            ttft.record(inf, now)
        elif isinstance(winner, AnsweredAttempt):
            usual = registry.health_of(self.winner.choice.route).ttft.median(now)
            if usual is not None and usual >= hedge_delay_s(self.deadline):
                ttft.assume(winner.ttft, now)

    @property
    def _is_late(self) -> bool:
        return self.waited_s >= hedge_delay_s(self.deadline)


def stalled_after_s(deadline: float) -> float:
    """Seconds without content after which an attempt counts as stalled.

    Args:
        deadline: Seconds that its first content may take.
    """
    return max(_STALL_AFTER_DEADLINES * deadline, _MIN_STALL_S)
