"""The pages as whoever runs a gateway reads them, and as an attacker would like them to be."""

import re
from dataclasses import fields, replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from dashboards import pages
from dashboards.access import Role, Viewer
from dashboards.pages import SignInForm
from dashboards.views.alerts import AlertsView
from slo.budgets.budget import BudgetUnit
from slo.objectives.verdict import VERDICT_MEANINGS, ObjectiveVerdict
from tests.fakes.board import (
    CALL,
    NOW,
    Overview,
    a_ceiling,
    a_counter,
    a_pin,
    a_reroute,
    a_rerouted_call,
    an_objective,
    an_open_alert,
    overview,
)

EVIL = "<script>alert('x')</script>\"'><img src=x onerror=alert(1)>{{ 7 * 7 }}"
SECTIONS = ("objectives", "reroutes", "rerouted_calls", "counters", "open_alerts")
TEMPLATES = Path(pages.__file__).parent / "templates"
_VOID = {"meta", "link", "input", "br"}


class Outline(HTMLParser):
    """A page's elements and texts; the elements are closed in order."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self._open: list[str] = []
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(html)
        self.close()
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in _VOID:
            self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text = " ".join(f"{self.text} {data}".split())

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.elements if name == tag]


ADMIN = Viewer(name="ann", role=Role.ADMIN)
#: Names in the frame, which each page has once.
FRAME_IDS = {"main", "pages", *(f"group-{number}" for number in range(1, 6))}
STYLESHEET = Path(pages.__file__).parent / "static" / "admin.css"


def policies_page(shown: Overview) -> str:
    """The two pages of policies, one after the other."""
    common = {"viewer": ADMIN, "now": NOW, "may_pin": True, "may_set": True, "are_kept": True}
    common |= dict.fromkeys(("stored", "removed", "teams"), ())
    common |= {"open_alerts": {}, "pin_changes": {}, "verdicts": VERDICT_MEANINGS}
    common |= {"sees_calls": True, "calls_of": {}, "file_budgets": frozenset()}
    first = pages.render(
        "objectives.html",
        {
            **common,
            "section": "objectives",
            "shown": shown,
            "rerouted_calls": shown.rerouted_calls,
            "setup": {"title": "", "forms": {}, "inputs": {}, "stored": [], "removed": []},
        },
    )
    second = pages.render(
        "budgets.html",
        {
            **common,
            "section": "budgets",
            "counters": shown.counters,
            "alerts": AlertsView(alerts=shown.open_alerts, total=len(shown.open_alerts or ())),
            **dict.fromkeys(("setup", "sinks")),
            "choices": {"scopes": ["team"], "units": ["usd"], "windows": ["month"]},
        },
    )
    return first + second


def page_outline(**parts: Any) -> Outline:
    return Outline(policies_page(overview(**parts)))


def test_an_objective_says_what_is_promised_and_where_it_stands():
    text = page_outline().text

    assert "chat-ttft missed p95 of ttft within 500ms chat" in text
    assert "31 of 1,060 calls had no first token within 500 ms in the last 10 min; 5 % may" in text
    assert "degrade: elsewhere → small" in text
    assert "2: small degraded since 2026-09-21 14:11:50 , for 1 min 30 s" in text
    assert "31 of 60 calls were slow" in text


def test_a_pinned_objective_says_by_whom_why_and_until_when():
    pinned = an_objective(state="pinned", pin=a_pin())

    assert "ann a test, until 2026-09-21 15:13:20" in page_outline(objectives=[pinned]).text
    nobody = replace(pinned, pin=a_pin(who="", why=""))
    assert "somebody until 2026-09-21 15:13:20" in page_outline(objectives=[nobody]).text


def test_where_pins_are_not_known_nobody_is_said_to_have_none():
    page = page_outline(objectives=[an_objective(knows_pin=False)]).text
    assert "not known" in page
    assert "not known" not in page_outline(objectives=[an_objective()]).text


@pytest.mark.parametrize("state", ["too_few_calls", "degraded", "recovering", "frozen", "pinned"])
def test_every_state_of_the_controller_is_told_in_words_and_has_a_look(state):
    page = page_outline(objectives=[an_objective(state=state)], reroutes=[])

    assert {"class": f"state {state}"} in page.all("span")
    assert state.replace("_", " ") in page.text
    assert re.search(rf"\.{state}\b", STYLESHEET.read_text())


@pytest.mark.parametrize("verdict", ObjectiveVerdict)
def test_every_verdict_is_told_in_words_and_has_a_look(verdict):
    page = page_outline(objectives=[an_objective(verdict=verdict)], reroutes=[])
    name = verdict.replace(" ", "_")

    assert {"class": f"state {name}"} in page.all("span")
    assert VERDICT_MEANINGS[verdict] in page.text
    assert re.search(rf"\.{name}\b", STYLESHEET.read_text())


def test_a_missed_objective_leads_to_its_alert_or_says_why_there_is_none():
    assert "Alert none yet: one is due" in page_outline().text
    observed = page_outline(objectives=[an_objective(enforce="observe")])
    assert "Alert none: it is only observed" in observed.text


def test_a_healthy_objective_with_bad_calls_says_what_that_means():
    page = page_outline(objectives=[an_objective(state="healthy", level=0, why="", burn=0.4)])

    assert "since 2026-09-21 14:11:50 , for 1 min 30 s: within its error budget" in page.text
    assert "Ok : misses are within what it allows" in page.text


def test_an_objective_without_events_is_shown_as_asked():
    text = page_outline(
        objectives=[an_objective(state="healthy", level=0, since=None, burn=None, counted=0)]
    ).text

    assert "Level as asked since the start" in text


def test_an_objective_that_only_counts_says_its_would_be_level():
    assert "would be 2: small" in page_outline(objectives=[an_objective(acts=False)]).text


def test_an_objective_that_is_not_enforced_shows_its_dry_run():
    fell_back = (("elsewhere", 1_200), ("small", 34))
    dry = an_objective(acts=False, enforce="observe", fell_back=fell_back)

    assert "dry run: 1,234 calls would have fallen back since this gateway started" in (
        page_outline(objectives=[dry]).text
    )
    assert (
        "1,234 calls fell back since this gateway started, elsewhere: 1,200, small: 34"
        in page_outline(objectives=[an_objective(fell_back=fell_back)]).text
    )


def test_a_ceiling_that_only_measures_shows_its_dry_run():
    assert "cent everyone chat $0.0100 only measures 9 0 0 0 4" in (
        page_outline(ceilings=[a_ceiling()]).text
    )
    acting = page_outline(ceilings=[a_ceiling(steps=("clamp", "refuse"))]).text
    assert "clamp → refuse" in acting


def test_a_level_that_the_ladder_no_longer_has_is_shown():
    assert "9: no longer on the ladder" in page_outline(objectives=[an_objective(level=9)]).text


def test_a_reroute_says_from_where_to_where_why_and_how_long():
    over, goes_on = a_reroute(), a_reroute(source="small", level="", ended=None)
    text = page_outline(reroutes=[goes_on, over]).text

    assert "small as asked degraded 31 of 60 calls were slow goes on, for 10 min" in text
    assert "as asked small degraded 31 of 60 calls were slow 4 min until" in text


def test_a_rerouted_call_links_to_its_receipts():
    page = page_outline()

    assert {"class": "id", "href": f"/admin/calls/{CALL}"} in page.all("a")
    assert "acme chat big lab/small chat-ttft: fallback level 2 $0.001235" in page.text


def test_a_rerouted_call_that_failed_is_not_shown_as_answered():
    failed = a_rerouted_call(outcome="failed", error="upstream_timeout", cost_nanos=0)
    left, refused = a_rerouted_call(outcome="hung_up"), a_rerouted_call(outcome="refused", route="")
    text = page_outline(rerouted_calls=[failed, left, refused]).text

    assert "big lab/small failed: upstream timeout chat-ttft: fallback level 2 $0 2026" in text
    assert "big lab/small the caller left chat-ttft" in text
    assert "big \N{EN DASH} refused chat-ttft" in text
    assert "nswered by" not in text


def test_a_rerouted_call_of_no_known_price_is_not_shown_as_free():
    page = page_outline(rerouted_calls=[a_rerouted_call(cost_nanos=None)])

    assert "chat-ttft: fallback level 2 no known price" in page.text
    assert "$0: nothing was used" in page.text


def test_an_objective_about_streams_alone_says_so():
    assert (
        "p95 of ttft within 500ms chat, streams only"
        in page_outline(objectives=[an_objective(only="streams only")]).text
    )
    assert "streams only" not in page_outline().text


def test_a_budget_says_what_is_spent_held_and_left():
    text = page_outline(
        counters=[a_counter(), a_counter(unit=BudgetUnit.TOKENS, held=None, is_hard=False)]
    ).text

    assert "teams-month refuses beyond team acme 2026-09 $125 $0.25 $500 25.0 % 25.0 %" in text
    assert "125,000,000,000 ? 500,000,000,000 tokens" in text
    assert "only counts" in text


def test_an_overspent_budget_fills_its_bar_and_no_more():
    (bar,) = page_outline(counters=[a_counter(spent=900 * 10**9)]).all("meter")

    assert bar["value"] == bar["max"] == str(500 * 10**9)


def test_an_open_alert_says_what_is_done_and_who_looks_at_it():
    text = page_outline().text

    assert "chat-ttft burns its error budget Its ladder moves calls. nobody yet" in text


@pytest.mark.parametrize("part", SECTIONS)
def test_a_part_that_is_not_known_says_so_and_the_others_stand(part):
    whole, page = page_outline(), page_outline(**{part: None})

    assert page.text.count("not available just now") == 1
    tables = len(whole.all("table")) - (part != "objectives")
    assert (len(page.all("table")), len(whole.all("table"))) == (tables, 4)


@pytest.mark.parametrize("part", SECTIONS)
def test_an_empty_part_says_what_to_write_to_get_something(part):
    page = page_outline(**{part: []})

    assert len(page.all("pre")) == 1
    assert len(page.all("table")) == 3 + (part == "objectives")


EVIL_ROWS: dict[str, list[Any]] = {
    "objectives": [an_objective(name=EVIL, feature=EVIL, team=EVIL, what=EVIL, why=EVIL,
                                ladder=(EVIL, EVIL), pin=a_pin(who=EVIL, why=EVIL))],
    "reroutes": [a_reroute(objective=EVIL, source=EVIL, level=EVIL, why=EVIL)],
    "rerouted_calls": [a_rerouted_call(team=EVIL, feature=EVIL, model=EVIL, route=EVIL, why=EVIL,
                                       call_id=EVIL)],
    "counters": [a_counter(budget=EVIL, scope=EVIL, whose=EVIL)],
    "open_alerts": [an_open_alert(title=EVIL, facts=((EVIL, EVIL),), done=EVIL, fix=EVIL)],
}  # fmt: skip


@pytest.mark.parametrize("part", SECTIONS)
def test_names_given_by_callers_are_escaped(part):
    plain = page_outline(**{part: [_with_harmless_texts(EVIL_ROWS[part][0])]})
    html = policies_page(overview(**{part: EVIL_ROWS[part]}))
    page = Outline(html)

    assert "<script>" not in html
    assert [tag for tag, _ in page.elements] == [tag for tag, _ in plain.elements]
    assert not any(name.startswith("on") for _, attributes in page.elements for name in attributes)
    assert "<script>alert('x')</script>" in page.text
    assert "{{ 7 * 7 }}" in page.text


def _with_harmless_texts(row: Any) -> Any:
    """The row with harmless texts."""

    def tame(value: Any) -> Any:
        if isinstance(value, tuple):
            return tuple(map(tame, value))
        if isinstance(value, str):
            return value.replace(EVIL, "plain")
        return value if not hasattr(value, "__dataclass_fields__") else _with_harmless_texts(value)

    return replace(row, **{field.name: tame(getattr(row, field.name)) for field in fields(row)})


def test_an_evil_id_leads_nowhere_else():
    page = Outline(policies_page(overview(rerouted_calls=[a_rerouted_call(call_id='"/../x?<y>')])))
    (link,) = [attributes for attributes in page.all("a") if attributes.get("class") == "id"]

    assert link["href"] == "/admin/calls/%22/../x%3F%3Cy%3E"


def test_the_sign_in_page_has_a_form_that_works_without_anything_else():
    page = Outline(pages.sign_in(SignInForm(problem=EVIL, takes_token=True)))

    assert {"class": "sign-in", "method": "post", "action": "/admin/sign-in"} in page.all("form")
    fields = [
        (attributes["type"], attributes["name"])
        for attributes in page.all("input")
        if "type" in attributes
    ]
    assert fields == [("password", "password"), ("password", "token")]
    assert [attributes["for"] for attributes in page.all("label")] == ["name", "password", "token"]
    assert EVIL in page.text
    assert page.all("script") == []


def test_pages_are_made_of_nothing_that_their_policy_forbids():
    for html in (policies_page(overview()), pages.sign_in(SignInForm())):
        page = Outline(html)
        names = {tag for tag, _ in page.elements}
        assert not names & {"style", "iframe", "object", "base"}
        assert not any("style" in attributes for _, attributes in page.elements)
        loaded = [attributes["href"] for attributes in page.all("link")]
        loaded += [attributes["src"] for attributes in page.all("script")]
        assert all(str(path).startswith("/admin/static/") for path in loaded)


def test_menu_has_four_groups_and_marks_the_page_that_is_open():
    html = policies_page(overview())
    menu = Outline(html[html.index('<header class="menu">') : html.index('<main id="main">')])

    assert len(menu.all("h2")) == 4
    assert [link["href"] for link in menu.all("a") if "aria-current" in link] == [
        "/admin/objectives"
    ]


def test_tables_can_be_read_without_seeing_them():
    page = page_outline()

    assert len(page.all("caption")) == len(page.all("table")) == 4
    assert all(attributes.get("scope") in {"col", "row"} for attributes in page.all("th"))
    ids = [attributes["id"] for _, attributes in page.elements if "id" in attributes]
    names = [name for name in ids if name not in FRAME_IDS]
    assert len(names) == len(set(names))
    labels = [
        attributes["aria-labelledby"]
        for _, attributes in page.elements
        if "aria-labelledby" in attributes and attributes["aria-labelledby"] not in FRAME_IDS
    ]
    assert set(labels) <= set(names)


def test_on_a_phone_every_cell_says_what_it_is():
    html = policies_page(overview())
    for table in re.findall(r"<table>.*?</table>", html, re.DOTALL):
        columns = re.findall(r'<th scope="col"[^>]*>([^<]*)</th>', table)
        told_of = re.findall(r'<td data-name="([^"]*)"', table)
        assert set(told_of) < set(columns)
        assert len(told_of) == len(columns) - 1  # one of them is the row's own name


def test_no_template_marks_a_text_as_safe():
    for template in TEMPLATES.glob("*.html"):
        text = template.read_text(encoding="utf8")
        assert not re.search(r"\|\s*safe|autoescape|Markup", text), template.name


def test_the_stylesheet_knows_the_dark():
    text = STYLESHEET.read_text()

    assert "prefers-color-scheme: dark" in text
    assert "url(" not in text
