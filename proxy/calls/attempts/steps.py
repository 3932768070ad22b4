"""The steps of an attempt: each has what the one before had, and what it adds.

::

    started → compacted → planned → translated → reserved → sent → accepted → answered

A step is final: what comes later is another value. What is known at a step is known at all later
ones, so ``isinstance(step, SentAttempt)`` is true from sending on.
"""

from typing import Final

import msgspec

from proxy.calls.metering.metering import Meter
from proxy.calls.metering.settlement import AttemptInfo
from proxy.calls.recalled_answer import RecalledAnswer
from proxy.calls.route_choice import is_overflow
from proxy.calls.upstream_answer import UpstreamAnswer
from proxy.errors import UpstreamError
from proxy.prefix.planned import Passthrough, Planned
from proxy.providers.port import PreparedRequest
from proxy.records.compaction_result import RECALL_FAILED, REFUSED, CompactionResult

#: Statuses of a request that is wrong in itself; it may be what planning made of it.
_REFUSED_STATUSES: Final = frozenset({400, 413, 422})


class StartedAttempt(msgspec.Struct, frozen=True, kw_only=True):
    """An attempt at its route; its call is said in the API of the route's upstream.

    Attributes:
        info: Facts for its receipt, as far as they are known at this step.
    """

    info: AttemptInfo

    def refused_compaction(self, failure: UpstreamError) -> CompactionResult | None:
        """The compaction to go on without, with the reason; None where it is not to blame.

        Its upstream may have refused what it changed, or its model recalled without end. A prompt
        that is too long compacted is longer unmodified.
        """
        result = self.info.compaction
        requested = self.info.asked_call
        is_other = result.call(requested).body is not requested.body
        may_be = is_other and failure.status in _REFUSED_STATUSES and not is_overflow(failure)
        why = RECALL_FAILED if failure.code == RECALL_FAILED else REFUSED
        return msgspec.structs.replace(result, why=why) if may_be else None

    def refused_plan(self, failure: UpstreamError) -> Planned | None:
        """The plan, where the upstream may have refused what it changed."""
        return None


class CompactedAttempt(StartedAttempt, frozen=True, kw_only=True):
    """An attempt whose prompt was compacted, where its feature or its caller asks for that."""


class PlannedAttempt(CompactedAttempt, frozen=True, kw_only=True):
    """An attempt whose prompt is arranged for its route's cache.

    Attributes:
        plan: The plan, or why the prompt is sent unmodified.
    """

    plan: Planned | Passthrough

    @property
    def changed_plan(self) -> Planned | None:
        """The plan that changed the caller's prompt; None where it is unmodified."""
        plan = self.plan
        is_changed = isinstance(plan, Planned) and plan.body is not self.info.sent_call.body
        return plan if is_changed and isinstance(plan, Planned) else None

    def refused_plan(self, failure: UpstreamError) -> Planned | None:
        """The plan, where the upstream may have refused what it changed."""
        return self.changed_plan if failure.status in _REFUSED_STATUSES else None


class TranslatedAttempt(PlannedAttempt, frozen=True, kw_only=True):
    """An attempt with its request in the upstream's words."""

    request: PreparedRequest


class ReservedAttempt(TranslatedAttempt, frozen=True, kw_only=True):
    """An attempt whose request is within its ceilings, and reserved in its budgets."""


class SentAttempt(ReservedAttempt, frozen=True, kw_only=True):
    """An attempt whose request was sent.

    Attributes:
        sent_at: The timeline's clock when it was sent.
        was_accepted: True if the upstream is at work on it, and so may bill it.
        failed_meter: Meter of an answer that failed early; None where none came.
    """

    sent_at: float
    was_accepted: bool = True
    failed_meter: Meter | None = None


class AcceptedAttempt(SentAttempt, frozen=True, kw_only=True):
    """An attempt whose answer has a head that is no error."""

    answer: UpstreamAnswer | RecalledAnswer


class AnsweredAttempt(AcceptedAttempt, frozen=True, kw_only=True):
    """An attempt at its commit point: the first content has come.

    Attributes:
        ttft: Seconds from sending to the first content.
    """

    ttft: float
