"""Alerts as people of each role see and answer them."""

import asyncio
from typing import Any

import msgspec
import pytest

from dashboards.access import Role, Viewer
from dashboards.views.alerts import AlertView
from proxy.errors import CallerError
from proxy.pages.resources.alerts import AlertsResource, SnoozeRequest
from proxy.pages.store_questions import StoreQuestions
from proxy.store.store import Store
from slo.alert import Severity, budget_alert, resolve_alert
from slo.budgets.budget import Budget, BudgetUnit
from slo.objectives.objective import Metric, Objective
from slo.policies.file import Policies
from slo.window import Window, window_end
from tests.fakes.admin_api import PATIENCE_S
from tests.fakes.alerts import NOW, an_alert
from tests.fakes.board import FakeBoard, an_open_alert, overview

ADMIN = Viewer(name="ann", role=Role.ADMIN)
FINANCE = Viewer(name="fay", role=Role.FINANCE)
BUDGET = Budget(
    name="teams-month", scope="team", unit=BudgetUnit.USD, window=Window.MONTH, limit=50 * 10**9
)
OBJECTIVE = Objective(name="chat-ttft", feature="chat", metric=Metric.TTFT, target=0.95, under=0.5)
HOUR = 3_600.0


def resource(store: Store, board: FakeBoard | None = None, now: float = NOW) -> AlertsResource:
    policies = msgspec.structs.replace(Policies(), budgets=(BUDGET,), objectives=(OBJECTIVE,))
    ask = StoreQuestions(store, PATIENCE_S)
    return AlertsResource(board or FakeBoard(), store, ask, lambda: policies, lambda: now)


def stage(percent: int, spent: int, began: float) -> Any:
    return budget_alert(BUDGET, "acme", percent, spent, began, window_end(Window.MONTH, NOW))


def story(view: AlertView) -> list[tuple[str, str]]:
    return [(event.kind, event.who) for event in view.history]


def test_finance_sees_alerts_and_members_see_none(store: Store) -> None:
    bob = Viewer(name="bob", role=Role.VIEWER, own_teams=frozenset({"team_1"}))

    assert len(asyncio.run(resource(store).list(FINANCE)).alerts or ()) == 1
    assert asyncio.run(resource(store).list(bob)).alerts == ()
    with pytest.raises(CallerError, match="see all teams") as refused:
        asyncio.run(resource(store).get(bob, an_alert().id))
    assert refused.value.status == 403


def test_the_most_urgent_fifty_alerts_are_shown_and_all_counted(store: Store) -> None:
    notes = [an_open_alert(severity=Severity.NOTE, began=NOW - n) for n in range(60)]
    urgent = an_open_alert(began=NOW - 9_000)
    asleep = an_open_alert(began=NOW - 9_500, snoozed_until=NOW + 60)
    board = FakeBoard(overview(open_alerts=[*notes, asleep, urgent]))
    result = asyncio.run(resource(store, board).list(FINANCE))

    assert (result.alerts, result.total) == ([urgent, *notes[:49]], 61)
    assert result.snoozed == [asleep]


def test_each_objective_has_its_alerts_however_many_are_more_urgent(store: Store) -> None:
    urgent = [an_open_alert(began=NOW - n, kind="budget") for n in range(60)]
    asleep = an_open_alert(kind="burn", subject="chat-ttft", snoozed_until=NOW + 60)
    awake = an_open_alert(kind="burn", subject="chat-ttft", severity=Severity.NOTE)
    board = FakeBoard(overview(open_alerts=[*urgent, asleep, awake]))
    alerts = asyncio.run(resource(store, board).of_objectives(FINANCE))

    assert dict(alerts) == {"chat-ttft": [awake, asleep]}
    bob = Viewer(name="bob", role=Role.VIEWER, own_teams=frozenset({"team_1"}))
    assert asyncio.run(resource(store, board).of_objectives(bob)) == {}


def test_an_alert_of_a_budget_leads_to_the_calls_of_its_team_and_window(store: Store) -> None:
    team = store.teams.create("acme", now=NOW).id
    low, high = stage(50, 26 * 10**9, NOW - HOUR), stage(80, 412 * 10**8, NOW)
    store.outbox.add([low, high], {}, NOW)
    view = asyncio.run(resource(store).get(FINANCE, high.id))

    assert view.title == "Spend of team acme: $41.20 of $50.00 this month"
    assert view.calls == {
        "team": team,
        "ended_from": "2026-09-01T00:00:00.000000Z",
        "ended_to": "2026-09-21T14:13:20.000000Z",
    }
    assert view.costs == {"team": team, "from": "2026-09-01", "to": "2026-09-21"}
    assert (view.budget, view.objective) == ("teams-month", "")
    replaced = asyncio.run(resource(store).get(FINANCE, low.id)).replaced_by
    assert (view.replaced_by, replaced and replaced.path) == (None, f"/alerts/{high.id}")
    assert [(event.kind, event.text) for event in view.history] == [
        ("began", "Spend of team acme: $26.00 of $50.00 this month"),
        ("escalated", view.title),
    ]


def test_an_alert_of_an_objective_leads_to_the_calls_that_missed_it(store: Store) -> None:
    alert = an_alert()
    store.outbox.add([alert], {"on-call": Severity.NOTE}, NOW)
    letters = store.outbox.claim_due("on-call", NOW, 9, 60)
    store.outbox.mark_sent(letters, NOW + 30, lambda _: None)
    store.outbox.add([resolve_alert(alert, NOW + HOUR)], {}, NOW)
    view = asyncio.run(resource(store, now=NOW + 2 * HOUR).get(ADMIN, alert.id))

    assert view.objective == "chat-ttft"
    assert view.calls["missed"] == "chat-ttft"
    assert story(view) == [("began", ""), ("sent", ""), ("ended", "")]


def test_who_looks_at_an_alert_is_shown_and_audited(store: Store) -> None:
    alert = an_alert()
    store.outbox.add([alert], {}, NOW)
    view = asyncio.run(resource(store).acknowledge(ADMIN, alert.id))

    assert (view.acknowledged_by, story(view)[1]) == ("ann", ("acknowledged", "ann"))
    entry = store.audit.entries(1)[0]
    assert (entry.who, entry.action, entry.subject) == ("ann", "acknowledge alert", alert.title)


def test_a_snooze_ends_by_itself_or_by_hand(store: Store) -> None:
    alert = an_alert()
    store.outbox.add([alert], {}, NOW)
    snoozed = asyncio.run(resource(store).snooze(ADMIN, alert.id, SnoozeRequest(hours=1)))
    later = asyncio.run(resource(store, now=NOW + HOUR).get(ADMIN, alert.id))
    again = resource(store, now=NOW + 60)
    woken = asyncio.run(again.snooze(ADMIN, alert.id, SnoozeRequest(hours=0)))

    assert (snoozed.snoozed_until, later.snoozed_until) == (NOW + HOUR, None)
    assert woken.snoozed_until is None
    assert story(woken) == [("began", ""), ("snoozed", "ann"), ("snooze ended", "ann")]


def test_only_admins_answer_alerts_and_only_those_that_go_on(store: Store) -> None:
    over = an_alert("over")
    store.outbox.add([over], {}, NOW)
    store.outbox.add([resolve_alert(over, NOW)], {}, NOW)
    alerts = resource(store)
    codes = []
    for viewer, alert_id in ((FINANCE, over.id), (ADMIN, over.id), (ADMIN, "x")):
        with pytest.raises(CallerError) as refused:
            asyncio.run(alerts.acknowledge(viewer, alert_id))
        codes.append(refused.value.code)

    assert codes == ["not_allowed", "alert_ended", "unknown_alert"]
