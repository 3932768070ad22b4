"""The page of a cost report and its print: figures and words of the ledger, or a wait for them."""

from html import unescape

import pytest

from dashboards.access import Role, Viewer
from dashboards.report_summary.read_report import ReadReport
from proxy.pages.resources.ledger.reports import CostReportsResource, ReportQuery
from proxy.pages.store_questions import StoreQuestions
from proxy.services.reports.background_reports import PendingReport
from proxy.store.sql.ledger.inserts import inserter
from proxy.store.store import Store
from tests.fakes.admin_browser import Browser
from tests.fakes.board import NOW
from tests.fakes.call_dependencies import LoopTasks
from tests.fakes.dashboard import Dashboard
from tests.fakes.receipts import a_receipt
from tests.fakes.savings import figures_of


def test_a_report_and_its_print_have_the_ledgers_figures_and_words(dashboard: Dashboard) -> None:
    calls = [(NOW - 3600, "chat", 4), (NOW - 3600, "search", 2), (NOW - 40 * 86_400, "chat", 3)]
    inserter(dashboard.store._engine)(
        [
            a_receipt(
                number,
                started=started,
                team=dashboard.own,
                feature=feature,
                cost_nanos=dollars * 10**9 + number,
                list_nanos=dollars * 10**9 + number,
            )
            for number, (started, feature, dollars) in enumerate(calls)
        ]
    )
    earlier = "previous 30 days ($3.00)"
    limits = "The earlier period is counted up to 14:15 of its last day and has calls from 12 Aug."
    for path in ("/admin/reports", "/admin/reports/print"):
        html = unescape(dashboard.ask_as(Role.FINANCE, "GET", f"{path}?by=feature").body.decode())

        assert 'title="exactly $6.000000001"' in html
        assert f"+100 % vs {earlier}" in html
        assert f"Spend rose 100 % to $6.00 vs {earlier}, mostly by feature search" in html
        assert limits in html


def test_only_a_report_of_the_running_month_has_its_forecast(dashboard: Dashboard) -> None:
    def has_forecast(days: str) -> bool:
        answer = dashboard.ask_as(Role.FINANCE, "GET", f"/admin/reports?{days}")
        html = answer.body.decode()
        assert ("<h2>Forecast</h2>" in html) == ('data-name="Forecast"' in html)
        return "<h2>Forecast</h2>" in html

    inserter(dashboard.store._engine)(
        [
            a_receipt(n, started=NOW - n * 86_400, team=dashboard.own, cost_nanos=10**9)
            for n in range(40)
        ]
    )

    assert has_forecast("from=2026-09-01&to=2026-09-21")
    assert not has_forecast("from=2026-08-01&to=2026-08-31")
    assert not has_forecast("from=2026-09-02&to=2026-09-21")


class PendingReports(CostReportsResource):
    """Reports that are never there in time."""

    def __init__(self, store: Store, pending: PendingReport) -> None:
        figures = figures_of(store, NOW)
        super().__init__(store, (StoreQuestions(store), LoopTasks()), figures, lambda: NOW)
        self.pending = pending

    async def report(
        self, viewer: Viewer, query: ReportQuery, wait_s: float = 0.0
    ) -> ReadReport | PendingReport:
        return self.pending


@pytest.mark.parametrize(
    ("pending", "words"),
    [
        (PendingReport(72.3), "is being made, 1 min 12 s so far"),
        (PendingReport(0.0, is_waiting=True), "waits until others are made"),
    ],
)
def test_a_report_that_takes_long_has_a_page_that_loads_again_until_it_is_there(
    store: Store, pending: PendingReport, words: str
) -> None:
    browser = Browser(store=store, reports=PendingReports(store, pending))
    browser.sign_in()
    page = browser.get("/reports?by=user")

    assert (page.status, page.headers["refresh"]) == (202, "3")
    assert words in page.body.decode()


def test_report_of_one_team_is_titled_by_it_on_page_and_print_and_leads_there(
    dashboard: Dashboard,
) -> None:
    teams = [dashboard.own, dashboard.other]
    inserter(dashboard.store._engine)(
        [
            a_receipt(n, started=NOW - 3600, team=team, cost_nanos=10**9 + n + 1)
            for n, team in enumerate(teams)
        ]
    )
    days = "from=2026-08-01&to=2026-08-31"
    everything = dashboard.ask_as(Role.FINANCE, "GET", f"/admin/reports?{days}").body.decode()
    assert f"/admin/reports/print?{days.replace('&', '&amp;')}&amp;by=team" in everything

    for path in ("/admin/reports", "/admin/reports/print"):
        query = f"from=2026-09-01&to=2026-09-30&team={dashboard.own}"
        html = dashboard.ask_as(Role.FINANCE, "GET", f"{path}?{query}").body.decode()
        assert "<h1>Costs of acme, September 2026" in html
        assert 'title="exactly $1.000000001"' in html
    html = dashboard.ask_as(Role.FINANCE, "GET", "/admin/reports").body.decode()
    assert f'<a href="?by=team&amp;team={dashboard.other}" title="Only this">other</a>' in html


def test_form_of_a_schedule_is_filled_with_the_report_on_the_screen(dashboard: Dashboard) -> None:
    period = "from=2026-09-07&to=2026-09-13&tz=Europe/Berlin"
    query = f"by=team,model&{period}&team={dashboard.own}&feature=chat"
    html = dashboard.ask_as(Role.FINANCE, "GET", f"/admin/reports?{query}").body.decode()
    form = html.partition('id="set-reports"')[2]

    for name, value in (("team", "acme"), ("by", "team, model"), ("time_zone", "Europe/Berlin")):
        assert f'<input name="{name}" maxlength="2000" value="{value}"' in form
    assert "<option selected>week</option>" in form
    assert '<input name="name" maxlength="2000" value=""' in form
    assert "the filter by feature is left out" in form
    assert "a month is filled in" not in form


@pytest.mark.parametrize(
    ("days", "is_said"),
    [("from=2026-09-01&to=2026-09-20", False), ("from=2026-09-02&to=2026-09-20", True)],
)
def test_form_of_a_schedule_says_that_an_odd_period_becomes_a_month(
    *, dashboard: Dashboard, days: str, is_said: bool
) -> None:
    html = dashboard.ask_as(Role.FINANCE, "GET", f"/admin/reports?by=team&{days}").body.decode()
    assert ("a month is filled in" in html) is is_said
    assert 'href="#schedule"' in html


def test_report_says_list_cost_beside_effective_cost_only_where_there_is_a_discount(
    dashboard: Dashboard,
) -> None:
    def html(day: str) -> str:
        path = f"/admin/reports?from={day}&to={day}"
        return dashboard.ask_as(Role.FINANCE, "GET", path).body.decode()

    costs = {"list_nanos": 5 * 10**9, "cost_nanos": 4 * 10**9}
    inserter(dashboard.store._engine)(
        [
            a_receipt(0, started=NOW, team=dashboard.own, **costs),
            a_receipt(1, started=NOW - 86_400, team=dashboard.own, list_nanos=7, cost_nanos=7),
        ]
    )

    assert "$5.00 at list prices, $4.00 after discounts of routes." in html("2026-09-21")
    assert "at list prices" not in html("2026-09-20")
    assert "sum <code>EffectiveCost</code>" in html("2026-09-20")
