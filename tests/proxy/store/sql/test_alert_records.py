"""Responses of people to alerts, beside their stages and messages, on each database."""

from typing import Any

import pytest
from sqlalchemy import Engine

from proxy.store.sql.alert_records import AlertRecords, AlertResponse, current_snooze
from proxy.store.sql.outbox import Outbox
from slo.alert import Alert, Severity, budget_alert, resolve_alert
from slo.budgets.budget import Budget, BudgetUnit
from slo.window import Window, window_end
from tests.fakes.alerts import NOW, an_alert

SINKS = {"slack": Severity.NOTE}
ENDS = window_end(Window.MONTH, NOW)
BUDGET = Budget(name="b", scope="team", unit=BudgetUnit.USD, window=Window.MONTH, limit=10**9)


@pytest.fixture
def outbox(engine: Engine) -> Outbox:
    return Outbox(engine)


@pytest.fixture
def records(engine: Engine) -> AlertRecords:
    return AlertRecords(engine)


def stage(percent: int, whose: str = "acme", began: float = NOW, ends: float = ENDS) -> Alert:
    return budget_alert(BUDGET, whose, percent, percent * 10**7, began, ends)


def a_response(alert: Alert, **fields: Any) -> AlertResponse:
    values: dict[str, Any] = {"action": "acknowledge", "at": NOW, "who": "ann"}
    return AlertResponse(alert=alert.id, **(values | fields))


def a_snooze(alert: Alert, at: float = NOW, until: float = NOW + 60) -> AlertResponse:
    return a_response(alert, action="snooze", at=at, until=until)


def due(outbox: Outbox, now: float) -> list[str]:
    return [letter.alert.id for letter in outbox.claim_due("slack", now, 9, 1.0)]


def test_stages_are_those_of_one_counter_in_one_window(
    outbox: Outbox, records: AlertRecords
) -> None:
    low, high = stage(50), stage(80, began=NOW + 5)
    others = [stage(50, "other"), stage(50, ends=window_end(Window.MONTH, ENDS)), an_alert()]
    outbox.add([high, low, *others], SINKS, NOW)
    record = records.find(high.id)

    assert record is not None
    assert (record.alert, record.stages) == (high, [low, high])
    assert {letter.alert.id for letter in record.messages} == {low.id, high.id}
    assert records.find("unknown") is None


def test_a_response_is_to_all_open_stages_and_to_nothing_that_ended(
    outbox: Outbox, records: AlertRecords
) -> None:
    low, high = stage(50), stage(80)
    outbox.add([low, high], SINKS, NOW)

    assert records.respond(a_response(low))
    assert {response.alert for response in records.open_responses()} == {low.id, high.id}
    outbox.add([resolve_alert(low, NOW), resolve_alert(high, NOW)], SINKS, NOW)
    assert records.open_responses() == []
    assert not records.respond(a_response(low))
    assert not records.respond(a_response(an_alert("unknown")))


def test_a_snoozed_alert_is_sent_again_when_the_snooze_ends(
    outbox: Outbox, records: AlertRecords
) -> None:
    alert, other = an_alert(), an_alert("other")
    outbox.add([alert, other], SINKS, NOW)
    records.respond(a_snooze(alert))

    assert due(outbox, NOW + 1) == [other.id]
    assert alert.id in due(outbox, NOW + 60)


def test_sinks_are_told_of_the_end_of_a_snoozed_alert(
    outbox: Outbox, records: AlertRecords
) -> None:
    alert = an_alert()
    outbox.add([alert], SINKS, NOW)
    outbox.mark_sent(outbox.claim_due("slack", NOW, 9, 1.0), NOW, lambda _: 10.0)
    records.respond(a_snooze(alert))
    assert due(outbox, NOW + 20) == []
    outbox.add([resolve_alert(alert, NOW + 20)], SINKS, NOW + 20)

    assert due(outbox, NOW + 20) == [alert.id]


def test_a_higher_stage_is_not_snoozed(outbox: Outbox, records: AlertRecords) -> None:
    low, high = stage(50), stage(80, began=NOW + 5)
    outbox.add([low], SINKS, NOW)
    records.respond(a_snooze(low))
    outbox.add([high], SINKS, NOW + 5)

    assert due(outbox, NOW + 6) == [high.id]


def test_a_snooze_takes_the_place_of_an_earlier_one(outbox: Outbox, records: AlertRecords) -> None:
    alert = an_alert()
    outbox.add([alert], SINKS, NOW)
    records.respond(a_snooze(alert, until=NOW + 9_000))
    records.respond(a_snooze(alert, at=NOW + 1, until=NOW + 60))
    snooze = current_snooze(records.open_responses(), NOW + 2)
    assert snooze is not None
    assert (snooze.until, snooze.who) == (NOW + 60, "ann")
    records.respond(a_snooze(alert, at=NOW + 3, until=NOW + 3))

    assert current_snooze(records.open_responses(), NOW + 4) is None
    assert due(outbox, NOW + 4) == [alert.id]


def test_open_burn_alerts_of_one_objective_are_answered_together(
    outbox: Outbox, records: AlertRecords
) -> None:
    fast, slow = an_alert(id="a1"), an_alert(id="b2", began=NOW + 60)
    other, over = an_alert("other", id="c3"), an_alert(id="d4")
    outbox.add([fast, slow, other, over], SINKS, NOW)
    outbox.add([resolve_alert(over, NOW)], SINKS, NOW)
    records.respond(a_snooze(fast))

    assert {response.alert for response in records.open_responses()} == {"a1", "b2"}
    record = records.find("b2")
    assert record is not None
    assert [stage.id for stage in record.stages] == ["a1", "b2"]
    ended = records.find("d4")
    assert ended is not None
    assert [stage.id for stage in ended.stages] == ["d4"]


def test_responses_go_with_their_alert(outbox: Outbox, records: AlertRecords) -> None:
    alert = an_alert()
    outbox.add([alert], SINKS, NOW)
    records.respond(a_response(alert))
    outbox.add([resolve_alert(alert, NOW)], SINKS, NOW)
    outbox.retain(NOW + 1)
    outbox.add([alert], SINKS, NOW)

    assert records.open_responses() == []
