"""The reasons why a cache is read less than it could be, and a miss as a value."""

from enum import StrEnum

import msgspec


class MissReason(StrEnum):
    """Why a cache was read less than it could have been."""

    FIRST_SEEN = "first_seen"
    BELOW_MINIMUM = "below_minimum"
    EXPIRED = "expired"
    DIVERGED = "diverged"
    UNMARKED = "unmarked"
    PARAMETER_CHANGED = "parameter_changed"
    ELSEWHERE = "elsewhere"
    COMPACTED = "compacted"
    PROVIDER_SIDE = "provider_side"


class ReasonConfidence(StrEnum):
    """Confidence in a reason."""

    CERTAIN = "certain"  #: It follows from what was sent and what is published.
    LIKELY = "likely"  #: Nothing else is known that would do it.
    POSSIBLE = "possible"  #: The cache promises nothing; it may have been something else.


class ProviderReason(msgspec.Struct, frozen=True):
    """A provider's own reason.

    Attributes:
        reason: As we call it.
        detail: In a short sentence.
        tokens: What it says was missed; None where it does not.
    """

    reason: MissReason
    detail: str
    tokens: int | None = None


class CacheMiss(msgspec.Struct, frozen=True, kw_only=True):
    """Why a call was read less than it could have been, and what that cost.

    Attributes:
        detail: The evidence in a short sentence; text of the prompt only where it may be shown.
        confidence: None where it was not kept.
        tokens: Tokens that could have been read and were not.
        nanos: What that cost, in nano-dollars; None where a price is unknown.
    """

    reason: MissReason
    detail: str = ""
    confidence: ReasonConfidence | None = None
    tokens: int = 0
    nanos: int | None = None
