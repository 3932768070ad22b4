"""Savings of a period: what ``/api/v1/savings`` answers and a page shows."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date

from dashboards.savings_headline import SavingsHeadline
from dashboards.views.steps import NextStep


@dataclass(frozen=True, slots=True, kw_only=True)
class FeatureSavings:
    """The waterfall of one feature; ``steps`` are in the order of all steps.

    ``direct_nanos`` less ``saved_nanos`` is ``paid_nanos``.
    """

    team: str
    team_name: str
    feature: str
    calls: int
    unmodified_nanos: int
    steps: Sequence[int]
    direct_nanos: int
    saved_nanos: int
    paid_nanos: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredSaving:
    """Planning of one feature measured against its control arm.

    Attributes:
        finding: ``not enough``, ``early``, ``measured`` or ``worse``.
        share: Part of the cost per token that was saved; null where it is not measured.
        low: Lower end of its 95 % interval.
        treated_conversations: Conversations that planning treated.
        control_conversations: Conversations that were sent unmodified.
        missing_conversations: Conversations until it is shown, or, where it is, counts.
        why: The finding in a sentence.
    """

    team: str
    team_name: str
    feature: str
    finding: str
    share: float | None
    low: float | None
    high: float | None
    treated_conversations: int
    control_conversations: int
    missing_conversations: int
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SavingsView(SavingsHeadline):
    """Savings of a period: the headline, and what it is made of.

    Attributes:
        last: The last day, included.
        features: The same by feature, those that saved most first.
        measured: Planning measured against control arms, where somebody has measured it already;
            of the last thirty days. Null while it is being measured.
        estimated_nanos: The part of the paid cost whose usage the gateway counted.
        next: Steps not taken yet, the largest saving first.
        unknown_cached_tokens: Tokens read from caches of which the saving is unknown: calls from
            before it was recorded.
        unknown_routing_calls: Calls of a model without a known price that another one answered.
    """

    first: date
    last: date
    tz: str
    features: Sequence[FeatureSavings]
    measured: Sequence[MeasuredSaving] | None
    estimated_nanos: int | None
    next: Sequence[NextStep]
    unknown_cached_tokens: int
    unknown_routing_calls: int
