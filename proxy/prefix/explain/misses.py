"""Why less was read from a cache than could have been, and what that cost.

What could have been read is what the call before held too, wherever it stood, or what was sent
before as a prefix, if that is more. A provider knows of calls that we do not: another process sent
them, or one before a restart. So what it says was lost is lost at least, and where our account
finds nothing, its word stands.
"""

from fractions import Fraction
from typing import Final

from proxy.prefix.explain.findings import Case, Evidence, Finding, finding
from proxy.prefix.explain.reasons import Confidence, Miss, Reason, Said
from proxy.prefix.prediction.changes import repeated
from proxy.prefix.prediction.lookups import by_breakpoints
from proxy.prefix.prediction.prefix_chains import Expected
from proxy.prefix.prediction.sent import Sent
from proxy.prefix.prompts.prompt import Prompt
from slo.price import Rates
from slo.usage import Usage

#: A shortfall below this share of what could be read is an error of estimates.
_SLACK: Final = 20
#: The same as a share of what else is in the prompt.
_ELSE: Final = 5
_LEAST_SLACK: Final = 64
_MILLION: Final = 1_000_000
_SAYS: Final = "the provider says {}"


def miss(
    evidence: Evidence,
    usage: Usage,
    rates: Rates | None = None,
    *,
    told: Said | None = None,
    shown: Prompt | None = None,
) -> Miss | None:
    """Why the call was read less than it could have been; None where it was not.

    Args:
        evidence: What was known when it was sent.
        usage: What the provider counted; not an estimate.
        rates: What the call's tokens cost; None where that is unknown.
        told: The provider's own reason, where it gave one.
        shown: The prompt that was sent, only where its team keeps prompts: its words may then
            stand in the detail.
    """
    total = usage.prompt_tokens
    if not evidence.sent.regime.name or not total:
        return claimed(told, usage, rates)
    expected = evidence.expected.scaled(total)
    could = _could(evidence, expected, total)
    lost = max(0, could - usage.cache_read)
    slack = _slack(evidence.sent, could, total)
    if lost <= slack and (could or usage.cache_read):
        return claimed(told, usage, rates)
    found = finding(
        Case(
            evidence=evidence,
            expected=expected,
            could=could,
            enough=could - slack,
            total=total,
            read=usage.cache_read,
            shown=shown,
        )
    )
    if told is not None:
        found = _joined(found, told)
        lost = max(lost, _at_most(told.tokens or 0, usage))
    return Miss(
        reason=found.reason,
        detail=found.detail,
        confidence=found.confidence,
        tokens=lost,
        nanos=lost_nanos(lost, usage, rates),
    )


def claimed(told: Said | None, usage: Usage | None, rates: Rates | None = None) -> Miss | None:
    """What the provider says of a miss, where our account knows of none; None for nothing.

    Args:
        told: The provider's own reason, where it gave one.
        usage: What it counted; None where it did not.
        rates: What the call's tokens cost; None where that is unknown.
    """
    if told is None:
        return None
    lost, nanos = told.tokens, None
    if lost is not None and usage is not None:
        lost = _at_most(lost, usage)
        nanos = lost_nanos(lost, usage, rates)
    return Miss(
        reason=told.reason,
        detail=_SAYS.format(told.detail),
        confidence=Confidence.LIKELY,
        tokens=lost or 0,
        nanos=nanos,
    )


def lost_nanos(tokens: int, usage: Usage, rates: Rates | None) -> int | None:
    """What it cost that tokens were not read, in nano-dollars; None where a price is unknown.

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
    return round((paid - tokens * rates.cache_read) / _MILLION)


def _at_most(lost: int, usage: Usage) -> int:
    """No more tokens than were not read."""
    return min(lost, usage.prompt_tokens - usage.cache_read)


def _could(evidence: Evidence, expected: Expected, total: int) -> int:
    """Tokens that could have been read, had all gone well."""
    before, sent = evidence.before, evidence.sent
    again = expected.scale.tokens_of(repeated(sent, before)) if before is not None else 0
    most = total if by_breakpoints(sent.regime) else total - 1
    return min(max(again, expected.known), most)


def _slack(sent: Sent, could: int, total: int) -> int:
    """A shortfall that may come from steps, or from bytes that stood for tokens.

    Texts differ in tokens per byte: the more else there is in a prompt, the less is known of a
    part of it.
    """
    return max(sent.regime.block, _LEAST_SLACK, could // _SLACK, min(could, total - could) // _ELSE)


def _joined(found: Finding, told: Said) -> Finding:
    """Ours where the provider agrees, now for certain; else the provider's, for it must know.

    Either way both are told.
    """
    says = _SAYS.format(told.detail)
    if found.reason is told.reason:
        detail = f"{found.detail}; {says}" if found.detail else says
        return Finding(found.reason, detail, Confidence.CERTAIN)
    if found.reason is Reason.PROVIDER_SIDE or not found.detail:
        return Finding(told.reason, says, Confidence.LIKELY)
    return Finding(told.reason, f"{says}; by our account {found.detail}", Confidence.LIKELY)
