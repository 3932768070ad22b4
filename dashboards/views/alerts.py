"""Alerts, one alert's whole story, and the calls and the setting that it is about."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final
from urllib.parse import quote, urlencode

from dashboards.board import OpenAlert
from dashboards.views.costs import NO_VALUE
from dashboards.views.minutes import FailureWords, RouteFailures
from slo.alert import Alert, alerting_budget, alerting_owner
from slo.budgets.budget import EVERY, Budget
from slo.objectives.objective import Objective

_HOUR_S: Final = 3_600.0
#: Days of calls that an alert leads to, the last.
_MAX_DAYS: Final = timedelta(days=31)
#: Subjects of alerts about planning and compaction.
_FEATURE: Final = re.compile(r"feature (.*) of team (\S+)(?: on \S+)?")
_ROUTE: Final = "route "
#: Scopes of budgets that the page of calls filters by.
_FILTERED: Final = frozenset({"team", "key", "feature", "user"})


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertsView:
    """Open alerts by urgency, the newest of each urgency first; null if they are unknown now.

    Attributes:
        alerts: The first fifty of those that nobody snoozed.
        total: Number of these, counted up to 1,000; of more, the newest 1,000 are ranked.
        notes: Number of these that need nobody, such as a pin that a person set.
        snoozed: Those that somebody snoozed, fifty at most.
    """

    alerts: Sequence[OpenAlert] | None
    total: int | None
    notes: int = 0
    snoozed: Sequence[OpenAlert] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertCalls:
    """The calls that an alert counted, as its page sums them up.

    Attributes:
        among: Number of the newest attempts among which they are; None for all.
        failures: Their most frequent errors.
        route: Failures of the route that the alert is about; null for none.
    """

    count: int
    among: int | None = None
    failures: Sequence[FailureWords] = ()
    route: RouteFailures | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertEvent:
    """Something in the history of an alert.

    Attributes:
        at: Time of it, in seconds since the epoch.
        kind: ``began``, ``escalated``, ``sent``, ``not sent``, ``acknowledged``, ``snoozed``,
            ``snooze ended`` or ``ended``.
        text: Facts of it in a few words; "" for none.
        who: Name of the person who did it; "" for the gateway.
        until: End of a snooze; null for others.
    """

    at: float
    kind: str
    text: str = ""
    who: str = ""
    until: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PageLink:
    """A page, by its path below ``/admin``."""

    title: str
    path: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertView:
    """One alert, its cause and its history.

    Attributes:
        kind: ``budget``, ``burn``, ``floor``, ``move``, ``route``, ``store``, ``drift``,
            ``planning``, ``compaction`` or ``test``.
        subject: The budget, objective, route or feature, and whose.
        title: The fact in one sentence.
        facts: Names and values of what was measured.
        done: Action of the gateway; "" for none.
        fix: Advice for people; "" for none.
        began: Time at which it began, in seconds since the epoch, as all times here.
        ended: Time at which it ended; null while it goes on.
        expires: Time at which it ends by itself; null where a process ends it.
        cost_nanos: Cost in nano-dollars; null where it is unknown.
        acknowledged_by: Name of the person who looks at it; "" for nobody.
        snoozed_until: End of its snooze; null where it is not snoozed.
        snoozed_by: Name of the person who snoozed it; "" for nobody.
        calls: Filters of the page of calls that lead to the calls that were counted.
        later_calls: The same, from its beginning to its end, or to now.
        costs: Filters of the page of costs that lead to its spend.
        objective: Name of the objective it is about; "" for none in force.
        budget: Name of the budget it is about; "" for none in force with this limit.
        links: Pages where its cause is seen and changed.
        history: From its beginning on.
        replaced_by: The more urgent stage of its problem that is open, too; null for none.
    """

    id: str
    kind: str
    severity: str
    subject: str
    title: str
    facts: Sequence[tuple[str, str]]
    done: str
    fix: str
    began: float
    ended: float | None
    expires: float | None
    cost_nanos: int | None
    acknowledged_by: str
    snoozed_until: float | None
    snoozed_by: str
    calls: Mapping[str, str]
    later_calls: Mapping[str, str]
    costs: Mapping[str, str]
    objective: str
    budget: str
    links: Sequence[PageLink]
    history: Sequence[AlertEvent]
    replaced_by: PageLink | None


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertCause:
    """The objective or budget in force that an alert is about, and its calls.

    Attributes:
        calls: Filters of the page of calls, for those that were counted.
        later_calls: The same, from its beginning on.
        costs: Filters of the page of costs.
    """

    objective: Objective | None
    budget: Budget | None
    calls: Mapping[str, str]
    later_calls: Mapping[str, str]
    costs: Mapping[str, str]


def alert_cause(
    alert: Alert,
    objectives: Sequence[Objective],
    budgets: Sequence[Budget],
    teams: Mapping[str, str],
    now: float,
) -> AlertCause:
    """The cause of an alert, as far as the policies in force know it.

    Args:
        teams: Ids of teams by their names.
    """
    objective = None
    if alert.kind in {"burn", "floor", "move"}:
        objective = next((one for one in objectives if one.name == alert.subject), None)
    budget = alerting_budget(alert, budgets)
    if objective is not None:
        filters = {"missed": objective.name}
    elif budget is not None:
        filters = budget_filters(budget.scope, alerting_owner(alert, budget), teams)
    else:
        filters = _subject_filters(alert)
    since = alert.began - _HOUR_S if alert.since is None else alert.since
    end = now if alert.ended is None else alert.ended
    return AlertCause(
        objective=objective,
        budget=budget,
        calls={**filters, **ended_between(since, alert.began)},
        later_calls={**filters, **ended_between(alert.began, alert.ended)},
        costs={**filters, **_days(since, end)},
    )


def ended_between(since: float, until: float | None) -> dict[str, str]:
    """Filters of calls that ended between two moments, to the microsecond; None for now."""
    times = {"ended_from": since} | ({} if until is None else {"ended_to": until})
    return {
        name: f"{datetime.fromtimestamp(at, UTC):%Y-%m-%dT%H:%M:%S.%f}Z"
        for name, at in times.items()
    }


def alert_links(alert: Alert, cause: AlertCause) -> list[PageLink]:
    """The pages where the cause of an alert is seen and changed."""
    objective = cause.objective
    filters = {name: cause.calls[name] for name in ("team", "feature") if name in cause.calls}
    if objective is not None and objective.feature != EVERY:
        filters["feature"] = objective.feature or NO_VALUE
    misses = PageLink(title="Why its calls missed the cache", path=f"/cache?{urlencode(filters)}")
    if (feature := _FEATURE.fullmatch(alert.subject)) is not None:
        name = "-" if feature[1] == NO_VALUE else quote(feature[1], safe="")
        settings = PageLink(
            title=f"Planning and compaction of {feature[1]}", path=f"/layouts/{feature[2]}/{name}"
        )
        return [settings, misses] if alert.kind == "planning" else [settings]
    if alert.kind == "floor":
        return [misses]
    if alert.kind in {"burn", "move"}:
        models = urlencode({"by": "model", "window": "1h", **filters})
        return [PageLink(title="The last hour by model", path=f"/now?{models}")]
    if alert.kind == "route":
        route = alert.subject.removeprefix(_ROUTE)
        return [
            PageLink(
                title="Its last hour", path=f"/now?{urlencode({'by': 'route', 'route': route})}"
            ),
            PageLink(title="Its model and other routes", path=f"/models?{urlencode({'q': route})}"),
        ]
    return [PageLink(title="Settings", path="/settings")] if alert.kind == "store" else []


def budget_filters(scope: str, whose: str, teams: Mapping[str, str]) -> dict[str, str]:
    """Filters of the calls that a counter counts; none where the page of calls has none.

    Args:
        teams: Ids of teams by their names.
    """
    if scope not in _FILTERED:
        return {}
    value = teams.get(whose, whose) if scope == "team" else whose
    return {scope: value or NO_VALUE}


def _subject_filters(alert: Alert) -> dict[str, str]:
    """Filters of alerts that no policy is behind: routes that fail, and features."""
    if alert.kind == "route":
        return {"failed_route": alert.subject.removeprefix(_ROUTE)}
    feature = _FEATURE.fullmatch(alert.subject)
    return {} if feature is None else {"team": feature[2], "feature": feature[1]}


def _days(since: float, until: float) -> dict[str, str]:
    """The days of UTC between two times, as the pages name a period."""
    last = datetime.fromtimestamp(max(since, until), UTC).date()
    first = max(datetime.fromtimestamp(since, UTC).date(), last - _MAX_DAYS + timedelta(days=1))
    return {"from": first.isoformat(), "to": last.isoformat()}
