"""Forms of the page of budgets."""

import pytest

from dashboards.access import Role
from dashboards.refilled_form import PAGE_FIELD
from slo.alert import Alert, budget_alert
from slo.budgets.budget import Budget
from slo.window import window_end
from tests.fakes.alerts import an_alert
from tests.fakes.board import NOW
from tests.fakes.dashboard import OWN_TEAM, Dashboard

FORM = {"name": "own", "scope": "team", "of": "", "unit": "usd", "window": "day", "limit": "5"}


def submit_form(dashboard: Dashboard, **fields: str) -> Budget | str:
    """The budget that the form makes, or what the page says instead."""
    answer = dashboard.ask_as(Role.ADMIN, "POST", "/admin/budgets/set", {**FORM, **fields})
    if answer.status != 303:
        return answer.body.decode()
    return next(
        budget
        for budget in dashboard.reloader.snapshot.policies.budgets
        if budget.name == FORM["name"]
    )


@pytest.mark.parametrize(
    ("text", "percents"),
    [
        ("", (50, 80, 95)),
        ("none", ()),
        ("60", (60,)),
        (" 60 %,90% ", (60, 90)),
    ],
)
def test_percents_are_written_as_people_write_them(
    dashboard: Dashboard, text: str, percents: tuple[int, ...]
) -> None:
    form = submit_form(dashboard, alerts=text, hard="yes")

    assert isinstance(form, Budget)
    assert form.alerts == percents


def test_empty_choices_are_the_defaults_and_no_mistakes(dashboard: Dashboard) -> None:
    form = submit_form(dashboard, hold="", on_loss="", unpriced="", hard="")

    assert isinstance(form, Budget)
    assert (form.of, form.hard, form.on_loss) == ("*", False, "open")


@pytest.mark.parametrize("text", ["half", "60;90", "-1"])
def test_percents_that_are_none_are_explained(dashboard: Dashboard, text: str) -> None:
    form = submit_form(dashboard, alerts=text)

    assert isinstance(form, str)
    assert "alerts" in form


def test_a_form_with_faults_keeps_its_values_and_names_all_of_them(dashboard: Dashboard) -> None:
    fields = {**FORM, "of": "acme", "window": "day", "limit": "much", "alerts": "half"}
    cookie = dashboard.cookies[Role.ADMIN]

    def submit(referer: str, **more: str) -> str:
        answer = dashboard.ask(
            "POST",
            "/admin/budgets/set",
            cookie=cookie,
            document={**fields, **more},
            referer=referer,
        )
        assert answer.status in {400, 422}
        return answer.body.decode()

    html = submit("http://gateway:8080/admin/budgets#set-a-budget")
    again = submit(
        "http://gateway:8080/admin/budgets/set", **{PAGE_FIELD: "/admin/budgets", "limit": "more"}
    )

    faults = html.partition('<div class="problem" role="alert"><ul>')[2].partition("</ul>")[0]
    assert "alerts" in faults
    assert "limit" in faults
    assert 'placeholder="500" value="much"' in html
    assert 'placeholder="500" value="more"' in again
    assert "<option selected>day</option>" in html
    assert 'list="owners" value="acme"' in html


def test_a_fault_without_a_page_of_its_form_is_a_page_with_the_reason(
    dashboard: Dashboard,
) -> None:
    for referer in ("", "http://elsewhere/admin/nothing", "http://gateway:8080/admin/teams"):
        answer = dashboard.ask(
            "POST", "/admin/budgets/set", cookie=dashboard.cookies[Role.ADMIN],
            document={**FORM, "limit": "much"}, referer=referer,
        )  # fmt: skip
        assert "This cannot be done" in answer.body.decode()


def test_the_form_offers_the_teams_of_its_viewer(dashboard: Dashboard) -> None:
    def owner_options(role: Role) -> str:
        html = dashboard.ask_as(role, "GET", "/admin/budgets").body.decode()
        return html.partition('<datalist id="owners">')[2].partition("</datalist>")[0]

    assert "other" in owner_options(Role.ADMIN)
    assert "acme" in owner_options(Role.TEAM_ADMIN)
    assert "other" not in owner_options(Role.TEAM_ADMIN)
    assert owner_options(Role.VIEWER) == ""


def alert_page(dashboard: Dashboard, alert: Alert, role: Role = Role.ADMIN) -> str:
    return dashboard.ask_as(role, "GET", f"/admin/alerts/{alert.id}").body.decode()


def test_an_alert_leads_to_its_calls_and_to_the_limit_that_may_be_raised(
    dashboard: Dashboard,
) -> None:
    budget = submit_form(dashboard, of=OWN_TEAM, limit="5")
    assert isinstance(budget, Budget)
    ends = window_end(budget.window, NOW)
    alert = budget_alert(budget, OWN_TEAM, 80, 41 * 10**8, NOW, ends)
    dashboard.store.outbox.add([alert], {}, NOW)
    html = alert_page(dashboard, alert)

    assert "<h1>Spend of team acme: $4.10 of $5.00 today</h1>" in html
    assert f"/admin/calls?team={dashboard.own}&amp;from=2026-09-21&amp;to=2026-09-21" in html
    assert "Raise the limit of own" in html
    assert 'name="alerts" value="50, 80, 95"' in html
    finance = alert_page(dashboard, alert, Role.FINANCE)
    assert "/admin/calls?" not in finance
    assert "Raise the limit of own" not in finance
    assert "I look at it" not in finance


def test_an_alert_is_acknowledged_and_snoozed_by_buttons(dashboard: Dashboard) -> None:
    alert = an_alert()
    dashboard.store.outbox.add([alert], {}, NOW)
    path = f"/admin/alerts/{alert.id}"
    answers = [
        dashboard.ask_as(Role.ADMIN, "POST", f"{path}/acknowledge", {}),
        dashboard.ask_as(Role.ADMIN, "POST", f"{path}/snooze", {"hours": "24"}),
    ]
    html = alert_page(dashboard, alert)

    assert [answer.headers["location"] for answer in answers] == [path, path]
    assert "<strong>admin</strong> looks at it" in html
    assert "End the snooze" in html
    wrong = dashboard.ask_as(Role.ADMIN, "POST", f"{path}/snooze", {"hours": "many"})
    assert wrong.status == 400
