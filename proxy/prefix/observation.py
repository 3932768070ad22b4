"""Finds out how much of a cache an answered call missed, and why.

A call could have read what the call before it held, or what was sent before as a prefix, whichever
is more. Providers know of calls that this process does not, such as those of another process or
from before a restart. So the loss that a provider reports is the least, and its reason counts where
ours finds none.
"""

from fractions import Fraction
from typing import Final

import msgspec

from proxy.prefix.breakpoints.plan import Plan
from proxy.prefix.conversations import ConversationState
from proxy.prefix.explain.findings import CallEvidence, MissCase, MissFinding, find_reason
from proxy.prefix.explain.reasons import CacheMiss, MissReason, ProviderReason, ReasonConfidence
from proxy.prefix.planned import Draft, Planned
from proxy.prefix.prediction.changes import repeated_bytes
from proxy.prefix.prediction.prefix_chains import ExpectedRead
from proxy.prefix.prediction.sent_call import MORE_LEFT_OUT, SentCall, blocks_left_out
from proxy.prefix.prompts.prompt import Prompt
from slo.price import TokenRates
from slo.usage import Usage

#: A shortfall below this share of what could be read is an error of estimates.
_READABLE_SLACK_DIVISOR: Final = 20
#: The same as a share of what else is in the prompt.
_OTHER_SLACK_DIVISOR: Final = 5
_MIN_SLACK_TOKENS: Final = 64
#: Seconds after which an answer has begun, so that others may read what its call stored.
ANSWERED_S: Final = 1.0
_TOKENS_PER_MILLION: Final = 1_000_000
_SAYS: Final = "the provider says {}"


def explain_miss(
    evidence: CallEvidence,
    usage: Usage,
    rates: TokenRates | None = None,
    *,
    provider_reason: ProviderReason | None = None,
    shown: Prompt | None = None,
) -> CacheMiss | None:
    """Reason that the call read less than it could have; None where it did not.

    ``usage`` is the provider's count, not an estimate. ``shown`` is the prompt that was sent, only
    where its team keeps prompts: its words may then stand in the detail.
    """
    total = usage.prompt_tokens
    if not evidence.sent.regime.name or not total:
        return provider_miss(provider_reason, usage, rates)
    expected = evidence.expected.rescale(total)
    could = _readable_tokens(evidence, expected, total)
    enough, slack, lost = _shortfall(evidence.sent, could, usage)
    if lost <= slack and (could or usage.cache_read):
        return provider_miss(provider_reason, usage, rates)
    finding = find_reason(
        MissCase(
            evidence=evidence,
            expected=expected,
            could=could,
            enough=enough,
            total=total,
            read=usage.cache_read,
            shown=shown,
        )
    )
    if provider_reason is not None:
        finding = _merge_reasons(finding, provider_reason)
        lost = max(lost, _cap_at_unread(provider_reason.tokens or 0, usage))
    return CacheMiss(
        reason=finding.reason,
        detail=finding.detail,
        confidence=finding.confidence,
        tokens=lost,
        nanos=lost_nanos(lost, usage, rates),
    )


def provider_miss(
    provider_reason: ProviderReason | None, usage: Usage | None, rates: TokenRates | None = None
) -> CacheMiss | None:
    """Return the miss that only the provider reports; None where it reports none."""
    if provider_reason is None:
        return None
    lost, nanos = provider_reason.tokens, None
    if lost is not None and usage is not None:
        lost = _cap_at_unread(lost, usage)
        nanos = lost_nanos(lost, usage, rates)
    return CacheMiss(
        reason=provider_reason.reason,
        detail=_SAYS.format(provider_reason.detail),
        confidence=ReasonConfidence.LIKELY,
        tokens=lost or 0,
        nanos=nanos,
    )


def lost_nanos(tokens: int, usage: Usage, rates: TokenRates | None) -> int | None:
    """Cost of tokens that were not read, in nano-dollars; None where a price is unknown.

    What could have been read would not have been written again, so as many tokens as possible
    count at the price of this call's writes and the rest as fresh.
    """
    if not tokens:
        return 0
    if rates is None or rates.cache_read is None:
        return None
    buckets = (
        (usage.write_5m, rates.write_5m),
        (usage.write_30m, rates.write_30m),
        (usage.write_1h, rates.write_1h),
        (usage.write_12h, rates.write_12h),
    )
    spent = Fraction(0)
    for count, rate in buckets:
        if count and rate is None:
            return None
        spent += count * (rate or 0)
    written = min(tokens, usage.cache_write_tokens)
    paid = spent * written / usage.cache_write_tokens if written else Fraction(0)
    if tokens > written:
        if rates.input is None:
            return None
        paid += (tokens - written) * rates.input
    return round((paid - tokens * rates.cache_read) / _TOKENS_PER_MILLION)


def _cap_at_unread(lost: int, usage: Usage) -> int:
    """No more tokens than were not read."""
    return min(lost, usage.prompt_tokens - usage.cache_read)


def _readable_tokens(evidence: CallEvidence, expected: ExpectedRead, total: int) -> int:
    """Tokens that could have been read, had all gone well."""
    before, call = evidence.before, evidence.sent
    again = expected.scale.tokens_of(repeated_bytes(call, before)) if before is not None else 0
    return min(max(again, expected.known), total - call.regime.fresh)


def _shortfall(call: SentCall, could: int, usage: Usage) -> tuple[int, int, int]:
    """Tokens that surely could be read, how many less are no miss, and those that were lost.

    Texts differ in tokens per byte: the more else there is in a prompt, the less is known of a part
    of it.

    A cache that stores every so many tokens reads whole steps; as their length is assumed, one step
    less is no miss where something was read.
    """
    total = usage.prompt_tokens
    slack = max(
        _MIN_SLACK_TOKENS,
        could // _READABLE_SLACK_DIVISOR,
        min(could, total - could) // _OTHER_SLACK_DIVISOR,
    )
    if call.regime.block <= _MIN_SLACK_TOKENS:
        return could - slack, slack, max(0, could - usage.cache_read)
    enough = call.regime.readable_tokens(could - slack, total)
    lost = max(0, enough - usage.cache_read)
    return enough, call.regime.block - 1 if usage.cache_read else 0, lost


def _merge_reasons(finding: MissFinding, provider_reason: ProviderReason) -> MissFinding:
    """Ours where the provider agrees, now for certain; else the provider's, for it must know.

    Either way both are told.
    """
    says = _SAYS.format(provider_reason.detail)
    # A provider cannot know who chose the model that it sees change.
    is_own = finding.reason is MissReason.REROUTED
    if finding.reason is provider_reason.reason or (
        is_own and provider_reason.reason is MissReason.PARAMETER_CHANGED
    ):
        detail = f"{finding.detail}; {says}" if finding.detail else says
        return MissFinding(finding.reason, detail, ReasonConfidence.CERTAIN)
    if finding.reason is MissReason.PROVIDER_SIDE or not finding.detail:
        return MissFinding(provider_reason.reason, says, ReasonConfidence.LIKELY)
    return MissFinding(
        provider_reason.reason, f"{says}; by our account {finding.detail}", ReasonConfidence.LIKELY
    )


class CallObservation(msgspec.Struct, frozen=True, kw_only=True):
    """A call beside those before it.

    Attributes:
        before: Earlier calls of its conversation.
        left_out: Number of blocks at the end of one of the latest calls that it does not repeat;
            None where it did not have to extend one.
        tokens: Tokens of its prompt without its tail; by estimate, where none were counted.
    """

    before: int
    left_out: int | None
    tokens: int


def observe_call(
    planned: Planned, usage: Usage | None, state: ConversationState
) -> CallObservation:
    """Return what is learned of its conversation from an answered call."""
    draft, evidence = planned.draft, planned.evidence
    call, expected = evidence.sent, evidence.expected
    total = usage.prompt_tokens if usage is not None else call.estimate
    known_tokens = expected.rescale(total).known
    gap = max(0.0, evidence.now - state.latest) if state.calls else 0.0
    answered = draft.turns > state.turns or gap >= ANSWERED_S
    follows = state.calls > 0 and not call.compacted  # what we shortened says nothing of habits
    repeatable = expected.scale.with_total(total).tokens_of(call.ends[call.repeatable_blocks])
    return CallObservation(
        before=calls_before(draft, planned.plan, state),
        left_out=_blocks_left_out(call, state, known_tokens) if follows and answered else None,
        tokens=repeatable,
    )


def find_miss(
    planned: Planned, usage: Usage | None, *, provider_reason: ProviderReason | None = None
) -> CacheMiss | None:
    """Explain why less was read than could have been; from the call alone, so it is thread-safe."""
    if usage is None:
        return provider_miss(provider_reason, None)
    shown = planned.prompt if planned.draft.request.shows else None
    miss = explain_miss(
        planned.evidence, usage, planned.target.rates, provider_reason=provider_reason, shown=shown
    )
    waits = planned.trial.waits if planned.trial is not None else ""
    if miss is None or miss.reason is not MissReason.UNMARKED or not waits:
        return miss
    return msgspec.structs.replace(miss, detail=f"{waits}; {miss.detail}")


def calls_before(draft: Draft, plan: Plan, state: ConversationState) -> int:
    """Number of calls its conversation had, at least.

    Answers in a prompt whose conversation was not known may be examples that its caller wrote.
    """
    return max(state.calls, 0 if plan.joined else draft.turns)


def _blocks_left_out(call: SentCall, state: ConversationState, known_tokens: int) -> int:
    """Number of blocks at the end of one of the latest calls of its conversation it leaves out.

    None if it begins with nearly all of one; where what is stored ends at marks, with all.
    """
    is_nearly_all = known_tokens * 10 >= state.tokens * 9
    if not call.regime.takes_marks:
        return 0 if is_nearly_all else MORE_LEFT_OUT
    if is_nearly_all and not set(state.points).isdisjoint(call.points):
        return 0
    return blocks_left_out(call, state.endings) or MORE_LEFT_OUT
