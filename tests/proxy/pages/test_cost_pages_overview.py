"""The first page: its beginning, alerts, floors, and what stands while the database is away."""

import re

from proxy.store.sql.ledger.inserts import inserter
from proxy.store.store import Store
from slo.alert import Severity
from tests.fakes.admin_browser import Browser
from tests.fakes.board import NOW, FakeBoard, an_objective, an_open_alert, overview
from tests.fakes.receipts import a_receipt


def test_an_empty_store_says_how_to_send_the_first_call(store: Store) -> None:
    browser = Browser(store=store)
    browser.sign_in()
    html = browser.get("").body.decode()

    assert "export OPENAI_BASE_URL=http://gateway:8080/v1" in html
    assert "thriftgate key create --team my-team" in html
    assert 'class="tile"' not in html
    assert "<p>No step waits." in browser.get("/savings").body.decode()


def test_first_page_says_who_looks_at_an_alert_and_who_snoozed_another() -> None:
    until = NOW - NOW % 86_400 + 86_400 + 4 * 3_600 + 600
    alerts = [
        an_open_alert(title="slow", acknowledged_by="bob"),
        an_open_alert(title="asleep", snoozed_until=until, snoozed_by="ann", id="s1"),
    ]
    browser = Browser(FakeBoard(overview(open_alerts=alerts)))
    browser.sign_in()
    text = " ".join(re.sub("<[^>]*>", "", browser.get("").body.decode()).split())

    assert "1 open alert slow" in text
    assert "looked at by bob" in text
    assert "1 alert snoozed until 04:10 by ann: asleep" in text


def test_first_page_counts_open_alerts_and_names_the_most_urgent() -> None:
    weights = (Severity.PAGE, Severity.NOTE, Severity.TICKET, Severity.TICKET, Severity.NOTE)
    alerts = [
        an_open_alert(severity=severity, title=f"alert {n}", began=NOW - 600 + n, id="first")
        for n, severity in enumerate(weights)
    ]
    browser = Browser(FakeBoard(overview(open_alerts=alerts[::-1])))
    browser.sign_in()
    html = browser.get("").body.decode()

    assert re.findall(r"alert \d", html) == ["alert 0", "alert 4"]
    assert "<strong>3 open alerts</strong>" in html
    assert '<a href="/admin/budgets#alerts">all</a>' in html
    assert "nobody looks at it yet" in html
    assert "2 notes: " in html
    assert 'href="/admin/alerts/first"' in html


def test_the_first_page_has_the_floor_beside_the_hit_rate(store: Store) -> None:
    floors = [
        an_objective(name="warm", feature="*", missed=20, counted=100, floor=0.7),
        an_objective(name="warmer", feature="chat", counted=0, floor=0.9),
        an_objective(name="warmest", floor=0.95),
        an_objective(),
    ]
    inserter(store._engine)([a_receipt(1, started=NOW - 3600)])
    browser = Browser(FakeBoard(overview(objectives=floors)), store=store)
    browser.sign_in()
    html = re.sub(r"<[^>]+>", "", browser.get("").body.decode())

    assert "floor 70.0 % (80.0 % of late), floor 90.0 % of chat, 1 more" in html


def test_the_first_page_stands_while_the_database_is_away() -> None:
    browser = Browser()
    browser.sign_in()
    html = browser.get("").body.decode()

    assert "Costs: not available just now" in html
    assert "chat-ttft burns its error budget" in html
    assert "<h2>Health</h2>" in html
    assert "Steps not taken yet" in html


def test_a_page_that_cannot_be_read_in_time_has_the_menu_and_can_be_tried_again() -> None:
    browser = Browser()
    browser.sign_in()
    answer = browser.get("/costs?from=2026-08-01&to=2026-08-01")
    html = answer.body.decode()

    assert answer.status == 503
    assert "<h1>Not available just now</h1>" in html
    assert '<a class="button" href="">Try again</a>' in html
    assert 'href="/admin/costs" aria-current="page"' in html
