"""The headline of savings against sending directly, the same figure on every page and report.

::

    without caches ─ provider's own caching ─ discounts ─▶ sent directly ─ planning ─ compaction ─
    fast path ─ routing ─▶ paid ─ running the gateway

Each step compares what was paid with one counterfactual. All but the first two are the gateway's,
and the headline is their sum: any caller has the provider's own caching and the contract. Planning
counts as the control arm measured it, else by its estimate; suspended or refuted, not at all.
Running the gateway is what its operator says it costs; it is taken off and is no part of "paid".
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

import msgspec

from dashboards.fast_path_savings import FastPathPart, FastPathSaving, fast_path_savings

StepName = Literal[
    "provider_caching", "discounts", "planning", "compaction", "fast_path", "routing", "running"
]
"""A step of the waterfall, in the order in which they are shown."""
Sureness = Literal["exact", "estimated", "measured", "partly measured", "stated"]
"""``exact``: reported tokens at published prices; ``estimated``: by a model of caches or prices;
``measured``: by control arms; ``stated``: by the operator."""
SavingsPart = Literal["planning", "compaction"]
"""A part that is not counted where it was suspended or refuted."""

#: Features that are named where they are not counted, those of the largest estimates.
MAX_UNCOUNTED: Final = 20

_STEPS: Final[Mapping[StepName, tuple[str, Sureness, str]]] = {
    "provider_caching": (
        "Provider's own caching",
        "estimated",
        (
            "Tokens read from providers' caches at their discount, less surcharges of writes and"
            " what planning is credited with. A direct caller has it, too."
        ),
    ),
    "discounts": (
        "Contracted discounts",
        "exact",
        "List cost less effective cost. A direct caller has the contract, too.",
    ),
    "planning": (
        "Layout and cache marks",
        "estimated",
        (
            "Measured against a control arm where that has enough calls; elsewhere the cost of"
            " unmodified prompts, by a model of the provider's cache, less the bill."
        ),
    ),
    "compaction": (
        "Compaction",
        "estimated",
        "Tokens that shortened calls did not send, less what the moved prefix cost once.",
    ),
    "fast_path": (
        "Fast path",
        "estimated",
        (
            "Repeated answers at their first cost, and small models at the price of the model asked"
            " for; drafts, checks and failed answers are taken off."
        ),
    ),
    "routing": (
        "Cheaper models and lost attempts",
        "estimated",
        (
            "Tokens that another model answered because a policy chose it for its price, at the"
            " price of the model asked for, less list cost; lost attempts are taken off."
            " Fallbacks count nothing."
        ),
    ),
}
#: Steps that every caller has who sends directly.
_NOT_OWN: Final[frozenset[StepName]] = frozenset({"provider_caching", "discounts"})


class SavingsSums(msgspec.Struct, frozen=True):
    """Sums that a waterfall is made of, in nano-dollars.

    Attributes:
        list_nanos: Known cost at published prices.
        cost_nanos: The same after discounts.
        read_saved_nanos: Amount that cache reads cost less than plain input, at list prices.
        write_extra_nanos: Amount that cache writes cost more.
        planning_nanos: Savings of planning: estimated, until ``count_planning`` judges them.
        planned_cost_nanos: Effective cost of the calls that planning treated.
        compaction_nanos: Estimated savings of compaction, its resets taken off.
        routing_nanos: Savings by cheaper models that ceilings chose, less the cost of attempts that
            another one outran or replaced; below 0 where these, or dearer models, cost more.
        fallback_nanos: Amount that fallbacks to other models cost less than the model asked for. It
            counts as no saving: that model had failed or missed an objective.
        cache_nanos: Savings by answers that were given before.
        small_nanos: Savings by small models, those included that failed a check.
        draft_nanos: Savings by drafts.
        checks_nanos: The same of calls that compare answers, below 0.
        fast_path_discount_nanos: List less effective cost of the fast path's attempts.
        prompt_tokens: Tokens of all prompts, however they were billed.
        unpriced: Attempts at no known price, which all sums leave out.
        unknown_cached_tokens: Tokens read from caches by calls of which nobody knows the saving.
        measured_nanos: The part of ``planning_nanos`` that control arms measured.
        measured_cost_nanos: Effective cost of the features whose planning they measured.
        estimated_nanos: The part of it that is estimated.
        below_nanos: Distance from ``planning_nanos`` to the lower end of its interval.
        above_nanos: The same to the upper end.
    """

    list_nanos: int = 0
    cost_nanos: int = 0
    read_saved_nanos: int = 0
    write_extra_nanos: int = 0
    planning_nanos: int = 0
    planned_cost_nanos: int = 0
    compaction_nanos: int = 0
    routing_nanos: int = 0
    fallback_nanos: int = 0
    cache_nanos: int = 0
    small_nanos: int = 0
    draft_nanos: int = 0
    checks_nanos: int = 0
    fast_path_discount_nanos: int = 0
    calls: int = 0
    prompt_tokens: int = 0
    unpriced: int = 0
    unknown_cached_tokens: int = 0
    measured_nanos: int = 0
    measured_cost_nanos: int = 0
    estimated_nanos: int = 0
    below_nanos: int = 0
    above_nanos: int = 0

    def plus(self, other: "SavingsSums") -> "SavingsSums":
        """The sums of both."""
        both = zip(msgspec.structs.astuple(self), msgspec.structs.astuple(other), strict=True)
        return SavingsSums(*[mine + theirs for mine, theirs in both])

    @property
    def steps(self) -> dict[StepName, int]:
        """The change of the cost by each step; below 0 where it saved."""
        return {
            "provider_caching": (
                self.write_extra_nanos - self.read_saved_nanos + self.planning_nanos
            ),
            "discounts": self.cost_nanos - self.list_nanos + self.fast_path_discount_nanos,
            "planning": -self.planning_nanos,
            "compaction": -self.compaction_nanos,
            "fast_path": -sum(self.fast_path_parts.values()),
            "routing": -self.routing_nanos,
        }

    @property
    def fast_path_parts(self) -> dict[FastPathPart, int]:
        """Savings by each part of the fast path."""
        return {
            "cache": self.cache_nanos,
            "small": self.small_nanos,
            "draft": self.draft_nanos,
            "checks": self.checks_nanos,
        }

    @property
    def saved_nanos(self) -> int:
        """The headline: what the gateway's own steps saved, their surcharges taken off."""
        return -sum(nanos for name, nanos in self.steps.items() if name not in _NOT_OWN)

    @property
    def direct_nanos(self) -> int:
        """Cost of the same work sent directly."""
        return self.cost_nanos + self.saved_nanos

    @property
    def unmodified_nanos(self) -> int:
        """Cost of the same work sent directly to providers without caches."""
        return self.cost_nanos - sum(self.steps.values())


class MeasuredShare(msgspec.Struct, frozen=True):
    """The part of its cost per token that planning saved, and its interval; each below 1."""

    value: float
    low: float
    high: float


def count_planning(sums: SavingsSums, measured: MeasuredShare | None) -> SavingsSums:
    """Planning at its measured value where there is one, else by its estimate.

    Args:
        sums: Sums of one feature, or of a part of it.
        measured: Measurement of its control arm; None for none.
    """
    if measured is None:
        return msgspec.structs.replace(sums, estimated_nanos=sums.planning_nanos)
    value, low, high = (
        _gain(sums.planned_cost_nanos, share)
        for share in (measured.value, measured.low, measured.high)
    )
    return msgspec.structs.replace(
        sums,
        planning_nanos=value,
        measured_nanos=value,
        measured_cost_nanos=sums.cost_nanos,
        below_nanos=value - low,
        above_nanos=high - value,
    )


def _gain(cost: int, share: float) -> int:
    """The amount saved on calls that cost so much; ``share`` is its part of cost and savings."""
    return round(cost * share / (1.0 - share))


@dataclass(frozen=True, slots=True, kw_only=True)
class SavingsStep:
    """One step of the waterfall.

    Attributes:
        title: The same for people.
        nanos: The change of the cost; below 0 where it saved.
        sureness: ``exact``, ``estimated``, ``measured``, ``partly measured`` or ``stated``.
        method: The way it is computed, in sentences.
        is_own: True for a step of the gateway, false for what every caller gets.
    """

    name: StepName
    title: str
    nanos: int
    sureness: Sureness
    method: str
    is_own: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class UncountedSaving:
    """A part of a feature that counts 0, because it was suspended or refuted.

    Attributes:
        part: ``planning`` or ``compaction``.
        nanos: Its estimate, which is not counted.
        why: The reason.
    """

    team: str
    team_name: str
    feature: str
    part: SavingsPart
    nanos: int
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SavingsHeadline:
    """Savings of a period against sending the same calls directly.

    Attributes:
        unmodified_nanos: Cost of the same work at list prices, without any cache.
        direct_nanos: Cost of the same work sent directly, with the provider's own caching.
        saved_nanos: The cost sent directly, less the effective cost and that of running.
        running_nanos: Stated cost of running the gateway in the period; null where none is
            stated, and where a filter names a part of all calls.
        saved_share: Its part of the cost sent directly; null where that is nothing.
        saved_low_nanos: Lower end of its 95 % interval; ``saved_nanos`` where nothing is measured.
        saved_high_nanos: Upper end.
        measured_share: Part of the effective cost whose planning control arms measured; null
            without cost.
        steps: The waterfall; the steps lead from ``unmodified_nanos`` to ``paid_nanos`` exactly,
            and that of running beyond it.
        fast_path: The fast path's step by its parts, those that have any.
        fallback_nanos: Amount that fallbacks to other models cost less than the models asked for,
            by estimate. It counts nowhere: those had failed, or missed an objective.
        uncounted: Features that count 0, because they were suspended or refuted.
        unpriced_attempts: Attempts at no known price, which all sums leave out.
        measured_at: Time at which control arms were compared, in seconds since the epoch; null
            where nobody has yet.
    """

    unmodified_nanos: int
    direct_nanos: int
    paid_nanos: int
    saved_nanos: int
    running_nanos: int | None
    saved_share: float | None
    saved_low_nanos: int
    saved_high_nanos: int
    measured_share: float | None
    steps: Sequence[SavingsStep]
    fast_path: Sequence[FastPathSaving]
    fallback_nanos: int
    uncounted: Sequence[UncountedSaving]
    unpriced_attempts: int
    measured_at: float | None = None

    @property
    def is_measured(self) -> bool:
        """True where control arms measured a part of it, so that it has an interval."""
        return self.saved_low_nanos != self.saved_high_nanos


def savings_headline(
    total: SavingsSums,
    uncounted: Sequence[UncountedSaving] = (),
    measured_at: float | None = None,
    running_nanos: int | None = None,
) -> SavingsHeadline:
    """The headline of all that was counted; the only place where it is computed."""
    saved, direct = total.saved_nanos - (running_nanos or 0), total.direct_nanos
    return SavingsHeadline(
        unmodified_nanos=total.unmodified_nanos,
        direct_nanos=direct,
        paid_nanos=total.cost_nanos,
        saved_nanos=saved,
        running_nanos=running_nanos,
        saved_share=saved / direct if direct > 0 else None,
        saved_low_nanos=saved - total.below_nanos,
        saved_high_nanos=saved + total.above_nanos,
        measured_share=total.measured_cost_nanos / total.cost_nanos if total.cost_nanos else None,
        steps=[*waterfall(total), *_running_steps(running_nanos)],
        fast_path=fast_path_savings(total.fast_path_parts),
        fallback_nanos=total.fallback_nanos,
        uncounted=sorted(
            uncounted, key=lambda saving: (-saving.nanos, saving.team, saving.feature)
        )[:MAX_UNCOUNTED],
        unpriced_attempts=total.unpriced,
        measured_at=measured_at,
    )


def waterfall(sums: SavingsSums) -> list[SavingsStep]:
    """The steps of a waterfall, in order."""
    changes = sums.steps
    planning: Sureness = "estimated"
    if sums.measured_nanos:
        planning = "partly measured" if sums.estimated_nanos else "measured"
    return [
        SavingsStep(
            name=name,
            title=title,
            nanos=changes[name],
            sureness=planning if name == "planning" else sureness,
            method=method,
            is_own=name not in _NOT_OWN,
        )
        for name, (title, sureness, method) in _STEPS.items()
    ]


def _running_steps(nanos: int | None) -> list[SavingsStep]:
    """The step of running the gateway; none where its cost is unknown."""
    if nanos is None:
        return []
    method = "THRIFTGATE_OWN_COST_USD_MONTH, by the part of each month since the first call."
    return [
        SavingsStep(
            name="running",
            title="Running the gateway",
            nanos=nanos,
            sureness="stated",
            method=method,
            is_own=True,
        )
    ]
