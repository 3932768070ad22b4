"""Derives reuse observations and cache misses from answered calls."""

import msgspec

from proxy.prefix.breakpoints.placement import is_cacheable_length
from proxy.prefix.breakpoints.plan import Plan
from proxy.prefix.breakpoints.reuse_statistics import ReadOutcome, SeenCall
from proxy.prefix.conversations import ANSWERED, ConversationState
from proxy.prefix.explain.findings import CallEvidence
from proxy.prefix.explain.misses import explain_miss, provider_miss
from proxy.prefix.explain.reasons import CacheMiss, ProviderReason
from proxy.prefix.planned import Draft, Planned
from proxy.prefix.prediction.prompt_digests import MORE, blocks_left_out, digest_start
from proxy.prefix.prediction.sent import SentCall
from proxy.prefix.prompts.prompt import PromptSlot
from slo.usage import Usage


class CallObservation(msgspec.Struct, frozen=True, kw_only=True):
    """A call beside those before it.

    Attributes:
        seen: What it tells of its feature.
        compares: Whether it had to extend an earlier call of its conversation.
        tokens: What its prompt was; by estimate, where nobody counted.
    """

    seen: SeenCall
    compares: bool
    tokens: int


def observe_call(planned: Planned, usage: Usage | None, talk: ConversationState) -> CallObservation:
    """Return what reuse statistics learn from an answered call.

    Args:
        planned: The call.
        usage: What its provider counted; None where it did not.
        talk: Its conversation before it.
    """
    draft, evidence = planned.draft, planned.evidence
    sent, expected = evidence.sent, evidence.expected
    total = usage.prompt_tokens if usage is not None else sent.estimate
    known = expected.rescale(total).known
    counts = is_cacheable_length(total, sent.regime)
    gap = max(0.0, evidence.now - talk.latest) if talk.calls else 0.0
    answered = draft.turns > talk.turns or gap >= ANSWERED
    begins = digest_start(sent.blocks)
    shares = known * 10 >= total * _stable_share(sent) * 9
    whole = not sent.regime.takes_marks or expected.same >= begins.stable
    follows = talk.calls > 0 and not sent.compacted  # what we shortened says nothing of habits
    extends = answered and _extends(sent, talk, known) if follows else None
    seen = SeenCall(
        before=calls_before(draft, planned.plan, talk),
        gap=gap,
        extends=extends,
        left=_blocks_left_out(sent, talk, answered=answered, extends=extends),
        counts=counts,
        counted=not talk.calls or is_cacheable_length(talk.tokens, sent.regime),
        repeats=counts and known >= total and (expected.idle or 0.0) >= ANSWERED,
        shares=shares and whole,
        equips=expected.same >= begins.tools,
        layout=planned.plan.layout,
        reads=_reads(evidence, usage),
    )
    return CallObservation(seen=seen, compares=follows and answered, tokens=total)


def find_miss(
    planned: Planned, usage: Usage | None, *, told: ProviderReason | None = None
) -> CacheMiss | None:
    """Explain why less was read than could have been; needs the call alone, so it is thread-safe.

    Args:
        planned: The call that was answered.
        usage: What its provider counted; None where it did not.
        told: The provider's own reason for a miss, where it gave one.
    """
    if usage is None:
        return provider_miss(told, None)
    shown = planned.prompt if planned.draft.asked.shows else None
    return explain_miss(planned.evidence, usage, planned.way.rates, told=told, shown=shown)


def calls_before(draft: Draft, plan: Plan, talk: ConversationState) -> int:
    """Number of calls its conversation had, at least.

    Answers in a prompt whose conversation nobody knew may be examples that its caller wrote.
    """
    return max(talk.calls, 0 if plan.joined else draft.turns)


def _reads(evidence: CallEvidence, usage: Usage | None) -> ReadOutcome | None:
    """True if what should have been read was, as its provider counted; None for nothing to say."""
    sent = evidence.sent
    if usage is None or not sent.regime.takes_marks or not evidence.expected.tokens:
        return None
    expected = evidence.expected.rescale(usage.prompt_tokens)
    enough = usage.cache_read * 10 >= expected.tokens * 9
    talk = sent.ends[sent.stretches.talk.start]
    return ReadOutcome(in_talk=expected.tokens > expected.scale.tokens_of(talk), came_true=enough)


def _extends(sent: SentCall, talk: ConversationState, known: int) -> bool:
    """True if a call begins with all that one of the latest of its conversation sent.

    Where what is stored ends at marks, nearly all is not enough.
    """
    if known * 10 < talk.tokens * 9:
        return False
    return not sent.regime.takes_marks or not set(sent.points).isdisjoint(talk.points)


def _blocks_left_out(
    sent: SentCall, talk: ConversationState, *, answered: bool, extends: bool | None
) -> int:
    """Number of blocks at the end of one of the latest calls of its conversation it leaves out."""
    if extends:
        return 0
    if not answered or not sent.regime.takes_marks:
        return MORE
    return blocks_left_out(sent.blocks, talk.endings) or MORE


def _stable_share(call: SentCall) -> float:
    """Which share of a prompt is its stable slot; 0 for an empty prompt."""
    front = call.blocks[: call.stretches.talk.start]
    return sum(block.size for block in front if block.slot is PromptSlot.STABLE) / max(1, call.size)
