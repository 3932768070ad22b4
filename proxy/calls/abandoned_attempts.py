"""Usage of attempts that the gateway left while their upstream may go on and bill.

A caller that disconnects, or an upstream that is given up because a deadline passed, ends the
attempt here. At the provider the answer may be generated to its end and billed. Unless the
catalog says otherwise (``bills_abandoned``), such an attempt is settled as if it had been.
"""

from typing import Final

import msgspec

from proxy.calls.metering import Meter
from proxy.calls.output_limits import lowered_limit, output_allowance
from proxy.calls.ports import CallContext
from proxy.calls.retry_policy import BILLED_ENDPOINTS
from proxy.calls.settlement import AttemptInfo
from proxy.errors import ProxyError
from slo.usage import Usage

#: Output tokens of an abandoned attempt where neither its call nor any answer says how many: few
#: chat answers are longer, while a model's own limit (128,000) would cost a hundred times more.
DEFAULT_ABANDONED_OUTPUT_TOKENS: Final = 4_096


def settle_abandoned(
    context: CallContext,
    attempt: AttemptInfo,
    reason: ProxyError | None,
    usage: Usage,
    meter: Meter | None,
) -> tuple[AttemptInfo, Usage]:
    """The attempt with a note, and its usage with what its upstream may still generate.

    Both are returned unchanged where the upstream does not go on, or does not bill it.

    Args:
        context: The call.
        attempt: The attempt that was ended.
        reason: Error that ended it; None where it came to its end.
        usage: Its prompt and what was delivered, as counted here.
        meter: Meter of the answer as far as it was read; None for nothing.
    """
    if not may_be_billed(attempt, reason, meter):
        return attempt, usage
    tokens = expected_output(context, attempt)
    if tokens <= usage.generated_tokens:
        return attempt, usage
    note = f"abandoned: {tokens} output tokens are counted, for its upstream may have gone on"
    settled = msgspec.structs.replace(usage, output=tokens - usage.reasoning)
    return msgspec.structs.replace(attempt, notes=(*attempt.notes, note)), settled


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


def expected_output(context: CallContext, attempt: AttemptInfo) -> int:
    """Output tokens that an abandoned attempt is settled at.

    What budgets hold for it; without budgets what 19 of 20 such answers stay below; where nothing
    is learned, the output limit that the call states, or a guess where it states none.
    """
    limits, route = context.deps.limits, attempt.route
    held = limits.held_output(attempt) if limits is not None else None
    if held is not None or route is None:
        return held or 0
    usual = context.deps.estimator.usual_output(attempt.sent_call, route)
    if (
        usual is None
        and not output_allowance(
            attempt.sent_call.body, attempt.sent_call.endpoint, route
        ).requested
    ):
        usual = DEFAULT_ABANDONED_OUTPUT_TOKENS
    limit = output_limit(attempt)
    return limit if usual is None else min(usual, limit)


def output_limit(attempt: AttemptInfo) -> int:
    """Tokens that an attempt may generate at most, lowered by its ceilings."""
    call, route = attempt.sent_call, attempt.route
    if route is None:
        return 0
    allowed = output_allowance(call.body, call.endpoint, route)
    lowered = lowered_limit("\n".join(attempt.notes))
    each = allowed.per_choice if lowered is None else min(allowed.per_choice, lowered)
    return each * allowed.choices
