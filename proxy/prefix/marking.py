"""Chooses a call's cache key and marks, and learns from its answer what marks are worth."""

from collections.abc import Iterator
from typing import Final, NamedTuple

import msgspec

from proxy.prefix.arrangement import ArrangedPrompt, mark_prompt, sent_call
from proxy.prefix.breakpoints import policies
from proxy.prefix.breakpoints.account import MAX_PLACES, PromptPlace
from proxy.prefix.breakpoints.plan import BreakpointPolicy, shared_policy
from proxy.prefix.conversations import ConversationState
from proxy.prefix.explain.findings import CallEvidence
from proxy.prefix.mark_stakes import LOST_PLACES, MarkedVariant
from proxy.prefix.observation import CallObservation, calls_before
from proxy.prefix.planned import (
    Draft,
    FullyMarkedCall,
    Planned,
    PlanningTarget,
    layout_place,
)
from proxy.prefix.prediction.lookups import stores_marks_alone
from proxy.prefix.prediction.prefix_chains import PaperCall, expected_usage
from proxy.prefix.prediction.sent_call import MORE_LEFT_OUT, SentCall, blocks_left_out
from proxy.prefix.prompts.fingerprints import name_digest
from proxy.prefix.team_indexes import TeamIndexes
from proxy.prefix.unmodified import UsageComparison
from proxy.records.feature_mode import LayoutScope
from slo.usage import Usage

_USER: Final = "user"


class CallToMark(NamedTuple):
    """A call in order, before it is marked.

    Attributes:
        found: Its prompt, in order.
        alike: The same with other marks: what does not depend on them is computed once.
    """

    indexes: TeamIndexes
    draft: Draft
    target: PlanningTarget
    found: ArrangedPrompt
    now: float
    alike: SentCall

    @classmethod
    def begin(
        cls,
        indexes: TeamIndexes,
        draft: Draft,
        target: PlanningTarget,
        found: ArrangedPrompt,
        now: float,
    ) -> "CallToMark":
        """The call, of which nothing is computed yet."""
        alike = SentCall(regime=target.regime, blocks=found.bare, tail=found.prompt.tail)
        return cls(indexes, draft, target, found, now, alike)

    @property
    def place(self) -> LayoutScope:
        """Scope of its account."""
        return layout_place(self.draft.request, self.target.model)

    @property
    def state(self) -> ConversationState:
        """Its conversation before it."""
        return self.indexes.states.peek(self.draft.conversation) or ConversationState()

    def key_policy(self) -> BreakpointPolicy:
        """The policy that sends its cache key alone, in which no text of the caller's leaves."""
        request, model = self.draft.request, self.target.model
        names = f"{request.team}\0{model}", f"{request.team}\0{request.feature}\0{model}"
        team, feature = (name_digest(self.draft.fingerprint, name).hex()[:16] for name in names)
        key = policies.conversation_cache_key(self.target.regime, team, feature)
        return BreakpointPolicy(key=key)

    def with_marks(self, policy: BreakpointPolicy) -> MarkedVariant:
        """The call with the marks of a policy."""
        draft, target, indexes = self.draft, self.target, self.indexes
        sending = mark_prompt(draft, target, self.found, policy, self.alike.ends[1:])
        call = sent_call(draft, target, self.found, sending)
        call.share(self.alike)
        evidence = CallEvidence(
            sent=call,
            expected=indexes.chains.expect_read(call, self.now),
            before=indexes.traces.previous_call(call),
            now=self.now,
        )
        direct = indexes.unmodified.unmodified_call(draft, target, self.found, sending, evidence)
        return MarkedVariant(sending, evidence, direct, has_layout=bool(self.found.plan.layout))


def with_cache_key(call: CallToMark) -> tuple[CallToMark, BreakpointPolicy]:
    """Decide the conversation's key on this kind of cache, once; the call, and that key alone."""
    draft, target, indexes = call.draft, call.target, call.indexes
    name = f"{target.regime.name}/{target.regime.provider}"
    known_policies = call.found.plan.policies
    if name in known_policies:
        return call, known_policies[name]
    shared_key = indexes.agent_keys.choose_key(draft, target, call.found, call.now)
    own = msgspec.structs.replace(call.key_policy(), shared_key=shared_key)
    plan = msgspec.structs.replace(
        call.found.plan, policies={name: shared_policy(own), **known_policies}
    )
    return call._replace(found=msgspec.structs.replace(call.found, plan=plan)), own


def with_all_marks(call: CallToMark, own: BreakpointPolicy) -> BreakpointPolicy:
    """The policy of a conversation's key with a mark at each fixed place."""
    if not call.target.takes_marks:
        return own
    past, bare = call.state, call.alike
    left = call.indexes.left_out.peek(call.place) or 0
    if past.calls:
        left = blocks_left_out(bare, past.endings)
    left_out = left if left < MORE_LEFT_OUT else 0
    ttl = call.indexes.stakes.lifetime(call.place, call.target.regime)
    is_unread = policies.writes_unread_ends(call.target.regime, past.openings, bare.start)
    tail = call.found.prompt.tail
    policy = policies.fixed_marks(
        call.target.regime,
        own,
        left_out=left_out,
        explicit=is_unread,
        ends_early=tail > 0 and _USER in [block.role for block in bare.blocks[-tail:]],
        ttl=ttl,
    )
    is_shared = bare.start.head in [opening.head for opening in past.openings]
    return policies.marks_up_to(policy, 0) if is_unread and not is_shared else policy


def affordable_variant(
    call: CallToMark, policy: BreakpointPolicy
) -> tuple[MarkedVariant, FullyMarkedCall | None]:
    """The call with as many marks as pay their surcharge, and with all of them on paper."""
    stakes, whole = call.indexes.stakes, call.with_marks(policy)
    call = call._replace(alike=whole.evidence.sent)
    trial = stakes.fully_marked_call(whole)
    if trial is None:
        return whole, None
    before = calls_before(call.draft, call.found.plan, call.state)
    max_places = stakes.marked_places(call.place, call.target, whole.evidence, before)
    waits = LOST_PLACES[max_places] if max_places < MAX_PLACES else ""
    for places, fewer in _cheaper_policies(policy, max_places):
        variant = whole if fewer is policy else call.with_marks(fewer)
        if variant.marked_places > max_places:
            continue
        number, reason = stakes.reserve(call.place, call.target, variant, places)
        if number:
            is_live = variant.evidence.sent.marks == trial.sent.marks
            live = msgspec.structs.replace(trial, is_live=is_live, number=number, waits=waits)
            return variant, live
        waits = reason or waits
    unmarked = call.with_marks(policies.marks_up_to(policy, 0))
    return unmarked, msgspec.structs.replace(trial, waits=waits)


def _cheaper_policies(
    policy: BreakpointPolicy, max_places: int
) -> Iterator[tuple[int, BreakpointPolicy]]:
    """The policy with so many places at most, then without the conversation, then tools alone."""
    if not max_places:
        return
    yield max_places, policies.marks_up_to(policy, max_places)
    if max_places > PromptPlace.FIRST_CALL:
        yield PromptPlace.FIRST_CALL.value, policies.marks_up_to(policy, PromptPlace.FIRST_CALL)
    yield 1, policies.marks_up_to(policy, 1)


def paper_call(planned: Planned, usage: Usage | None) -> PaperCall | None:
    """The answered call with all its marks; None where it counts for no account."""
    trial, call = planned.trial, planned.evidence.sent
    if usage is None:
        return PaperCall(trial.sent, None) if trial is not None else None
    direct = planned.direct.sent if planned.direct is not None else call
    if not planned.plan.is_planned or not stores_marks_alone(direct):
        return None
    if trial is None or trial.is_live:
        return PaperCall(call if trial is None else trial.sent, usage)
    marked = expected_usage(trial.sent, trial.expected, usage.prompt_tokens)
    return PaperCall(trial.sent, marked)


def record_marks(
    indexes: TeamIndexes,
    planned: Planned,
    usage: Usage | None,
    compared: UsageComparison | None,
    paper: PaperCall | None,
    observation: CallObservation,
) -> None:
    """Count what an answered call's marks brought, and how its conversation goes on.

    Args:
        compared: Its expected usage beside that of the unmodified call; None without usage.
        paper: The call with all its marks; None where it counts none.
    """
    if observation.left_out is not None:
        indexes.left_out.put(planned.place, observation.left_out)
    if usage is None or compared is None:
        indexes.stakes.record_unanswered_call(planned)
    elif planned.plan.is_planned:
        indexes.stakes.record_call(planned, usage, compared.unmodified, paper, observation.before)
