import msgspec
from hypothesis import given
from hypothesis import strategies as st

from slo import window
from slo.alert import Severity, resolve_alert
from slo.alerting import (
    MAX_ALERTS_PER_MESSAGE,
    ThresholdWatch,
    group_alerts,
    grouping_time,
    repeat_interval_s,
)
from slo.budgets.budget import Budget, BudgetUnit, counter_key
from slo.budgets.counter import CounterLevel
from slo.window import Window
from tests.fakes.alerts import NOW, an_alert

DAY = Budget(name="day", scope="team", unit=BudgetUnit.REQUESTS, window=Window.DAY, limit=1_000)


def alert_id(
    watch: ThresholdWatch, spent: int, budget: Budget = DAY, whose: str = "acme", time=NOW
):
    """The id of the alert that a counter's level leads to; None for none."""
    ends = window.window_end(budget.window, time)
    level = CounterLevel(spent, 10**9)
    alert = watch.crossed_threshold_alert(
        budget, whose, counter_key(budget, whose, time), level, ends, time
    )
    return alert and dict(alert.facts)["reached"]


def test_each_threshold_of_a_budget_is_reported_once_in_a_window():
    watch = ThresholdWatch()

    assert [alert_id(watch, spent) for spent in (1, 499, 500, 501, 799, 800, 950, 2000)] == [
        None, None, "50 %", None, None, "80 %", "95 %", None,
    ]  # fmt: skip
    assert alert_id(watch, 500, time=NOW + 86_400) == "50 %"


def test_highest_of_thresholds_passed_at_once_is_reported():
    assert alert_id(ThresholdWatch(), 990) == "95 %"


def test_held_amounts_are_not_spent():
    assert alert_id(ThresholdWatch(), 0) is None


def test_thresholds_of_a_budget_are_counted_by_team():
    watch = ThresholdWatch()

    assert alert_id(watch, 500) == alert_id(watch, 500, whose="other") == "50 %"


def test_raised_limit_is_reported_anew():
    watch = ThresholdWatch()
    raised = msgspec.structs.replace(DAY, limit=2_000)

    assert alert_id(watch, 960) == "95 %"
    assert alert_id(watch, 960, raised) is None
    assert alert_id(watch, 1_000, raised) == "50 %"


def test_rates_and_budgets_without_thresholds_are_not_reported():
    for fields in ({"window": Window.MINUTE}, {"alerts": ()}):
        assert alert_id(ThresholdWatch(), 999, msgspec.structs.replace(DAY, **fields)) is None


def test_a_watch_that_forgot_tells_the_same_alert_again():
    watch = ThresholdWatch(max_counters=2)
    ends, named = window.window_end(Window.DAY, NOW), counter_key(DAY, "acme", NOW)
    level = CounterLevel(500, 0)
    first = watch.crossed_threshold_alert(DAY, "acme", named, level, ends, NOW)
    for whose in "abc":
        alert_id(watch, 1, whose=whose)
    again = watch.crossed_threshold_alert(DAY, "acme", named, level, ends, NOW)

    assert first is not None
    assert again is not None
    assert first.id == again.id
    assert len(watch._notified) == 2


@given(st.lists(st.integers(0, 300), min_size=1, max_size=60), st.integers(1, 97))
def test_a_watch_tells_what_was_reached_and_nothing_twice(steps, limit):
    budget, watch, spent, crossings = (
        msgspec.structs.replace(DAY, limit=limit),
        ThresholdWatch(),
        0,
        [],
    )
    for step in steps:
        spent += step
        crossings.append(alert_id(watch, spent, budget))
    crossed = [crossing for crossing in crossings if crossing]
    reached = [percent for percent in budget.alerts if percent * limit <= spent * 100]

    assert len(set(crossed)) == len(crossed)
    assert crossed[-1:] == [f"{percent} %" for percent in reached[-1:]]


def test_alerts_of_one_slot_are_sent_together_whichever_process_raised_them():
    start = 1_790_000_010.0  # of a slot of thirty seconds

    assert grouping_time(start) == grouping_time(start + 29.9) == start + 30
    assert grouping_time(start + 30) == start + 60


def test_alerts_of_a_kind_and_phase_share_a_message_the_most_urgent_first():
    note = an_alert("a", severity=Severity.NOTE, began=NOW - 9)
    page, over = an_alert("b"), resolve_alert(an_alert("c"), NOW + 5)
    floor = an_alert("d", kind="floor", severity=Severity.TICKET)
    groups = group_alerts([floor, note, over, page, page])

    assert [[alert.subject for alert in group.alerts] for group in groups] == [
        ["b", "a"], ["c"], ["d"],
    ]  # fmt: skip
    assert [(group.is_open, group.severity) for group in groups] == [
        (True, Severity.PAGE),
        (False, Severity.PAGE),
        (True, Severity.TICKET),
    ]


def test_a_message_holds_a_bounded_number_of_alerts():
    groups = group_alerts(an_alert(f"s{n}") for n in range(MAX_ALERTS_PER_MESSAGE + 1))

    assert [len(group.alerts) for group in groups] == [MAX_ALERTS_PER_MESSAGE, 1]
    assert group_alerts([]) == []


def test_an_open_alert_is_sent_again_after_four_hours():
    assert repeat_interval_s(an_alert()) == 4 * 3600
    assert repeat_interval_s(resolve_alert(an_alert(), NOW)) is None
    assert repeat_interval_s(an_alert(severity=Severity.NOTE)) is None


def test_page_about_a_budget_that_stays_spent_is_repeated_daily():
    assert repeat_interval_s(an_alert(kind="budget")) == 86_400
    assert repeat_interval_s(an_alert(kind="budget", severity=Severity.TICKET)) is None
