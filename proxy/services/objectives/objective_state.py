"""An objective with its controller rules and arms, and its published state; pure.

An arm is a level of the objective's ladder, not a route; level 0 is the model that calls ask for.
One more arm has the calls that an answer given before answered. Arms are few, and all replicas name
them alike. If a feature's calls ask for several models, those share level 0: give each model's
calls an objective of their own where one must not reroute the other. Failures of a single route are
left to its circuit breaker.
"""

from typing import Final

import msgspec

from slo.controller.state import ControllerRules, ControllerSnapshot, ControllerState
from slo.objectives.burn import max_burn_rate
from slo.objectives.objective import Enforce, Metric, Objective

#: Ladder entries that are no model's name.
ELSEWHERE, CACHE_ONLY, SHED = "elsewhere", "cache-only", "shed"
#: State of an objective that is missed while all new conversations go to level 0.
MISSED: Final = "missed"
#: State of an objective that would be missed, had there been calls enough to say so.
TOO_FEW_CALLS: Final = "too_few_calls"
STATE_NAMES: Final = (*(state.value for state in ControllerState), MISSED, TOO_FEW_CALLS)
"""All states that an objective is shown in."""
#: Modes that act on calls; the others only alert.
_ACTING = frozenset({Enforce.DEGRADE, Enforce.SHED})


class TrackedObjective(msgspec.Struct, frozen=True):
    """One objective and the rules of its controller."""

    objective: Objective
    rules: ControllerRules

    @property
    def name(self) -> str:
        """The objective's name, the same on all replicas."""
        return self.objective.name

    @property
    def acts(self) -> bool:
        """True if calls fall back, and are not only counted."""
        return self.objective.enforce in _ACTING

    @property
    def is_hard(self) -> bool:
        """True if conversations under way fall back, too: here their calls would fail."""
        return self.objective.metric is Metric.ERRORS

    @property
    def is_cost(self) -> bool:
        """True if conversations under way fall back where that saves money."""
        return self.objective.metric is Metric.COST

    def arm(self, level: int) -> str:
        """The arm under which the calls of a level are counted."""
        return f"{self.name}#{level}"

    @property
    def kept_arm(self) -> str:
        """The arm of calls that an answer given before answered: they say nothing of a level."""
        return f"{self.name}#kept"

    @property
    def arms(self) -> list[str]:
        """All arms under which its calls are counted, those of the levels first."""
        levels = range(self.rules.fallback_levels + 1)
        return [*map(self.arm, levels), self.kept_arm]

    def ladder_entry(self, level: int) -> str:
        """The ladder's entry for a level above 0."""
        return self.objective.ladder[min(level, len(self.objective.ladder)) - 1]


def track_objective(objective: Objective) -> TrackedObjective:
    """The objective, with controller rules that follow from its target.

    It degrades on no fewer calls than it takes to tell a bad share from chance.
    """
    few = max(50, round(max_burn_rate(objective.target)))
    rules = ControllerRules(
        target=objective.target, fallback_levels=len(objective.ladder), min_calls_to_trip=few
    )
    return TrackedObjective(objective, rules)


class BurnWindow(msgspec.Struct, frozen=True):
    """The burn rate of an error budget over the window of one of its alerts, on all replicas.

    Attributes:
        over: Length of the window, in seconds.
        limit: Burn rate from which on its alert may be due.
        rate: Burn rate; 0 where nothing was counted.
        counted: Events that were counted.
        known: Seconds of the window of which the leader knows the counts.
        missed: Those of them that missed it.
    """

    over: float
    limit: float
    rate: float
    counted: int
    known: float
    missed: int = 0


class Miss(msgspec.Struct, frozen=True):
    """A time in which an objective is missed, whether or not anything acts on it.

    Attributes:
        since: Its beginning, in seconds since the epoch.
        reason: The counts that show it, in a few words.
        is_proven: False if too few calls were counted to tell it from chance.
    """

    since: float
    reason: str
    is_proven: bool = True


class ShownState(msgspec.Struct, frozen=True):
    """The state of an objective as people and programs see it.

    Attributes:
        name: One of ``STATE_NAMES``.
        level: Fallback level of new conversations.
        since: Its beginning, in seconds since the epoch; None for the start of the gateway.
        reason: Its reason; "" where nothing happened.
    """

    name: str
    level: int = 0
    since: float | None = None
    reason: str = ""


def shown_state(snapshot: ControllerSnapshot | None, miss: Miss | None) -> ShownState:
    """The state that is shown: what the controller does, and where it does nothing, any miss.

    Args:
        snapshot: The controller's state; None where nothing happened yet.
        miss: Its present miss.
    """
    if snapshot is not None and snapshot.state is not ControllerState.HEALTHY:
        return ShownState(snapshot.state.value, snapshot.level, snapshot.since, snapshot.reason)
    if miss is not None:
        name = MISSED if miss.is_proven else TOO_FEW_CALLS
        return ShownState(name, since=miss.since, reason=miss.reason)
    if snapshot is None:
        return ShownState(ControllerState.HEALTHY.value)
    return ShownState(snapshot.state.value, 0, snapshot.since, snapshot.reason)


class PublishedState(msgspec.Struct, frozen=True):
    """An objective's state as the replicas' leader publishes it.

    Attributes:
        at: Time of the change, in seconds since the epoch.
        snapshot: Its state and level.
        stage: The stage that most late calls broke lately, in words; "" for none.
        burns: Its burn windows, the shortest first.
        miss: Its present miss; None where it is met, or the leader is of a version without.
    """

    at: float
    snapshot: ControllerSnapshot
    stage: str = ""
    burns: tuple[BurnWindow, ...] = ()
    miss: Miss | None = None
