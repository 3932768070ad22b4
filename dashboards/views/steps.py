"""Steps not taken yet, described once for the overview, savings and ``/api/v1/savings``."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, Literal, get_args

StepKind = Literal[
    "layout",
    "equal_calls",
    "cheaper_model",
    "cache_misses",
    "budget",
    "unpriced",
    "no_feature",
    "planning",
    "compaction",
]
"""A kind of step; those of unknown savings are ranked in this order."""
StepBound = Literal["", "at least", "at most"]
"""The side on which a saving is known; "" for an estimate of it."""

#: Days that a saving in a month is for.
MONTH_DAYS: Final = 30
#: Days of calls from which a month is extrapolated.
_MIN_DAYS: Final = 1.0
_ORDER: Final[Mapping[str, int]] = {kind: place for place, kind in enumerate(get_args(StepKind))}


@dataclass(frozen=True, slots=True, kw_only=True)
class NextStep:
    """A step that nobody has taken yet.

    Attributes:
        title: The fact, in a few words.
        effect: Change that it makes, in a sentence.
        basis: The way its saving is computed, or the reason that it is unknown, in a sentence.
        saved_nanos: Saving on the calls of the period, in nano-dollars; null where it is unknown.
        month_nanos: The same in thirty days at the period's traffic; null for less than one day.
        nanos_per_1k_calls: The same of 1,000 calls.
        bound: Side on which the saving is known; "" for an estimate of it.
        cost_nanos: Cost in the period of the calls that it is about.
        team: Id of the team; "" for a step of all teams.
        feature: The feature; "" for calls that name none, and for all.
        link: Path of the page where it is taken.
        action: Label of its link or button.
        fields: Fields of the form that takes it, sent to ``link`` by ``POST``; none for a link.
    """

    kind: StepKind
    title: str
    effect: str
    basis: str
    saved_nanos: int | None = None
    month_nanos: int | None = None
    nanos_per_1k_calls: int | None = None
    bound: StepBound = ""
    cost_nanos: int = 0
    team: str = ""
    team_name: str = ""
    feature: str = ""
    link: str
    action: str
    fields: Mapping[str, str] = field(default_factory=dict)


def month_saving(saved_nanos: int | None, known_days: float) -> int | None:
    """A saving in thirty days at the traffic of some days; None for less than one of them."""
    if saved_nanos is None or known_days < _MIN_DAYS:
        return None
    return round(saved_nanos * MONTH_DAYS / known_days)


def rank_steps(steps: Iterable[NextStep]) -> list[NextStep]:
    """The steps, the largest saving first, then bounds above, then unknown ones by kind."""
    return sorted(
        (step for step in steps if step.saved_nanos is None or step.saved_nanos > 0),
        key=lambda step: (
            step.saved_nanos is None,
            step.bound == "at most",
            -(step.saved_nanos or 0),
            _ORDER[step.kind],
            -step.cost_nanos,
            step.team,
            step.feature,
        ),
    )
