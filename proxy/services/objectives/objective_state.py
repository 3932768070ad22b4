"""An objective as it is kept: its rules, its arms, and where it stands; pure.

An arm is a level of the objective's ladder, not a route: level 0 is whatever calls asked for. That
an operator can name every arm keeps counts few and replicas agreed, and moves are made by level. A
feature whose calls ask for several models has them in one arm: give each an objective of its own
where one must not move the other. What fails on one route is its breaker's business.
"""

import msgspec

from slo.burn import max_burn_rate
from slo.controller.state import ControllerRules, ControllerSnapshot
from slo.objective import Enforce, Metric, Objective

#: Rungs that are no model's name.
ELSEWHERE, CACHE_ONLY, SHED = "elsewhere", "cache-only", "shed"
#: What acts on calls; the others only tell.
_ACTING = frozenset({Enforce.DEGRADE, Enforce.SHED})


class TrackedObjective(msgspec.Struct, frozen=True):
    """One objective and how it moves.

    Attributes:
        objective: The promise.
        rules: How its standing moves.
    """

    objective: Objective
    rules: ControllerRules

    @property
    def name(self) -> str:
        """The objective's, by which replicas speak of it."""
        return self.objective.name

    @property
    def acts(self) -> bool:
        """True if calls are moved, and not only counted."""
        return self.objective.enforce in _ACTING

    @property
    def is_hard(self) -> bool:
        """True if conversations under way are moved, too: what fails is lost where it is."""
        return self.objective.metric is Metric.ERRORS

    @property
    def is_cost(self) -> bool:
        """True if conversations under way are moved where that saves money."""
        return self.objective.metric is Metric.COST

    def arm(self, level: int) -> str:
        """The arm under which the calls of a level are counted."""
        return f"{self.name}#{level}"

    def ladder_entry(self, level: int) -> str:
        """The ladder's entry for a level above 0."""
        return self.objective.ladder[min(level, len(self.objective.ladder)) - 1]


def track_objective(objective: Objective) -> TrackedObjective:
    """The objective, with the rules its target makes.

    The calls that trip it must be enough for its share of bad ones to be told from chance.
    """
    few = max(50, round(max_burn_rate(objective.target)))
    rules = ControllerRules(
        target=objective.target, fallback_levels=len(objective.ladder), trip_least=few
    )
    return TrackedObjective(objective, rules)


class PublishedState(msgspec.Struct, frozen=True):
    """A standing as the replicas' leader publishes it.

    Attributes:
        at: When, in seconds since the epoch.
        standing: Where the objective stands.
    """

    at: float
    standing: ControllerSnapshot
