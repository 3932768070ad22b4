"""The calls and the setting that an alert is about."""

from typing import Any

import msgspec
import pytest

from dashboards.views.alerts import AlertCause, alert_cause, alert_links
from slo.alert import Alert, budget_alert, resolve_alert
from slo.budgets.budget import Budget, BudgetUnit
from slo.objectives.objective import Metric, Objective
from slo.window import Window, window_end
from tests.fakes.alerts import NOW, an_alert

#: Filters of the calls of an alert that began now, for which an hour was not counted.
HOUR = {
    "ended_from": "2026-09-21T13:13:20.000000Z",
    "ended_to": "2026-09-21T14:13:20.000000Z",
}
TEAMS = {"acme": "team_1"}
BUDGET = Budget(name="b", scope="team", unit=BudgetUnit.USD, window=Window.DAY, limit=10**9)
OBJECTIVE = Objective(name="chat-ttft", metric=Metric.TTFT, target=0.95, under=0.5)
DAY_S = 86_400.0


def cause_of(
    alert: Alert,
    objective: Objective = OBJECTIVE,
    budget: Budget = BUDGET,
    now: float = NOW,
) -> AlertCause:
    return alert_cause(alert, [objective], [budget], TEAMS, now)


def objective_with(**fields: Any) -> Objective:
    return msgspec.structs.replace(OBJECTIVE, **fields)


def test_an_objective_leads_to_the_calls_that_missed_it_while_it_was_measured() -> None:
    alert = an_alert(since=NOW - 1_800)
    cause = cause_of(alert)

    assert cause.objective == OBJECTIVE
    assert cause.calls == {
        "missed": "chat-ttft",
        "ended_from": "2026-09-21T13:43:20.000000Z",
        "ended_to": "2026-09-21T14:13:20.000000Z",
    }
    assert cause.later_calls == {"missed": "chat-ttft", "ended_from": cause.calls["ended_to"]}
    over = cause_of(resolve_alert(alert, NOW + 60))
    assert over.later_calls["ended_to"] == "2026-09-21T14:14:20.000000Z"


def test_a_burning_objective_leads_to_its_last_hour_by_model() -> None:
    alert = an_alert()
    (link,) = alert_links(alert, cause_of(alert, objective_with(feature="chat")))

    assert link.path == "/now?by=model&window=1h&feature=chat"


def test_a_missed_floor_leads_to_the_misses_of_its_feature() -> None:
    floor = objective_with(name="chat-cache", metric=Metric.CACHE, under=None, feature="")
    alert = an_alert("chat-cache", kind="floor")
    (link,) = alert_links(alert, cause_of(alert, floor))

    assert link.path == "/cache?feature=%28none%29"


@pytest.mark.parametrize(
    ("scope", "whose", "filters"),
    [
        ("team", "acme", {"team": "team_1"}),
        ("key", "key_1", {"key": "key_1"}),
        ("feature", "", {"feature": "(none)"}),
        ("organization", "*", {}),
        ("label:project", "x", {}),
    ],
)
def test_a_budget_leads_to_the_calls_of_its_owner(
    scope: str, whose: str, filters: dict[str, str]
) -> None:
    budget = msgspec.structs.replace(BUDGET, scope=scope)
    alert = budget_alert(budget, whose, 80, 1, NOW, window_end(Window.DAY, NOW))
    cause = cause_of(alert, budget=budget)

    assert cause.budget == budget
    assert cause.calls == {**filters, **HOUR, "ended_from": "2026-09-21T00:00:00.000000Z"}
    assert cause.costs == {**filters, "from": "2026-09-21", "to": "2026-09-21"}


def test_a_budget_whose_limit_was_changed_is_not_the_cause() -> None:
    raised = msgspec.structs.replace(BUDGET, limit=BUDGET.limit * 2)
    alert = budget_alert(BUDGET, "acme", 80, 1, NOW, window_end(Window.DAY, NOW))

    assert cause_of(alert, budget=raised).budget is None


@pytest.mark.parametrize(
    ("kind", "subject", "filters"),
    [
        ("route", "route lab/big", {"failed_route": "lab/big"}),
        ("planning", "feature chat of team team_1", {"team": "team_1", "feature": "chat"}),
        (
            "planning",
            "feature a of team b of team t on claude",
            {"team": "t", "feature": "a of team b"},
        ),
        ("compaction", "feature (none) of team t", {"team": "t", "feature": "(none)"}),
        ("store", "journal", {}),
    ],
)
def test_other_alerts_lead_to_the_calls_of_what_they_name(
    kind: str, subject: str, filters: dict[str, str]
) -> None:
    assert cause_of(an_alert(subject, kind=kind)).calls == {**filters, **HOUR}


def test_the_days_are_those_of_the_alert_and_a_month_at_most() -> None:
    alert = an_alert(began=NOW - 2 * DAY_S)

    assert cause_of(alert).costs["from"] == "2026-09-19"
    assert cause_of(resolve_alert(alert, NOW - DAY_S)).costs["to"] == "2026-09-20"
    late = cause_of(alert, now=NOW + 90 * DAY_S).costs
    assert (late["from"], late["to"]) == ("2026-11-20", "2026-12-20")
