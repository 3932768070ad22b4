"""Builds an attempt's receipt from its outcome: usage, cost, and what each optimiser did; pure."""

from collections.abc import Mapping
from typing import Any

import msgspec

from proxy.calls.eligibility.request_traits import request_traits
from proxy.calls.metering.phases import phase_fields
from proxy.calls.metering.recall_tally import RecallTally
from proxy.calls.metering.settlement import AttemptInfo, AttemptOutcome, attempt_cost
from proxy.prefix.explain.reasons import CacheMiss, ReasonConfidence
from proxy.prefix.planned import Passthrough, Planned
from proxy.prefix.prompts.fingerprints import Pseudonymizer
from proxy.prefix.unmodified import compare_bill
from proxy.records.call import Call
from proxy.records.compaction_result import compaction_savings
from proxy.records.receipt import Outcome, Receipt, ServedBy
from proxy.records.timeline import Timeline
from slo.price import STANDARD_TERMS, cache_effect, call_cost

_BACKGROUND_NOTE = "answered in the background: what it used is not known here"
_FEES_NOTE = "it offered hosted tools: their fees, where it used them, are not in the cost"
#: The need of a call for several answers, whose tokens add up.
_CHOICES = "choices"
_CUT_NOTE = (
    "its answer has all {:,} tokens that its limit allows, so it was probably cut; the answer cache"
    " keeps no cut answer"
)
_MAX_KEPT_PROMPT_BYTES = 4 * 1024 * 1024


def build_receipt(
    attempt: AttemptInfo, end: AttemptOutcome, timeline: Timeline, seal: Pseudonymizer
) -> Receipt:
    """The record of the attempt, up to now; usage of an answer in the background is unknown."""
    call, route = attempt.call, attempt.route
    goes_on = end.estimated and call.is_background
    if goes_on and end.outcome is Outcome.ANSWERED:
        end = msgspec.structs.replace(end, usage=None, estimated=False)
    end, single = _with_recalls(attempt, end)
    paid = attempt_cost(attempt, end)
    duration = timeline.now() - timeline.started
    receipt = Receipt(
        call_id=call.id,
        attempt=attempt.number,
        final=end.final,
        started=call.arrived,
        team=call.key.team,
        key_id=call.key.id,
        feature=call.feature,
        user=seal.pseudonym(call.key.team, call.end_user.encode()),
        endpoint=call.endpoint,
        model=call.model,
        route=route.name if route is not None else "",
        upstream=route.upstream.name if route is not None else "",
        streamed=call.is_streaming,
        status=end.status,
        outcome=end.outcome,
        error=end.error,
        usage=end.usage,
        estimated=end.estimated,
        list_nanos=paid.list_nanos if paid is not None else None,
        cost_nanos=paid.effective_nanos if paid is not None else None,
        ttft=timeline.ttft,
        duration=duration,
        overhead=max(duration - timeline.waited_s, 0.0),
        fingerprint=seal.pseudonym(call.key.team, call.body),
        upstream_id=end.upstream_id,
        upstream_request_id=attempt.upstream_request_id,
        notes=_all_notes(attempt, single, goes_on=goes_on, is_priced=paid is not None),
        prompt=_kept_prompt(call),
        reroute_reason=attempt.reroute_reason,
        unplanned_why=_unplanned_why(attempt.planned),
        tags=call.tags,
        upstream_error=end.upstream_error,
    )
    fields = _optimiser_fields(attempt, end, single)
    if end.timings is not None:
        fields |= phase_fields(end.timings, timeline, attempt.sent_at, streamed=call.is_streaming)
    return msgspec.structs.replace(receipt, **fields) if fields else receipt


def _with_recalls(
    attempt: AttemptInfo, end: AttemptOutcome
) -> tuple[AttemptOutcome, AttemptOutcome]:
    """The outcome with all rounds of recall, and as it would be without."""
    recall = attempt.recall
    if recall is None or not recall.rounds:
        return end, end
    single = msgspec.structs.replace(end, usage=recall.single(end.usage))
    is_estimated = end.estimated or recall.is_estimated
    total = msgspec.structs.replace(end, usage=recall.total(end.usage), estimated=is_estimated)
    return total, single


def _all_notes(
    attempt: AttemptInfo, single: AttemptOutcome, *, goes_on: bool, is_priced: bool
) -> tuple[str, ...]:
    """Notes of the attempt, and for the receipt alone: replica, length, gaps of its cost."""
    notes = (*attempt.notes, *_length_notes(attempt.call, single))
    if attempt.replica:
        notes = (*notes, f"replica {attempt.replica}")
    if goes_on:
        notes = (*notes, _BACKGROUND_NOTE)
    if is_priced and attempt.route is not None and (before := attempt.route.assumed_price_of):
        notes = (
            *notes,
            f"its price is assumed: that of {before}, as the catalog has none of its own",
        )
    return (*notes, _FEES_NOTE) if attempt.call.offers_hosted else notes


def _length_notes(call: Call, end: AttemptOutcome) -> tuple[str, ...]:
    """A note where an answer is as long as its limit, so that it was probably cut."""
    traits = request_traits(call)
    limit, used = traits.output, 0 if end.usage is None else end.usage.generated_tokens
    is_at_limit = end.outcome is Outcome.ANSWERED and not end.estimated and 0 < limit <= used
    if not is_at_limit or _CHOICES in traits.needs:
        return ()
    return (_CUT_NOTE.format(limit),)


def _optimiser_fields(
    attempt: AttemptInfo, end: AttemptOutcome, single: AttemptOutcome
) -> dict[str, Any]:
    """The receipt's fields about planning, compaction, the provider's cache and the replica.

    Args:
        single: Outcome as it would be without rounds of recall.
    """
    fields = _planning_fields(attempt, single)
    if end.share is not None:
        fields["gpu_seconds"] = end.share.gpu_seconds
    fields.update(_compaction_fields(attempt, single))
    if attempt.recall is not None and attempt.recall.rounds:
        fields.update(_recall_fields(attempt, attempt.recall, (end, single), fields))
    fields.update(_cache_fields(attempt, end))
    if attempt.served_by:
        fields |= {"served_by": attempt.served_by, "fast_path_nanos": _saved_nanos(attempt, end)}
    return fields


def _saved_nanos(attempt: AttemptInfo, end: AttemptOutcome) -> int | None:
    """Nano-dollars that a small model saved against the one asked for, cold; None where unknown.

    The answer is taken to be as long as the other model's would have been. One that failed, or was
    not accepted, cost all that it cost; and so did a draft.
    """
    paid = attempt_cost(attempt, end)
    if attempt.served_by is ServedBy.DRAFT:
        return None if paid is None else -paid.effective_nanos
    if paid is not None and attempt.instead_of is not None and end.outcome is Outcome.FAILED:
        return -paid.effective_nanos
    large = attempt.instead_of.tariff if attempt.instead_of is not None else None
    if paid is None or large is None or end.usage is None:
        return None
    direct = call_cost(end.usage, large, attempt.call.arrived, STANDARD_TERMS)
    return None if direct is None else direct.effective_nanos - paid.effective_nanos


def _unplanned_why(planned: Planned | Passthrough) -> str:
    """Reason that a prompt was not planned; "" for one that was."""
    return (planned.reason or planned.why) if isinstance(planned, Passthrough) else ""


def _planning_fields(attempt: AttemptInfo, end: AttemptOutcome) -> dict[str, Any]:
    """The receipt's fields about planning, where it was planned."""
    planned = attempt.planned
    if isinstance(planned, Passthrough):
        return {}
    expected, miss = planned.evidence.expected, end.miss
    total = end.usage.prompt_tokens if end.usage is not None else 0
    fields: dict[str, Any] = {
        "conversation": planned.draft.conversation.hex(),
        "arm": planned.plan.arm.value,
        "layout": planned.plan.layout,
        "expected_read": expected.rescale(total).tokens if total else expected.tokens,
        "planning_nanos": _planned_nanos(planned, attempt, end) if total else None,
        "segments": planned.segments(total),
    }
    if miss is not None:
        fields |= {
            "miss": miss.reason.value,
            "miss_detail": _miss_detail(miss),
            "miss_tokens": miss.tokens,
            "miss_nanos": miss.nanos,
        }
    return fields


def _planned_nanos(planned: Planned, attempt: AttemptInfo, end: AttemptOutcome) -> int | None:
    """Nano-dollars that planning saved on a call; None where unknown.

    An unmodified call of the control arm may read what modified calls wrote, too.
    """
    tariff = attempt.route.tariff if attempt.route is not None else None
    if tariff is None or end.usage is None or end.estimated:
        return None
    sent_usage, unmodified = compare_bill(planned, end.usage)
    if sent_usage == unmodified:
        return 0 if planned.plan.is_planned else None
    when = attempt.call.arrived
    paid, direct = (call_cost(usage, tariff, when, end.terms) for usage in (sent_usage, unmodified))
    if paid is None or direct is None:
        return None
    return direct.effective_nanos - paid.effective_nanos


def _compaction_fields(attempt: AttemptInfo, end: AttemptOutcome) -> dict[str, Any]:
    """The receipt's fields about compaction."""
    result, route = attempt.compaction, attempt.route
    if not result.mode:
        return {}
    tariff = route.tariff if route is not None else None
    counted = None if end.estimated else end.usage
    return {
        "compaction": result.mode,
        "compaction_why": result.why,
        "compacted": result.is_compacted,
        "tokens_before": result.before,
        "tokens_after": result.after,
        "reset": result.reset,
        "compaction_nanos": compaction_savings(
            result, counted, tariff, attempt.call.arrived, end.terms
        ),
        "needed": result.needed,
        "lost": result.lost,
        "compacted_messages": result.messages,
    }


def _recall_fields(
    attempt: AttemptInfo,
    recall: RecallTally,
    outcomes: tuple[AttemptOutcome, AttemptOutcome],
    fields: Mapping[str, Any],
) -> dict[str, Any]:
    """The receipt's fields about recall; its rounds are taken off what compaction saved.

    Args:
        outcomes: With all rounds, and as it would be without.
    """
    saved = fields.get("compaction_nanos")
    paid, single = (attempt_cost(attempt, outcome) for outcome in outcomes)
    if saved is not None and paid is not None and single is not None:
        saved -= paid.effective_nanos - single.effective_nanos
    return {
        "recalls": recall.rounds,
        "recalled_tokens": recall.tokens,
        "compaction_nanos": saved,
    }


def _cache_fields(attempt: AttemptInfo, end: AttemptOutcome) -> dict[str, Any]:
    """The receipt's fields about the provider's cache, where it had a part in the cost."""
    tariff = attempt.route.tariff if attempt.route is not None else None
    if tariff is None or end.usage is None or end.usage.prompt_tokens == end.usage.input:
        return {}
    effect = cache_effect(end.usage, tariff, attempt.call.arrived, end.terms)
    return {} if effect is None else msgspec.structs.asdict(effect)


def _miss_detail(miss: CacheMiss) -> str:
    """The evidence, and how well it is known where that is not for certain."""
    confidence = miss.confidence
    if confidence is None or confidence is ReasonConfidence.CERTAIN:
        return miss.detail
    return f"{miss.detail} ({confidence.value})" if miss.detail else confidence.value


def _kept_prompt(call: Call) -> str | None:
    if not call.key.keeps_prompts:
        return None
    return call.body[:_MAX_KEPT_PROMPT_BYTES].decode(errors="replace")
