"""One attempt, from its route to the first content byte of its answer.

::

    convert → compact → plan → translate → reserve → send → commit

Each takes the step before and returns the next one: see ``steps.py``, and ``preparing.py`` and
``sending.py``, which take them. The attempt remembers the last, for its receipt and for what has to
be released, however it ends. It writes no receipt: only the code that runs it knows how the call
goes on, and so its outcome.
"""

from typing import TypeVar

import msgspec

from proxy.calls.attempts.steps import AnsweredAttempt, PlannedAttempt, SentAttempt, StartedAttempt
from proxy.calls.metering.finished_turn import finished_turn
from proxy.calls.metering.settlement import AttemptInfo, estimate_from_length
from proxy.calls.ports import CallContext
from proxy.calls.route_choice import ReplicaTicket, RouteChoice, choice_headers, replica_text
from proxy.calls.route_health import route_succeeded
from proxy.records.compaction_result import CompactionResult

StepT = TypeVar("StepT", bound=StartedAttempt)


class AnswerBeginning(msgspec.Struct, frozen=True):
    """The beginning of an answer that broke off, which an attempt goes on from.

    Attributes:
        text: The text that the caller has.
        note: Note for the receipt.
    """

    text: str
    note: str


class AttemptOptions(msgspec.Struct, frozen=True):
    """The way an attempt differs from a call's first.

    Attributes:
        is_resent: True if it was refused with a plan, and is now sent unmodified.
        refused_compaction: Its compaction when it was refused, with the reason; it goes without.
        may_switch_model: True if it may go to another model where it is too dear here.
        skipped: Models that cannot take the call, and why; more may be added.
        beginning: Beginning of the answer that it goes on from; None where it begins it.
    """

    is_resent: bool = False
    refused_compaction: CompactionResult | None = None
    may_switch_model: bool = True
    skipped: dict[str, str] = msgspec.field(default_factory=dict)
    beginning: AnswerBeginning | None = None


class Attempt:
    """An attempt at one route, and the last step that it came to."""

    __slots__ = ("choice", "context", "options", "step")

    def __init__(
        self,
        context: CallContext,
        choice: RouteChoice,
        number: int,
        options: AttemptOptions | None = None,
    ) -> None:
        """Nothing is done yet.

        Args:
            number: Counts the call's attempts, from 0.
        """
        self.context = context
        self.choice = choice
        self.options = options or AttemptOptions()
        replica = replica_text(choice)
        info = AttemptInfo(
            call=context.call,
            route=choice.route,
            number=number,
            reroute_reason=choice.reroute_reason,
            headers=choice_headers(choice, replica),
            replica=replica,
            served_by=choice.served_by,
            instead_of=choice.instead_of,
        )
        self.step = StartedAttempt(info=info)

    @property
    def info(self) -> AttemptInfo:
        """Facts for its receipt, as far as it came."""
        return self.step.info

    def reach(self, step: StepT) -> StepT:
        """Note the step as the last one it came to."""
        self.step = step
        return step

    def close(self, failure: BaseException | None = None) -> None:
        """Release all it holds; called once, however it ended.

        Args:
            failure: Exception that ended it before its commit point; None where it got there.
        """
        step = self.step
        if isinstance(step, AnsweredAttempt):
            step.answer.exchange.close()
        if isinstance(step, SentAttempt):
            if self.choice.replica is not None:
                self._leave_replica(self.choice.replica, step)
            self._leave_route(step, failure)
        if isinstance(step, PlannedAttempt):
            self.context.deps.planning.note_attempt_ended(step.plan)

    def _leave_replica(self, replica: ReplicaTicket, step: SentAttempt) -> None:
        """Tell the replica's router that the call is over, with the engine's own usage."""
        meter = step.answer.meter if isinstance(step, AnsweredAttempt) else None
        usage = meter.usage if meter is not None and not meter.has_implausible_usage else None
        is_own = step.info.sent_call is step.info.asked_call and step.changed_plan is None
        replica.end(usage, is_comparable=is_own, turn=finished_turn(step.info, meter))

    def _leave_route(self, step: SentAttempt, failure: BaseException | None) -> None:
        """Give the route's place back, with how it did."""
        registry, route = self.context.deps.route_health, self.choice.route
        now = self.context.timeline.now()
        if failure is not None:
            registry.record_outcome(route, failure, step.sent_at, now)
        health = registry.health_of(route)
        if health.limit is None:
            return
        answered = step if isinstance(step, AnsweredAttempt) else None
        usage = answered.answer.meter.usage if answered is not None else None
        usage = usage or estimate_from_length(step.info.sent_call, "", route)
        ttft = answered.ttft if answered is not None else None
        uncached_tokens = usage.prompt_tokens - usage.cache_read
        health.release(ttft, uncached_tokens, now, ok=route_succeeded(failure))
