"""The port through which the policies page reads objectives, budgets and alerts, and its rows."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from slo.alert import Severity
from slo.budgets.budget import BudgetUnit
from slo.budgets.pace import BudgetPace
from slo.objectives.verdict import ObjectiveVerdict


@dataclass(frozen=True, slots=True, kw_only=True)
class Pin:
    """The fallback level to which somebody pinned an objective.

    Attributes:
        who: Name of the person; "" where it was not given.
        why: In that person's words; "" where it was not given.
        until: Time at which it ends, in seconds since the epoch, as all times here.
    """

    who: str
    why: str
    until: float


@dataclass(frozen=True, slots=True, kw_only=True)
class BurnStatus:
    """The burn rate of an error budget over the window of one of its alerts, on all gateways.

    Attributes:
        over: Length of the window, in seconds.
        limit: Multiple of the allowed rate from which on its alert may be due.
        rate: Multiple at which it was used up; 0 where nothing was counted.
        counted: Events that were counted.
        known: Seconds of the window that are known: since gateways began to count.
        missed: Those of them that missed it.
    """

    over: float
    limit: float
    rate: float
    counted: int
    known: float
    missed: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectiveStatus:
    """An objective and its state.

    Attributes:
        team: Whose calls; ``*`` for everyone's.
        feature: Of which feature; ``*`` for all, "" for calls that name none.
        what: The target, in a few words.
        only: Description of the calls that alone are counted and rerouted; "" for all.
        enforce: Action where it is missed.
        acts: True if calls are rerouted, and not only counted.
        ladder: Replacements for what calls ask for, level by level.
        verdict: ``ok``, ``at risk``, ``missed`` or ``no data``.
        fact: Its verdict's counts in a sentence, with their window and what is allowed.
        fact_seconds: Length of that window.
        state: ``healthy``, ``too_few_calls``, ``missed``, ``degraded``, ``recovering``, ``frozen``
            or ``pinned``.
        level: The fallback level of new conversations; 0 for what they ask for.
        since: Time at which that began; None for as long as the gateway runs.
        why: Reason for its state; "" where nothing happened.
        burn: Multiple of the allowed rate at which its error budget is used up; None where nothing
            was counted, or it has no error budget.
        burns: The same over the window of each of its alerts, the shortest first.
        missed: Events that missed it, lately.
        counted: All events that were counted, lately.
        knows_pin: True if it is known who pinned it, if anybody did.
        floor: The least part of input tokens that is to be read from caches; None for an objective
            of anything else.
        fell_back: Names of levels, each with the number of calls that fell back to it since this
            gateway started; where it does not act, of those that would have.
    """

    name: str
    team: str
    feature: str
    what: str
    enforce: str
    acts: bool
    ladder: Sequence[str]
    state: str
    level: int
    verdict: str = ObjectiveVerdict.NO_DATA
    fact: str = ""
    fact_seconds: float = 600.0
    since: float | None = None
    why: str = ""
    burn: float | None = None
    burns: Sequence[BurnStatus] = ()
    missed: int = 0
    counted: int = 0
    only: str = ""
    pin: Pin | None = None
    knows_pin: bool = True
    floor: float | None = None
    fell_back: Sequence[tuple[str, int]] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Reroute:
    """A period in which the controller kept an objective on a fallback level.

    Attributes:
        source: The level that new conversations came from; "" for what they ask for.
        level: The level they went to; "" for what they ask for.
        ended: Start of the next period; None while it lasts.
    """

    objective: str
    source: str
    level: str
    state: str
    why: str
    began: float
    ended: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class MissedTime:
    """A time in which an objective had an open alert of its error budget or floor.

    Attributes:
        ended: Time at which it ended; None while it lasts.
    """

    objective: str
    began: float
    ended: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class StateSpan:
    """A time in which an objective was not healthy, or on another level than asked for.

    Attributes:
        state: ``missed``, ``degraded``, ``recovering``, ``frozen`` or ``pinned``.
        level: The level of new conversations; "" for what they ask for.
        began: Time at which it began, in seconds since the epoch; not before the timeline does.
        ended: Time at which it ended, or now.
    """

    state: str
    level: str
    began: float
    ended: float


@dataclass(frozen=True, slots=True, kw_only=True)
class StateTimeline:
    """The states of one objective lately; between its spans it was healthy.

    Attributes:
        began: Beginning of the timeline, in seconds since the epoch: a day ago, or later where
            reroutes are known from then on alone.
        ended: Its end, which is now.
        spans: Those of ``missed`` first, then those of the controller, which hold where both are;
            of each the first span first.
    """

    objective: str
    began: float
    ended: float
    spans: Sequence[StateSpan]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReroutedCall:
    """A call that went to another route than the one it asked for.

    Attributes:
        at: Time of arrival.
        team: The team's name.
        feature: Part of the caller's product that asked; "" where it was not given.
        route: Route that it took in the end; "" where it was refused before it went anywhere.
        outcome: Result of its last attempt: ``answered``, ``refused``, ``failed``, ``broken``,
            ``hung_up``.
        error: The error's code; "" for none.
        why: Reason for rerouting it.
        cost_nanos: Cost of all its attempts in 1e-9 US dollars; None where a price is unknown.
    """

    call_id: str
    at: float
    team: str
    feature: str
    model: str
    route: str
    outcome: str
    error: str
    why: str
    cost_nanos: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetRefusals:
    """Calls that a counter had no room for, among the newest attempts of its window.

    Attributes:
        first: Arrival of the first, in seconds since the epoch, as that of the last.
        calls: Filters of the page of calls that lead to them.
    """

    count: int
    first: float
    last: float
    calls: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetCounter:
    """One counter of a budget, in the window of now.

    Attributes:
        scope: Of what kind it is.
        whose: Whose; ``*`` for everyone's together.
        window: The window's name, such as ``2026-11``.
        unit: Unit that is counted.
        limit: In the unit: nano-dollars, tokens or requests.
        is_hard: True if calls that do not fit are refused.
        spent: In the unit; None where it is unknown.
        held: For calls under way; None where it is unknown.
        pace: Where it ends its window at the present pace; None where too little is known.
        since: Beginning of the window, in seconds since the epoch.
        refusals: Calls that it refused; None for none, and where they are unknown.
    """

    budget: str
    scope: str
    whose: str
    window: str
    unit: BudgetUnit
    limit: int
    is_hard: bool
    spent: int | None
    held: int | None
    pace: BudgetPace | None = None
    since: float = 0.0
    refusals: BudgetRefusals | None = None


def fullest_budget(counters: Sequence[BudgetCounter]) -> BudgetCounter | None:
    """The counter that has spent the largest share of its limit; None without any.

    One that refuses calls comes first; of others only those in dollars count.
    """
    known = [
        counter
        for counter in counters
        if (counter.unit is BudgetUnit.USD or counter.refusals)
        and counter.spent is not None
        and counter.limit > 0
    ]
    return max(
        known,
        key=lambda counter: (bool(counter.refusals), (counter.spent or 0) / counter.limit),
        default=None,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class CeilingStatus:
    """A cost ceiling, and what became of calls under it.

    Attributes:
        team: Whose calls; ``*`` for everyone's.
        feature: Of which feature; ``*`` for all, "" for calls that name none.
        limit_nanos: The most that a call may cost, in 1e-9 US dollars.
        steps: Steps where it may cost more, in order; none only measures, which is its dry run.
        decisions: ``fits``, ``clamped``, ``cheaper``, ``refused`` and ``exceeds``, each with the
            number of decisions since this gateway started.
    """

    name: str
    team: str
    feature: str
    limit_nanos: int
    steps: Sequence[str]
    decisions: Sequence[tuple[str, int]]


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenAlert:
    """An alert that goes on; of several stages of one problem the highest.

    Attributes:
        id: Its id, by which its page is found.
        kind: That of ``slo.alert.Alert``, as the subject is.
        acknowledged_by: Name of the person who looks at it; "" for nobody.
        snoozed_until: Time until which it is snoozed; None where it is not.
        snoozed_by: Name of the person who snoozed it; "" for nobody.
        stages: Number of its stages: of a budget, or burn alerts of an objective.
        title: All of it in one sentence.
        facts: Known facts, as names and values.
        done: Action of the gateway; "" for none.
        fix: Advice for people; "" where nothing helps.
    """

    severity: Severity
    began: float
    title: str
    facts: Sequence[tuple[str, str]] = ()
    done: str = ""
    fix: str = ""
    id: str = ""
    kind: str = ""
    subject: str = ""
    acknowledged_by: str = ""
    snoozed_until: float | None = None
    snoozed_by: str = ""
    stages: int = 1


class AdminBoard(Protocol):
    """Objectives, budgets and alerts, and their state; None for what is not known just now."""

    async def objectives(self) -> Sequence[ObjectiveStatus] | None:
        """Every objective and its state, in the order of the policies file."""
        ...

    async def ceilings(self) -> Sequence[CeilingStatus]:
        """Every cost ceiling and what became of calls under it, the lowest first."""
        ...

    async def reroutes(self) -> Sequence[Reroute] | None:
        """The latest reroutes by the controller, the newest first."""
        ...

    async def missed_times(self) -> Sequence[MissedTime] | None:
        """The latest times in which objectives were missed, as their alerts say, newest first."""
        ...

    async def rerouted_calls(self) -> Sequence[ReroutedCall] | None:
        """The latest calls that fell back, the newest first."""
        ...

    async def counters(self) -> Sequence[BudgetCounter] | None:
        """Spent and held amounts of each budget, for its counters with most spent."""
        ...

    async def open_alerts(self) -> Sequence[OpenAlert] | None:
        """The alerts that go on, the newest first."""
        ...
