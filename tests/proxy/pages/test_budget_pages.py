"""Forms of the page of budgets."""

import re
from datetime import UTC, datetime
from html import unescape

import pytest

from compaction.policy import CompactionMode
from dashboards.access import Role
from dashboards.refilled_form import PAGE_FIELD
from proxy.records.feature_mode import LayoutScope
from proxy.records.receipt import Outcome
from proxy.services.compaction.alerts import higher_cost_alert, stepped_back_alert
from proxy.services.compaction.live_quality import CompactionSums
from proxy.services.planning.guard import step_back_alert, suspension_alert
from proxy.store.sql.ids import id_floor
from proxy.store.sql.ledger.inserts import inserter
from slo.alert import Alert, budget_alert
from slo.budgets.budget import Budget, BudgetUnit
from slo.budgets.pace import BudgetPace
from slo.window import Window, window_end
from tests.fakes.alerts import an_alert
from tests.fakes.asgi import AsgiConnection
from tests.fakes.board import NOW, a_counter, overview
from tests.fakes.dashboard import OWN_TEAM, Dashboard
from tests.fakes.ledger_day import book_calls_of_yesterday
from tests.fakes.receipts import a_receipt

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
            "/admin/budgets/preview",
            cookie=cookie,
            document={**fields, **more},
            referer=referer,
        )
        assert answer.status in {400, 422}
        return answer.body.decode()

    html = submit("http://gateway:8080/admin/budgets#set-a-budget")
    again = submit(
        "http://gateway:8080/admin/budgets/preview",
        **{PAGE_FIELD: "/admin/budgets", "limit": "more"},
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

    assert ">Spend of team acme: $4.10 of $5.00 today</h1>" in html
    assert 'action="/admin/budgets/preview"' in html


def test_pages_count_the_calls_that_a_budget_refuses(dashboard: Dashboard) -> None:
    budget = submit_form(dashboard, of=OWN_TEAM, limit="5", hard="yes")
    assert isinstance(budget, Budget)
    ends = window_end(budget.window, NOW)
    alert = budget_alert(budget, OWN_TEAM, 95, 498 * 10**7, NOW, ends)
    dashboard.store.outbox.add([alert], {}, NOW)
    sentence = f"The budget `own` of team `{OWN_TEAM}` has a limit of $5 a day."
    limited = {"outcome": Outcome.REFUSED, "status": 429, "error": "budget_exceeded"}
    receipts = [
        a_receipt(
            n, call_id=f"{id_floor(NOW - n)[:-6]}{n:06x}", team=team, notes=(note,), **limited
        )
        for n, team, note in (
            (1, dashboard.own, sentence),
            (60, dashboard.own, sentence),
            (2, dashboard.own, sentence.replace("own", "else")),
            (3, dashboard.other, sentence),
        )
    ]
    inserter(dashboard.store._engine)(receipts)
    dashboard.board.page = overview(
        counters=[
            a_counter(
                budget="own", whose=OWN_TEAM, limit=budget.limit, spent=498 * 10**7,
                since=ends - 86_400, pace=None,
            )
        ]
    )  # fmt: skip
    since = f"{datetime.fromtimestamp(NOW - 60, UTC):%H:%M}"
    for path in ("", "/budgets", f"/alerts/{alert.id}"):
        html = dashboard.ask_as(Role.ADMIN, "GET", f"/admin{path}").body.decode()
        (link,) = re.findall(rf'href="([^"]*)">2 refused since {since}<', html)
        calls = dashboard.ask_as(Role.ADMIN, "GET", unescape(link)).body.decode()
        assert len(set(re.findall(r"/admin/calls/(call_\w+)", calls))) == 2, path
    finance = dashboard.ask_as(Role.FINANCE, "GET", "/admin/budgets").body.decode()
    assert f'<strong class="bad">2 refused since {since}</strong>' in finance
    assert f"/admin/calls?team={dashboard.own}&amp;ended_from=2026-09-21T00%3A00%3A00" in html
    assert "<summary>Raise the limit of own" in html
    assert 'name="alerts" value="50, 80, 95"' in html
    finance = alert_page(dashboard, alert, Role.FINANCE)
    assert "/admin/calls?" not in finance
    assert "<summary>Raise the limit of own" in finance
    assert "Acknowledge" not in finance


@pytest.mark.parametrize(
    "policies",
    ['[[objectives]]\nname = "x"\nfeature = "chat"\nmetric = "errors"\nat_most = "10%"\n'],
)
def test_an_alert_counts_the_calls_that_its_link_shows(dashboard: Dashboard) -> None:
    ended = [NOW - 1_801, NOW - 1_800, NOW - 60, NOW - 0.000001, NOW, NOW + 60]
    outcomes = [Outcome.FAILED] * 4 + [Outcome.BROKEN] * 2
    calls = [
        a_receipt(
            n,
            call_id=f"{id_floor(at - 5)[:-6]}{n:06x}",
            team=dashboard.own,
            feature="chat",
            outcome=outcome,
            started=at - 5,
            duration=5.0,
        )
        for n, (at, outcome) in enumerate(zip(ended, outcomes, strict=True))
    ]
    assert inserter(dashboard.store._engine)(calls) is None
    alert = an_alert("x", since=NOW - 1_800)
    dashboard.store.outbox.add([alert], {}, NOW)
    html = alert_page(dashboard, alert)
    link = re.search(r'href="(/admin/calls[^"]*)">Its 3 calls up to 14:13<', html)

    assert link is not None
    shown = dashboard.ask_as(Role.ADMIN, "GET", unescape(link[1])).body.decode()
    assert [calls[n].call_id in shown for n in range(6)] == [False, True, True, True, False, False]
    assert "missed x \N{MULTIPLICATION SIGN}" in unescape(shown)


def test_each_kind_of_alert_says_its_fact_and_leads_on_without_a_command(
    dashboard: Dashboard,
) -> None:
    place, modes = LayoutScope(dashboard.own, "chat"), (CompactionMode.FACTS, CompactionMode.TRIM)
    sums = CompactionSums(compacted=40, tokens=9_000, nanos=-2_000_000_000)
    chat = (dashboard.own, "chat")
    links = {
        suspension_alert(place, OWN_TEAM, "12 % more", NOW): f"/layouts/{dashboard.own}/chat",
        step_back_alert(place, OWN_TEAM, (2, 1), "12 % more", NOW + 1): "/cache?team=",
        stepped_back_alert(chat, OWN_TEAM, modes, "9 of 100", NOW + 2): "/layouts/",
        higher_cost_alert(chat, OWN_TEAM, sums, NOW): "/layouts/",
        an_alert("route lab/big", kind="route"): "/now?by=route&amp;route=lab%2Fbig",
        an_alert("objectives", kind="store"): "/settings",
        an_alert("chat-cache", kind="floor"): "/cache",
    }
    dashboard.store.outbox.add(list(links), {}, NOW)
    for alert, link in links.items():
        html = alert_page(dashboard, alert)
        assert alert.title in unescape(html)
        assert f'href="/admin{link}' in html
        assert "`" not in html
        assert "thriftgate " not in alert.title + alert.action + alert.fix


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
    assert "looked at by <strong>admin</strong>" in html
    assert "UTC by admin" in html
    assert "End the snooze" in html
    wrong = dashboard.ask_as(Role.ADMIN, "POST", f"{path}/snooze", {"hours": "many"})
    assert wrong.status == 400


def ask_admin(dashboard: Dashboard, path: str, **fields: str) -> AsgiConnection:
    return dashboard.ask_as(Role.ADMIN, "POST", f"/admin/budgets/{path}", fields)


def stored_limits(dashboard: Dashboard) -> dict[str, int]:
    return {entry.budget.name: entry.budget.limit for entry in dashboard.store.budgets.all()}


def test_a_preview_shows_the_change_and_what_it_would_have_refused_and_sets_nothing(
    dashboard: Dashboard,
) -> None:
    submit_form(dashboard, of="acme", limit="7", hard="yes")
    book_calls_of_yesterday(
        dashboard.store._engine, NOW, 5, cost_nanos=1_000_000_000, team=dashboard.own
    )
    answer = ask_admin(dashboard, "preview", **{**FORM, "of": "acme", "limit": "2", "hard": "yes"})
    html = answer.body.decode()

    assert answer.status == 200
    assert "It would have refused <strong>3 calls, $3.00</strong>" in html
    assert '<span class="removed">- limit = &#34;7&#34;</span>' in html
    assert '<span class="added">+ limit = &#34;2&#34;</span>' in html
    assert '<input type="hidden" name="limit" value="2">' in html
    assert stored_limits(dashboard) == {"own": 7_000_000_000}


def test_a_preview_of_a_budget_of_the_file_says_to_change_it_there(dashboard: Dashboard) -> None:
    answer = ask_admin(dashboard, "preview", **{**FORM, "name": "in-the-file"})

    assert answer.status == 409
    assert "has a budget in-the-file; change it there, then Reload." in answer.body.decode()


def test_a_team_admin_previews_budgets_of_own_teams_alone(dashboard: Dashboard) -> None:
    def status(of: str) -> int:
        form = {**FORM, "of": of}
        return dashboard.ask_as(Role.TEAM_ADMIN, "POST", "/admin/budgets/preview", form).status

    assert (status("acme"), status("other"), status("")) == (200, 403, 403)


def test_a_blank_form_names_each_missing_field(dashboard: Dashboard) -> None:
    answer = ask_admin(dashboard, "preview")
    html = answer.body.decode()

    assert answer.status == 400
    for field in ("name", "scope", "unit", "window"):
        assert f"{field} " in html


def store_budget(dashboard: Dashboard, dollars: int, ago: float) -> None:
    """Have a budget set so many seconds ago."""
    limit = dollars * 1_000_000_000
    budget = Budget(name="own", scope="team", unit=BudgetUnit.USD, window=Window.DAY, limit=limit)
    dashboard.store.budgets.set(budget, "ann", NOW - ago)


def test_undo_restores_the_budget_before_its_last_change(dashboard: Dashboard) -> None:
    store_budget(dashboard, 7, ago=20)
    store_budget(dashboard, 9, ago=10)

    assert ask_admin(dashboard, "undo", name="own").status == 303
    assert stored_limits(dashboard) == {"own": 7_000_000_000}
    assert [budget.limit for budget in dashboard.reloader.snapshot.policies.budgets][
        -1
    ] == 7 * 10**9


def test_undo_of_a_removal_and_of_a_first_setting(dashboard: Dashboard) -> None:
    store_budget(dashboard, 7, ago=20)
    dashboard.store.budgets.remove("own", "ann", NOW - 10)
    page = dashboard.ask_as(Role.ADMIN, "GET", "/admin/budgets").body.decode()
    assert "Restore the budget own" in page

    ask_admin(dashboard, "undo", name="own")
    assert stored_limits(dashboard) == {"own": 7_000_000_000}
    ask_admin(dashboard, "undo", name="own")
    assert stored_limits(dashboard) == {}


def test_undo_of_a_budget_that_nobody_changed_says_so(dashboard: Dashboard) -> None:
    answer = ask_admin(dashboard, "undo", name="unknown")

    assert answer.status == 404
    assert "no change of unknown is known" in answer.body.decode()


def seen_change(html: str, path: str) -> str:
    """The change that the form of a path would take back or build upon."""
    form = html.partition(f'action="/admin/budgets/{path}"')[2].partition("</form>")[0]
    field = re.search(r'name="seen" value="([^"]*)"', form)
    assert field is not None
    return field[1]


def test_a_budget_that_another_person_changed_meanwhile_is_neither_set_nor_undone(
    dashboard: Dashboard,
) -> None:
    store_budget(dashboard, 7, ago=20)
    page = dashboard.ask_as(Role.ADMIN, "GET", "/admin/budgets").body.decode()
    preview = ask_admin(dashboard, "preview", **FORM).body.decode()
    store_budget(dashboard, 9, ago=10)

    for path, fields, html in (
        ("undo", {"name": "own"}, page),
        ("remove", {"name": "own"}, page),
        ("set", FORM, preview),
    ):
        answer = ask_admin(dashboard, path, **fields, seen=seen_change(html, path))
        assert answer.status == 409
        assert "changed after the page was shown, by ann (change budget own," in unescape(
            answer.body.decode()
        )
    assert stored_limits(dashboard) == {"own": 9_000_000_000}


def test_counter_that_has_reached_its_limit_is_full_without_a_day(
    dashboard: Dashboard,
) -> None:
    pace = BudgetPace(end=9, is_over=True, over_at=None, over="", basis="last 7 days")
    dashboard.board.page = overview(counters=[a_counter(pace=pace)])
    html = dashboard.ask_as(Role.FINANCE, "GET", "/admin/budgets").body.decode()

    assert "<small>full</small>" in html


def test_counter_says_where_it_ends_at_this_pace_and_when_it_is_full(dashboard: Dashboard) -> None:
    html = dashboard.ask_as(Role.FINANCE, "GET", "/admin/budgets").body.decode()

    assert '<strong class="at_risk">$610.00</strong><small>full on 24 Sep</small>' in html
    assert 'title="By the last 7 days"' in html
    answer = dashboard.ask_as(Role.FINANCE, "GET", "/api/v1/budgets").body.decode()
    assert '"pace":{"end":610000000000,' in answer
