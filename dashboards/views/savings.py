"""Savings of a period as a signed waterfall: what ``/api/v1/savings`` answers and a page shows.

::

    unmodified ─ cache reads ─ cache writes ─ planning ─ compaction ─ routing ─ discounts ─▶ paid

Every step is a difference of which one side was paid; only the other side is counterfactual. The
unmodified cost is what was paid and all steps taken back, so that the steps add up exactly.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Final, Literal

import msgspec

StepName = Literal["cache_reads", "cache_writes", "planning", "compaction", "routing", "discounts"]
"""A step of the waterfall, in the order in which they are shown."""
Sureness = Literal["exact", "estimated"]
"""``exact``: reported tokens at published prices; ``estimated``: by a model of caches or prices."""

_STEPS: Final[Mapping[StepName, tuple[str, Sureness, str]]] = {
    "cache_reads": (
        "Provider cache reads",
        "exact",
        (
            "Tokens that providers reported as read from their caches, at the published price of"
            " plain input less that of cached input when the call was made; the part that planning"
            " is credited with is left to planning."
        ),
    ),
    "cache_writes": (
        "Cache write surcharges",
        "exact",
        (
            "Tokens that providers reported as written to their caches, at the published price of a"
            " write less that of plain input."
        ),
    ),
    "planning": (
        "Layout and cache marks",
        "estimated",
        (
            "For each treated call: its cost if it had been sent unmodified, by a model of the"
            " provider's cache, less its cost as it was sent, by the same model. Conversations of"
            " the control arm are sent unmodified and measure it."
        ),
    ),
    "compaction": (
        "Compaction",
        "estimated",
        (
            "For each shortened call: the tokens that were not sent, less what the moved prefix"
            " cost once; the cost of notes by a model is taken off."
        ),
    ),
    "routing": (
        "Replies of cheaper models",
        "estimated",
        (
            "Calls that another model answered than was asked for: their tokens at the published"
            " standard price of the model asked for, less their list cost."
        ),
    ),
    "discounts": (
        "Contracted discounts",
        "exact",
        "List cost less effective cost, by the discounts of the routes.",
    ),
}


class SavingsSums(msgspec.Struct, frozen=True):
    """Sums that a waterfall is made of, in nano-dollars.

    Attributes:
        list_nanos: Known cost at published prices.
        cost_nanos: The same after discounts.
        read_saved_nanos: Amount that cache reads cost less than plain input, at list prices.
        write_extra_nanos: Amount that cache writes cost more.
        planning_nanos: Estimated savings of planning.
        compaction_nanos: Estimated savings of compaction, its resets taken off.
        notes_nanos: Cost of notes that compaction asked a model for.
        routing_nanos: Savings by replies of cheaper models; below 0 where they were dearer.
        calls: Calls.
        unpriced: Attempts at no known price, which all sums leave out.
        unknown_cached_tokens: Tokens read from caches by calls of which nobody knows the saving.
    """

    list_nanos: int = 0
    cost_nanos: int = 0
    read_saved_nanos: int = 0
    write_extra_nanos: int = 0
    planning_nanos: int = 0
    compaction_nanos: int = 0
    notes_nanos: int = 0
    routing_nanos: int = 0
    calls: int = 0
    unpriced: int = 0
    unknown_cached_tokens: int = 0

    def plus(self, other: "SavingsSums") -> "SavingsSums":
        """The sums of both."""
        both = zip(msgspec.structs.astuple(self), msgspec.structs.astuple(other), strict=True)
        return SavingsSums(*[mine + theirs for mine, theirs in both])

    @property
    def steps(self) -> dict[StepName, int]:
        """The change of the cost by each step; below 0 where it saved."""
        return {
            "cache_reads": self.planning_nanos - self.read_saved_nanos,
            "cache_writes": self.write_extra_nanos,
            "planning": -self.planning_nanos,
            "compaction": self.notes_nanos - self.compaction_nanos,
            "routing": -self.routing_nanos,
            "discounts": self.cost_nanos - self.list_nanos,
        }

    @property
    def unmodified_nanos(self) -> int:
        """Cost of the same work without any of the steps."""
        return self.cost_nanos - sum(self.steps.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class SavingsStep:
    """One step of the waterfall.

    Attributes:
        name: Its name.
        title: The same for people.
        nanos: The change of the cost; below 0 where it saved.
        sureness: ``exact`` or ``estimated``.
        method: The way it is computed, in sentences.
    """

    name: StepName
    title: str
    nanos: int
    sureness: Sureness
    method: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FeatureSavings:
    """The waterfall of one feature; ``steps`` are in the order of all steps."""

    team: str
    team_name: str
    feature: str
    calls: int
    unmodified_nanos: int
    steps: Sequence[int]
    paid_nanos: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredSaving:
    """Planning of one feature measured against its control arm.

    Attributes:
        team: Id of the team.
        team_name: Its name.
        feature: The feature; "" for calls that name none.
        finding: ``not enough``, ``measured`` or ``worse``.
        share: Part of the cost per token that was saved; null where it is not measured.
        low: Lower end of its 95 % interval.
        high: Upper end.
        treated_conversations: Conversations that planning treated.
        control_conversations: Conversations that were sent unmodified.
        missing_conversations: Conversations it still needs.
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
class NextSaving:
    """A saving that is not taken yet.

    Attributes:
        kind: ``layout``: a proposal waits for a decision; ``observe``: planning only observes;
            ``miss``: caches are missed.
        team: Id of the team.
        team_name: Its name.
        feature: The feature; "" for calls that name none.
        family: Family of models that a layout is for; "" for all, and for misses.
        month_nanos: Estimated saving in thirty days at the traffic of the period, in nano-dollars.
        title: The saving, in a sentence.
        action: The thing to do, in a sentence.
        link: Path of the page where it is done.
    """

    kind: Literal["layout", "observe", "miss"]
    team: str
    team_name: str
    feature: str
    month_nanos: int
    title: str
    action: str
    link: str
    family: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SavingsView:
    """Savings of a period.

    Attributes:
        first: The first day.
        last: The last day, included.
        tz: Time zone of the days, an IANA name.
        unmodified_nanos: Cost of the same work unmodified, at list prices, without any cache.
        steps: The waterfall from there; they add up to ``paid_nanos`` exactly.
        paid_nanos: Effective cost.
        saved_nanos: The difference.
        saved_share: Its part of the unmodified cost; null where that is nothing.
        features: The same by feature, those that saved most first.
        measured: Planning measured against control arms, where somebody has measured it already;
            of the last thirty days. Null while it is being measured.
        measured_at: Time of that measurement, in seconds since the epoch.
        next: Savings not taken yet, the largest first.
        unpriced_attempts: Attempts at no known price, which all sums leave out.
        unknown_cached_tokens: Tokens read from caches of which the saving is unknown: calls from
            before it was recorded.
        unknown_routing_calls: Calls of a model without a known price that another one answered.
    """

    first: date
    last: date
    tz: str
    unmodified_nanos: int
    steps: Sequence[SavingsStep]
    paid_nanos: int
    saved_nanos: int
    saved_share: float | None
    features: Sequence[FeatureSavings]
    measured: Sequence[MeasuredSaving] | None
    measured_at: float | None
    next: Sequence[NextSaving]
    unpriced_attempts: int
    unknown_cached_tokens: int
    unknown_routing_calls: int


def waterfall(sums: SavingsSums) -> list[SavingsStep]:
    """The steps of a waterfall, in order."""
    changes = sums.steps
    return [
        SavingsStep(name=name, title=title, nanos=changes[name], sureness=sureness, method=method)
        for name, (title, sureness, method) in _STEPS.items()
    ]
