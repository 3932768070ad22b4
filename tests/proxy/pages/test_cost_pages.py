"""Pages of money: figures of the period, drill-down, and what each team may see."""

import re
from datetime import UTC, datetime
from decimal import Decimal
from functools import partial
from html import unescape
from typing import Any, cast
from urllib.parse import parse_qs, urlsplit

import msgspec
import pytest

from dashboards.access import Role
from proxy.prefix.layouts.layout import Layout, LayoutMove
from proxy.prefix.prompts.prompt import PromptSlot
from proxy.records.feature_mode import LayoutScope, PlanningMode
from proxy.store.sql.ledger.inserts import inserter
from proxy.store.sql.views.cost_reports import has_more_receipts
from proxy.store.sql.views.costs import costs_view
from proxy.store.sql.views.readers import DashboardReads
from proxy.store.store import Store
from tests.fakes.admin_browser import Browser
from tests.fakes.board import NOW
from tests.fakes.dashboard import Dashboard
from tests.fakes.receipts import a_receipt


def a_move(saving: int) -> LayoutMove:
    """A move of a text that should save so many nano-dollars per 1,000 calls."""
    return LayoutMove(
        before=None,
        after=None,
        slot=PromptSlot.VARIABLE,
        label="date",
        shows="Today is Monday.",
        calls=40,
        saving=saving,
    )


class CostPagesBrowser:
    """A signed-in browser before the costs of two teams."""

    def __init__(self, store: Store) -> None:
        teams = [store.teams.create(name, now=NOW).id for name in ("acme", "<b>other</b>")]
        receipts = [
            a_receipt(
                number,
                started=NOW - 3600,
                team=teams[number % 2],
                feature=("chat", "")[number % 2],
                cost_nanos=10**9 * (number + 1),
                list_nanos=10**9 * (number + 1),
            )
            for number in range(3)
        ]
        inserter(store._engine)(receipts)
        self.teams = teams
        self.store = store
        self.browser = Browser(store=store)
        self.browser.sign_in()

    def text(self, path: str) -> str:
        answer = self.browser.get(path)
        assert answer.status == 200
        return answer.body.decode()


@pytest.fixture
def pages(store: Store) -> CostPagesBrowser:
    return CostPagesBrowser(store)


def test_costs_are_stacked_with_their_table_behind_the_chart(pages: CostPagesBrowser) -> None:
    html = pages.text("/costs?by=team")

    assert '<p class="value">$6.00</p>' in html
    assert 'data-chart="stack"' in html
    assert re.search(r'data-value="4">\$4.00</td>', html)
    assert "&lt;b&gt;other&lt;/b&gt;" in html
    assert "<b>other" not in html


def test_bucket_of_today_is_marked_as_partial(pages: CostPagesBrowser) -> None:
    headings = re.findall(r'<th scope="row" data-value=[^>]*>', pages.text("/costs?by=team"))

    assert ["data-partial" in heading for heading in headings] == [False] * 29 + [True]


def test_a_bucket_opens_its_day_and_an_hour_its_calls(pages: CostPagesBrowser) -> None:
    day = "2026-09-21"
    days = unescape(pages.text("/costs?by=team&feature=chat&unit=day&page=2"))
    hours = unescape(pages.text(f"/costs?by=team&feature=chat&from={day}&to={day}&unit=hour"))

    assert f'href="/admin/costs?by=team&feature=chat&from={day}&to={day}&tz=UTC"' in days
    assert (
        'href="/admin/calls?feature=chat&since=2026-09-21T13%3A00%3A00Z'
        '&until=2026-09-21T14%3A00%3A00Z"'
    ) in hours
    assert f'href="/admin/costs?by=team&from={day}&to={day}&tz=UTC"' in unescape(pages.text(""))


def test_an_hour_opens_no_calls_for_who_sees_none(dashboard: Dashboard) -> None:
    inserter(dashboard.store._engine)([a_receipt(1, started=NOW - 60, team=dashboard.own)])
    path = "/admin/costs?by=team&from=2026-09-21&to=2026-09-21&unit=hour"
    hours = dashboard.ask_as(Role.FINANCE, "GET", path).body.decode()

    assert "data-value" in hours
    assert "/calls?" not in hours


def test_a_cost_leads_to_its_calls_with_the_same_filters(pages: CostPagesBrowser) -> None:
    html = pages.text("/costs?by=team&feature=chat&tz=Europe/Berlin&unit=day")
    (link,) = re.findall(r'href="/admin(/calls\?[^"]+)" aria-label="Calls of acme"', html)
    calls = pages.text(unescape(link))

    assert parse_qs(urlsplit(unescape(link)).query) == {
        "feature": ["chat"],
        "tz": ["Europe/Berlin"],
        "team": [pages.teams[0]],
    }
    assert len(re.findall(r'<th scope="row"><a class="id"', calls)) == 2
    assert "feature: chat" in calls
    assert "team: acme" in calls


def test_unpriced_costs_lead_to_the_calls_without_a_price(pages: CostPagesBrowser) -> None:
    lost = a_receipt(9, started=NOW - 60, team=pages.teams[0], cost_nanos=None, list_nanos=None)
    inserter(pages.store._engine)([lost])
    (link,) = re.findall(r'href="/admin(/calls\?[^"]*unpriced=true)"', pages.text("/costs"))
    calls = re.findall(r'<th scope="row"><a class="id" href="([^"]+)"', pages.text(unescape(link)))

    assert calls == [f"/admin/calls/{lost.call_id}"]


def test_a_name_leads_to_its_own_costs_by_the_next_dimension(pages: CostPagesBrowser) -> None:
    html = pages.text("/costs?by=team&tz=Europe/Berlin")
    (link,) = (
        unescape(link)
        for link in re.findall(r'<th scope="row"><a href="(\?[^"]+)"', html)
        if pages.teams[0] in link
    )
    assert "by=feature" in link
    assert "tz=Europe" in link

    narrowed = pages.text(f"/costs{link}")
    assert '<p class="value">$4.00</p>' in narrowed
    assert "team: acme" in narrowed


def test_a_cell_of_a_pivot_leads_to_its_own_costs_by_the_next_dimension(
    pages: CostPagesBrowser,
) -> None:
    html = pages.text("/costs?by=team&across=feature&sort=change")
    (cell,) = re.findall(r'<td data-name="chat" class="number"><span[^>]*><a href="([^"]+)"', html)
    narrowed = pages.text(f"/costs{unescape(cell)}")

    assert ">Total<" in html
    assert '<p class="value">$4.00</p>' in narrowed
    assert "feature: chat" in narrowed
    assert "By model" in narrowed


def test_costs_of_more_rows_than_a_page_are_paged(pages: CostPagesBrowser) -> None:
    receipts = [
        a_receipt(n, started=NOW - 60, team=pages.teams[0], feature=f"feature {n}", cost_nanos=n)
        for n in range(100, 145)
    ]
    inserter(pages.store._engine)(receipts)
    first = pages.text("/costs?by=feature")
    (link,) = set(re.findall(r'rel="next" href="([^"]+)"', first))
    second = pages.text(f"/costs{unescape(link)}")
    (search,) = re.findall(
        r'<th scope="row"><a [^>]*>([^<]+)</a>', pages.text("/costs?by=feature&find=e+131")
    )

    assert "Rows 1\N{EN DASH}20 of 47" in first
    assert "Rows 21\N{EN DASH}40 of 47" in second
    assert search == "feature 131"
    assert "Rows" not in pages.text("/costs?by=team").partition("By team")[2]


def test_costs_lead_to_the_savings_not_taken_yet(pages: CostPagesBrowser) -> None:
    (link,) = re.findall(r'href="/admin(/savings)#([^"]+)"', pages.text("/costs"))

    assert f'id="{link[1]}">Steps not taken yet<' in pages.text(link[0])


def test_calls_that_cost_more_than_directly_are_said_to_cost_more(pages: CostPagesBrowser) -> None:
    dear = a_receipt(7, started=NOW - 60, team=pages.teams[0], planning_nanos=-4 * 10**9)
    inserter(pages.store._engine)([dear])
    html = pages.text("/savings")

    assert "cost more than sending directly by" in html
    assert re.search(r"sent directly \(\d[\d,.]* % more\)", html)


def test_costs_without_a_feature_come_first_to_the_eye(pages: CostPagesBrowser) -> None:
    html = pages.text("/costs")
    assert "Without a feature" in html
    assert "33.3 %" in html


def test_running_the_gateway_is_a_step_behind_what_was_paid_for_all_calls(
    pages: CostPagesBrowser,
) -> None:
    pages.store.own_cost_usd_month = Decimal(720)
    saved, overview = pages.text("/savings"), pages.text("")
    titles = re.findall(r'<th scope="row" data-value="([^"]+)"', saved)

    assert titles[-3:] == ["Paid", "Running the gateway", "Paid and running"]
    assert "Thriftgate cost more than sending directly by" in saved
    assert "running the gateway ($1." in overview
    assert "Running the gateway" not in pages.text(f"/savings?team={pages.teams[0]}")


def test_the_tag_that_callers_need_not_send_is_called_agent(pages: CostPagesBrowser) -> None:
    html = pages.text("/costs?by=tag:agent&across=team")

    assert '<option value="tag:agent" selected>agent</option>' in html
    assert "By agent and team" in html


class TimedOutReads:
    """Reads of a ledger that is too large for them."""

    def read(self, *_: object, **__: object) -> Any:
        raise TimeoutError


@pytest.mark.parametrize(
    ("query", "by"),
    [
        ("by=user", "user"),
        ("by=team&user=ab12", "team"),
        ("by=tag:job&across=user", "tag:job,user"),
    ],
)
def test_users_that_take_too_long_lead_to_the_report_and_to_a_shorter_period(
    pages: CostPagesBrowser, query: str, by: str
) -> None:
    pages.store.dashboard = TimedOutReads()
    html = unescape(pages.text(f"/costs?{query}&feature=chat"))
    (report,) = re.findall(r'href="/admin(/reports\?[^"]+)"', html)

    assert "feature=chat" in report
    assert parse_qs(urlsplit(report).query)["by"] == [by]
    assert "The last day alone" in html
    assert f"thriftgate report cost --by {by} --from 2026-" in html
    assert pages.browser.get("/costs?by=team").status == 503


class CountingReads:
    """Reads of a ledger that has many receipts, whose costs are not to be read."""

    def read(self, _question: object, *args: Any) -> bool:
        assert args[0] is not costs_view
        if isinstance(args[0], partial) and args[0].func is has_more_receipts:
            return True
        raise TimeoutError


def test_users_of_very_many_calls_lead_to_the_report_without_an_attempt_to_read_them(
    pages: CostPagesBrowser,
) -> None:
    pages.store.dashboard = cast("DashboardReads", CountingReads())

    assert "The cost report by user" in pages.text("/costs?by=user")


@pytest.mark.parametrize(
    ("query", "status"),
    [("from=2026-02-30", 422), ("tz=Mars/Olympus", 400), ("by=colour", 422), ("unit=second", 422)],
)
def test_a_question_with_a_fault_is_told_as_a_page(
    pages: CostPagesBrowser, query: str, status: int
) -> None:
    answer = pages.browser.get(f"/costs?{query}")

    assert answer.status == status
    assert answer.headers["content-type"].startswith("text/html")


def test_the_first_page_says_what_is_spent_what_is_wrong_and_what_to_do(
    pages: CostPagesBrowser,
) -> None:
    scope = LayoutScope(pages.teams[0], "chat", "model")
    moves = msgspec.json.encode(Layout(version=1, moves=(a_move(10**9),))).decode()
    pages.store.layouts.propose(scope, "d1", moves, NOW)
    html = pages.text("")

    month = "/admin/costs?from=2026-09-01&amp;to=2026-09-21&amp;compare=month&amp;by=team"
    assert (
        f'<h2>Spent in September</h2><p class="value" title="exactly $6"><a href="{month}">' in html
    )
    assert '30 days: <a href="/admin/costs" title="exactly $6">$6.00</a>' in html
    assert "Estimated; no control arm has measured it yet</a>" in html
    assert "Saved vs sending directly" in html
    assert re.search(
        r"Since \d\d:\d\d</th><td class=\"number\"><a href=\"[^\"]+\">3</a></td>", html
    )
    assert '<a href="/admin/budgets">Budget teams-month of acme</a> 25.0 % of $500.00' in html
    assert "chat-ttft burns its error budget" in html
    assert '<button class="main" type="submit">Apply</button>' in html
    assert html.index("burns its error budget") < html.index("$6.00") < html.index("Apply")


def test_the_first_page_ranks_layouts_by_dollars_a_month_not_by_their_rate(
    pages: CostPagesBrowser,
) -> None:
    team = pages.teams[0]
    calls = [a_receipt(n, started=NOW - 3600, team=team, feature="busy") for n in range(100, 150)]
    rare = a_receipt(200, started=NOW - 2 * 86_400, team=team, feature="rare")
    savings = {"rare": 5 * 10**9, "unused": 9 * 10**9, "busy": 10**9}
    assert inserter(pages.store._engine)([*calls, rare]) is None
    for feature, saving in savings.items():
        moves = msgspec.json.encode(Layout(moves=(a_move(saving),))).decode()
        pages.store.layouts.propose(LayoutScope(team, feature, "model"), "d1", moves, NOW)
    html = pages.text("")
    titles = re.findall(r"<li><p><strong>Apply the layout of (\w+) on model</strong>", html)

    assert titles == ["busy", "rare"]
    assert re.search(r'">saves \$0\.7\d+/month</span>', html)
    assert "Estimated from 40 calls." in html
    today = datetime.fromtimestamp(NOW, UTC).date()
    assert "saves $1.00 per 1,000 calls" in pages.text(f"/savings?from={today}")


def test_layouts_page_says_that_a_saving_is_not_known_yet(pages: CostPagesBrowser) -> None:
    early = Layout(moves=(a_move(0),), is_early=True)
    moves = msgspec.json.encode(early).decode()
    pages.store.layouts.propose(LayoutScope(pages.teams[0], "chat", "model"), "d1", moves, NOW)

    assert "not known yet" in pages.text("/layouts")
    assert "at least" not in pages.text("/layouts")


def test_steps_of_known_savings_come_first_and_a_layout_is_applied_by_its_button(
    pages: CostPagesBrowser,
) -> None:
    team = pages.teams[0]
    moves = msgspec.json.encode(Layout(moves=(a_move(10**9),))).decode()
    pages.store.layouts.propose(LayoutScope(team, "chat", "model"), "d1", moves, NOW)
    pages.store.layouts.propose(LayoutScope(team, "off", "model"), "d", moves, NOW)
    pages.store.layouts.switch(LayoutScope(team, "off"), PlanningMode.OFF, "ann", NOW)
    off = a_receipt(300, started=NOW - 3600, team=team, feature="off")
    assert inserter(pages.store._engine)([off]) is None
    first, every = (
        [
            (title, saving)
            for title, saving in re.findall(
                r"<li><p><strong>(.+?)</strong>.*?>(saves .+?)</span>", pages.text(path), re.DOTALL
            )
        ]
        for path in ("", "/savings")
    )

    assert first == [
        ("Apply the layout of chat on model", "saves $1.00 per 1,000 calls"),
        ("Name the feature of 1 call", "saves ?"),
        ("Send cache marks for off", "saves ?"),
    ]
    assert every == first
    assert pages.text("").count(">Apply</button>") == 1


def test_latencies_say_whose_hours_and_days_they_show(pages: CostPagesBrowser) -> None:
    days = pages.text("/latency?tz=Asia/Tokyo")
    hours = pages.text("/latency?tz=Asia/Tokyo&from=2026-11-25&to=2026-11-26")

    assert "Days and weeks are those of UTC" in days
    assert "Days and weeks" not in hours
    for page in (days, hours):
        assert re.search(r'name="tz" value="Asia/Tokyo"', page)
