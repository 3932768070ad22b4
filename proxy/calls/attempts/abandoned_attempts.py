"""Usage of attempts that the gateway left while their upstream may go on and bill.

A caller that disconnects, or an upstream that is given up because a deadline passed, ends the
attempt here. At the provider the answer may be generated to its end and billed. Unless the
catalog says otherwise (``bills_abandoned``), its receipt counts as much as such answers have on
average. Budgets that hold the worst case settle at what they held (``is_abandoned``).
"""

from typing import Final

import msgspec

from proxy.calls.eligibility.output_limits import MAX_CHOICES, lowered_limit, output_allowance
from proxy.calls.eligibility.request_traits import RequestTraits, request_traits
from proxy.calls.eligibility.retry_policy import BILLED_ENDPOINTS
from proxy.calls.metering.metering import Meter
from proxy.calls.metering.settlement import AttemptInfo
from proxy.calls.ports import CallContext
from proxy.errors import ProxyError
from proxy.records.receipt import PendingAttempt, Receipt
from proxy.tokens.text_size import BYTES_PER_TOKEN, text_tokens
from slo.usage import Usage

#: Output tokens of each answer of an abandoned attempt where nothing is learned. Answers have 211
#: on average in Azure's trace of 2023, 343 in Mooncake's, 445 in recorded Claude Code sessions.
UNLEARNED_AVERAGE_OUTPUT_TOKENS: Final = 512
_NOTE_PREFIX: Final = "abandoned: "


def settle_abandoned(
    context: CallContext,
    attempt: AttemptInfo,
    reason: ProxyError | None,
    usage: Usage,
    meter: Meter | None,
) -> tuple[AttemptInfo, Usage]:
    """The attempt with a note, and its usage with what its upstream is likely to generate.

    Where the upstream does not go on, or does not bill it, the attempt is returned unchanged. No
    count of ours is above the limit that the call asks for: models have other tokens than we do.

    Args:
        reason: Error that ended it; None where it came to its end.
        meter: Meter of the answer as far as it was read; None for nothing.
    """
    usage = _within_asked_limit(attempt, usage)
    if not may_be_billed(attempt, reason, meter):
        return attempt, usage
    tokens = max(
        expected_output(context, attempt, _begun_choices(attempt, meter)), usage.generated_tokens
    )
    note = f"{_NOTE_PREFIX}{tokens} output tokens are counted, for its upstream may have gone on"
    settled = msgspec.structs.replace(usage, output=tokens - usage.reasoning)
    return msgspec.structs.replace(attempt, notes=(*attempt.notes, note)), settled


def _within_asked_limit(attempt: AttemptInfo, usage: Usage) -> Usage:
    """The usage with no more output than the call asks for, where it says."""
    call, route = attempt.sent_call, attempt.route
    if route is None:
        return usage
    allowed = output_allowance(call.body, call.endpoint, route)
    if not allowed.requested or usage.generated_tokens <= allowed.total:
        return usage
    reasoning = min(usage.reasoning, allowed.total)
    return msgspec.structs.replace(usage, output=allowed.total - reasoning, reasoning=reasoning)


def may_be_billed(attempt: AttemptInfo, reason: ProxyError | None, meter: Meter | None) -> bool:
    """True if an upstream may generate and bill more than was delivered of an ended attempt."""
    route, call = attempt.route, attempt.call
    if reason is None or not reason.leaves_upstream_running or route is None:
        return False
    if call.method != "POST" or call.endpoint not in BILLED_ENDPOINTS:
        return False
    if not route.upstream.bills_abandoned:
        return False
    return meter is None or not meter.has_ended(_asked_choices(attempt))


def _asked_choices(attempt: AttemptInfo) -> int | None:
    """As many answers as the call asks for; None where its body does not tell.

    A text completion may have several prompts, and as many answers to each.
    """
    call, route = attempt.sent_call, attempt.route
    if route is None or call.endpoint == "completions":
        return None
    return output_allowance(call.body, call.endpoint, route).choices


def _begun_choices(attempt: AttemptInfo, meter: Meter | None) -> int | None:
    """Choices of a stream that began, at least one; None where only a whole answer would tell."""
    if not attempt.sent_call.is_streaming:
        return None
    return max(meter.begun_choices() if meter is not None else 0, 1)


def note_sent(context: CallContext, attempt: AttemptInfo) -> None:
    """Note an attempt that is sent now, so that a kill leaves a receipt of it.

    What it may cost is told by the size of its prompt's texts and the usual length of such
    answers. Of the body hardly more is read for it than other parts of the call read anyway.
    """
    deps, call, route = context.deps, attempt.call, attempt.route
    if deps.sent is None or route is None or call.method != "POST":
        return
    sent_call, user = attempt.sent_call, call.end_user
    traits = request_traits(sent_call)
    output = _likely_output(context, attempt, traits) if call.endpoint in BILLED_ENDPOINTS else 0
    tokens = text_tokens(sent_call.body, has_parts=traits.vision)
    deps.sent.begin(
        PendingAttempt(
            call_id=call.id,
            attempt=attempt.number,
            started=call.arrived,
            team=call.key.team,
            key_id=call.key.id,
            endpoint=call.endpoint,
            route=route.name,
            upstream=route.upstream.name,
            streamed=call.is_streaming,
            prompt_bytes=tokens * BYTES_PER_TOKEN,
            output=output,
            model=call.model,
            feature=call.feature,
            user=deps.pseudonymizer.pseudonym(call.key.team, user.encode()) if user else "",
            tags=call.tags,
        )
    )


def _likely_output(context: CallContext, attempt: AttemptInfo, traits: RequestTraits) -> int:
    """As ``expected_output``; the body is read anew only where a call may ask for many answers."""
    call, route = attempt.sent_call, attempt.route
    if route is None or call.endpoint == "completions" or "choices" in traits.needs:
        return expected_output(context, attempt)
    average = context.deps.estimator.average_output(call, route) or UNLEARNED_AVERAGE_OUTPUT_TOKENS
    lowered = lowered_limit("\n".join(attempt.notes)) if attempt.notes else None
    limits = (lowered, traits.output, route.max_output)
    return min([average, *(limit for limit in limits if limit is not None and limit > 0)])


def is_abandoned(receipt: Receipt) -> bool:
    """True if a receipt is of an attempt whose upstream may have generated more than it says."""
    return receipt.estimated and any(note.startswith(_NOTE_PREFIX) for note in receipt.notes)


def expected_output(context: CallContext, attempt: AttemptInfo, begun: int | None = None) -> int:
    """Output tokens that an abandoned attempt is likely to have generated in the end.

    As many as such answers have on average, within its output limit; a guess where nothing is
    learned.

    Args:
        begun: Choices that began; None where all that were asked for may have. A caller's 128
            were booked at 65,536 tokens that no provider had generated.
    """
    call, route = attempt.sent_call, attempt.route
    if route is None:
        return 0
    allowed = output_allowance(call.body, call.endpoint, route)
    average = context.deps.estimator.average_output(call, route)
    if average is None:
        choices = min(allowed.choices, MAX_CHOICES if begun is None else begun)
        average = UNLEARNED_AVERAGE_OUTPUT_TOKENS * choices
    lowered = lowered_limit("\n".join(attempt.notes))
    choice_limit = allowed.per_choice if lowered is None else min(allowed.per_choice, lowered)
    return min(average, choice_limit * allowed.choices)
