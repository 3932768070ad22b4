import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slo import window
from slo.alert import (
    Severity,
    alert_lines,
    budget_alert,
    format_amount,
    format_rough_duration,
    is_at_least,
    outdated_alerts,
    reached_threshold,
    resolve_alert,
    single_line,
    stable_id,
    urgency_key,
)
from slo.budgets.budget import Budget, BudgetUnit
from slo.window import Window
from tests.fakes.alerts import NOW, POISON, an_alert

ENDS = window.window_end(Window.MONTH, NOW)
MONTH = Budget(
    name="assistants-month",
    scope="team",
    unit=BudgetUnit.USD,
    window=Window.MONTH,
    limit=500_000_000_000,
)


def alert_of(budget=MONTH, whose="acme", percent=95, spent=480_000_000_000):
    return budget_alert(budget, whose, percent, spent, NOW, ENDS)


def budget_with(**fields):
    return msgspec.structs.replace(MONTH, **fields)


def test_a_budget_alert_says_what_whose_and_what_happens_next():
    alert = alert_of()

    assert alert.title == "Spend of team acme: $480.00 of $500.00 this month"
    assert alert.facts == (
        ("budget", "assistants-month"),
        ("reached", "95 %"),
        ("limit", "$500.00 a month"),
        ("spent", "$480.00, 96 %"),
        ("left", "$20.00"),
        ("window", "2026-09"),
        ("starts anew", "2026-10-01 00:00 UTC"),
    )
    assert "will be refused" in alert.action
    assert alert.fix == "Raise the limit of assistants-month, or spend less until it starts anew."
    assert (alert.expires, alert.ended, alert.is_open) == (ENDS, None, True)


@pytest.mark.parametrize(
    ("fields", "whose", "subject"),
    [
        ({"scope": "organization"}, "*", "assistants-month of the organization"),
        ({"scope": "feature"}, "", "assistants-month of calls of no feature"),
        ({"scope": "label:project"}, "x", "assistants-month of project x"),
    ],
)
def test_a_budget_alert_names_whose_it_is(fields, whose, subject):
    assert alert_of(budget_with(**fields), whose).subject == subject


@pytest.mark.parametrize(
    ("hard", "percent", "severity"),
    [
        (True, 50, Severity.NOTE),
        (True, 80, Severity.TICKET),
        (True, 95, Severity.PAGE),
        (False, 95, Severity.TICKET),
    ],
)
def test_only_a_budget_that_refuses_wakes_people(hard, percent, severity):
    assert alert_of(budget_with(hard=hard), percent=percent).severity is severity


def test_the_action_of_a_budget_alert_is_the_budgets():
    assert "are refused" in alert_of(spent=MONTH.limit).action
    assert "only counts" in alert_of(budget_with(hard=False), spent=MONTH.limit).action


@pytest.mark.parametrize(
    ("spent", "limit", "amounts"),
    [
        (250_187_450, 500_000_000, "$0.25 of $0.50"),
        (41_204_999_999, 50_000_000_000, "$41.20 of $50.00"),
        (1_234_567_890_000, 2_000_000_000_000, "$1,234.57 of $2,000.00"),
        (9_012_345, 10_000_000, "$0.00901 of $0.0100"),
        (0, 10_000_000, "$0 of $0.0100"),
    ],
)
def test_a_title_rounds_dollars_by_their_size(spent, limit, amounts):
    alert = alert_of(budget_with(limit=limit), spent=spent)

    assert alert.title == f"Spend of team acme: {amounts} this month"


def test_facts_of_a_budget_have_two_decimals_at_least_and_every_digit():
    facts = dict(alert_of(budget_with(limit=500_000_000), spent=250_187_450).facts)

    assert (facts["limit"], facts["spent"]) == ("$0.50 a month", "$0.25018745, 50 %")
    assert dict(alert_of(budget_with(unit=BudgetUnit.TOKENS)).facts)["left"].endswith(" tokens")


def test_an_alert_leads_to_its_page_where_the_gateways_url_is_known():
    alert = an_alert()

    assert alert_lines(alert, "https://gw.example")[-1] == (
        f"page: https://gw.example/admin/alerts/{alert.id}"
    )
    assert not any("page" in line for line in alert_lines(an_alert(kind="test"), "https://gw"))


def test_an_alert_has_one_id_in_every_process_and_after_a_restart():
    one = alert_of()
    again = budget_alert(MONTH, "acme", 95, 499_000_000_000, NOW + 3600, ENDS)

    assert one.id == again.id
    assert len(one.id) == 32


def test_alert_id_differs_by_threshold_window_limit_and_owner():
    later = budget_alert(MONTH, "acme", 95, 1, NOW, window.window_end(Window.MONTH, ENDS))
    raised = alert_of(budget_with(limit=MONTH.limit * 2))
    ids = {
        alert.id
        for alert in (alert_of(), alert_of(percent=80), later, raised, alert_of(whose="other"))
    }

    assert len(ids) == 5


def test_an_alert_about_a_budget_that_is_promised_no_more_is_outdated():
    soft = budget_with(hard=False, alerts=(10,))
    alerts = [alert_of(), an_alert(), resolve_alert(alert_of(percent=80), NOW)]

    assert outdated_alerts(alerts, [soft]) == []
    assert (
        outdated_alerts(alerts, [budget_with(limit=1)])
        == outdated_alerts(alerts, [])
        == [alert_of()]
    )


def test_two_names_that_look_alike_are_two_alerts():
    a, b = an_alert("x\x00y"), an_alert("x y")

    assert a.subject == b.subject
    assert a.id != b.id


@pytest.mark.parametrize(
    ("before", "after", "percent"),
    [
        (0, 49, None),
        (0, 50, 50),
        (49, 50, 50),
        (50, 79, None),
        (50, 80, 80),
        (0, 99, 95),
        (95, 200, None),
        (10, 5, None),
    ],
)
def test_the_highest_percent_that_was_reached_counts(before, after, percent):
    budget = budget_with(unit=BudgetUnit.REQUESTS, limit=100)

    assert reached_threshold(budget, before, after) == percent


@given(st.integers(0, 10**12), st.lists(st.integers(0, 10**11), max_size=20))
def test_no_percent_is_reached_twice_on_the_way_up(start, steps):
    percents, spent = [], 0
    for step in [start, *steps]:
        percent = reached_threshold(MONTH, spent, spent + step)
        percents += [percent] if percent else []
        spent += step

    assert percents == sorted(set(percents))
    assert bool(percents) == (spent >= MONTH.limit // 2)


def test_callers_text_stays_on_one_line_and_is_bounded():
    alert = an_alert(
        POISON,
        title=POISON,
        facts=((POISON, POISON),) * 50,
        action=POISON,
        fix=POISON,
    )
    texts = [alert.subject, alert.title, alert.action, alert.fix]
    texts += [text for fact in alert.facts for text in fact]

    assert all(text.isprintable() and len(text) <= 400 for text in texts)
    assert len(alert.facts) == 16
    assert len(msgspec.json.encode(alert)) < 10_000


@given(st.text(st.characters(exclude_categories=())), st.integers(1, 50))
def test_plain_text_prints_fits_and_stays_plain(text, max_chars):
    once = single_line(text, max_chars)

    assert once.isprintable()
    assert len(once) <= max_chars
    assert single_line(once, max_chars) == once


def test_an_alert_survives_being_written_down():
    alert = resolve_alert(an_alert(POISON), NOW + 60, "It moved back", 5)

    assert msgspec.json.decode(msgspec.json.encode(alert), type=type(alert)) == alert


def test_an_id_tells_parts_apart():
    assert stable_id("ab", "c") != stable_id("a", "bc")
    assert stable_id("\ud800") != stable_id("\ud801")


def test_severities_have_an_order():
    page, ticket, note = Severity
    assert is_at_least(page, ticket)
    assert is_at_least(ticket, ticket)
    assert not is_at_least(note, ticket)


def test_an_ended_alert_says_its_duration_cost_and_action():
    alert = an_alert()
    over = resolve_alert(alert, NOW + 7_500, "12 % of chat ran on small", 3_200_000_000)

    assert (over.id, over.is_open) == (alert.id, False)
    assert alert_lines(over) == [
        "burn: 7.2",
        "budget left: 41 %",
        "lasted: 2 h 5 min, until 2026-09-21 16:18 UTC",
        "cost: $3.2",
        "done: 12 % of chat ran on small",
    ]


def test_alert_ends_no_earlier_than_it_began_and_keeps_its_action():
    over = resolve_alert(an_alert(cost_nanos=7), NOW - 1)

    assert (over.ended, over.cost_nanos, over.action) == (NOW, 7, an_alert().action)


def test_an_open_alert_says_since_when_and_what_to_do():
    assert alert_lines(an_alert())[2:] == [
        "since: 2026-09-21 14:13 UTC",
        "done: 12 % of chat moved to small since 14:02",
        "to do: Pin it",
    ]
    assert alert_lines(an_alert(action="", fix=""))[-1].startswith("since")


@pytest.mark.parametrize(
    ("unit", "of", "text"),
    [
        (BudgetUnit.USD, 1_500_000_000_000, "$1,500"),
        (BudgetUnit.USD, -1, "-$0.000000001"),
        (BudgetUnit.TOKENS, 1_000_000, "1,000,000 tokens"),
    ],
)
def test_amounts_in_alerts_are_written_in_full(unit, of, text):
    assert format_amount(unit, of) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0 s"), (-5, "0 s"), (7.9, "7 s"), (3_600, "1 h"), (93_784, "1 d 2 h")],
)
def test_spans_are_written_in_their_two_largest_units(seconds, text):
    assert format_rough_duration(seconds) == text


def test_alerts_are_ranked_by_urgency_and_the_newest_of_each_first():
    begun = [(Severity.NOTE, 9.0), (Severity.PAGE, 1.0), (Severity.NOTE, 3.0), (Severity.PAGE, 2.0)]

    assert sorted(begun, key=lambda entry: urgency_key(*entry)) == [
        (Severity.PAGE, 2.0),
        (Severity.PAGE, 1.0),
        (Severity.NOTE, 9.0),
        (Severity.NOTE, 3.0),
    ]
