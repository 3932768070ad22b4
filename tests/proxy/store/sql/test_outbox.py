from concurrent.futures import ThreadPoolExecutor

import pytest
from sqlalchemy import Engine, func, select, update

from proxy.store.sql import schema
from proxy.store.sql.database import open_database, read_transaction, write_transaction
from proxy.store.sql.outbox import Outbox, OutboxMessage
from slo.alert import Alert, Severity, resolve_alert
from tests.fakes.alerts import NOW, POISON, an_alert

TICKETS = {"slack": Severity.TICKET}
BOTH = {"slack": Severity.TICKET, "hook": Severity.NOTE}
LEASE = 60.0


@pytest.fixture
def outbox(engine: Engine) -> Outbox:
    return Outbox(engine)


def due(
    outbox: Outbox, sink: str = "slack", now: float = NOW, most: int = 100
) -> list[OutboxMessage]:
    return outbox.claim_due(sink, now, most, LEASE)


def never(alert: Alert) -> None:
    return None


def test_a_message_is_due_once_for_each_sink_it_is_urgent_enough_for(outbox: Outbox) -> None:
    page, note = an_alert("a"), an_alert("b", severity=Severity.NOTE)

    assert {alert.id for alert in outbox.add([page, note], BOTH, NOW)} == {page.id, note.id}
    assert [letter.alert for letter in due(outbox)] == [page]
    assert {letter.alert.id for letter in due(outbox, "hook")} == {page.id, note.id}
    assert due(outbox, "nobody") == []


def test_alerts_of_a_period_are_found_the_newest_first(outbox: Outbox) -> None:
    alerts = [an_alert(str(second), began=NOW + second) for second in range(4)]
    outbox.add(alerts, {}, NOW)

    begun = outbox.begun_between(NOW + 1, NOW + 3, 10)
    assert [alert.subject for alert in begun] == ["2", "1"]
    assert len(outbox.begun_between(NOW, NOW + 9, 3)) == 3


def test_outbox_hands_out_no_notice_before_its_time(outbox: Outbox) -> None:
    outbox.add([an_alert()], TICKETS, NOW + 30)

    assert due(outbox, now=NOW + 29) == []
    assert len(due(outbox, now=NOW + 30)) == 1


def test_the_same_said_twice_is_news_once(outbox: Outbox) -> None:
    alert, over = an_alert(), resolve_alert(an_alert(), NOW + 9)

    assert outbox.add([alert, alert], TICKETS, NOW) == [alert]
    assert outbox.add([alert], TICKETS, NOW) == []
    assert outbox.add([over], TICKETS, NOW) == [over]
    assert outbox.add([over, alert], TICKETS, NOW) == []


def test_any_text_is_kept(outbox: Outbox) -> None:
    alert = an_alert(POISON, title=POISON, action=POISON, facts=((POISON, POISON),))
    outbox.add([alert], TICKETS, NOW)

    assert [letter.alert for letter in due(outbox)] == [alert]


def test_a_letter_that_nobody_confirmed_is_due_again_after_its_lease(outbox: Outbox) -> None:
    outbox.add([an_alert()], TICKETS, NOW)

    assert len(due(outbox)) == 1
    assert due(outbox, now=NOW + LEASE - 1) == []
    assert len(due(outbox, now=NOW + LEASE)) == 1


def test_a_letter_that_was_sent_is_not_due_unless_it_is_reported_again(outbox: Outbox) -> None:
    outbox.add([an_alert("once"), an_alert("again")], TICKETS, NOW)
    outbox.mark_sent(due(outbox), NOW + 1, lambda alert: 3600 if alert.subject == "again" else None)

    assert due(outbox, now=NOW + 3600) == []
    (letter,) = due(outbox, now=NOW + 3601)
    assert (letter.alert.subject, letter.sent) == ("again", NOW + 1)
    assert [message.alert for message in due(outbox, now=NOW + 1e8)] == [letter.alert]


def test_a_letter_that_failed_is_due_when_it_was_said(outbox: Outbox) -> None:
    outbox.add([an_alert()], TICKETS, NOW)
    outbox.mark_failed(due(outbox), "it answered 500", NOW + 7)

    assert due(outbox, now=NOW + 6) == []
    (letter,) = due(outbox, now=NOW + 7)
    assert (letter.tries, letter.why) == (0, "it answered 500")


def test_refusals_are_counted_and_a_letter_can_be_given_up(outbox: Outbox) -> None:
    outbox.add([an_alert()], TICKETS, NOW)
    outbox.mark_failed(due(outbox), "it answered 400", NOW, is_refused=True)
    (letter,) = due(outbox)
    assert letter.tries == 1
    outbox.mark_failed([letter], "it answered 400", None, is_refused=True)

    assert due(outbox, now=NOW + 1e8) == []
    assert [(last_message.tries, last_message.due) for last_message in outbox.last_messages(9)] == [
        (2, None)
    ]


def test_an_end_is_reported_after_the_beginning(outbox: Outbox) -> None:
    over = resolve_alert(an_alert(), NOW + 60, "It moved back", 5)
    outbox.add([an_alert()], TICKETS, NOW)
    outbox.mark_sent(due(outbox), NOW, never)
    outbox.add([over], TICKETS, NOW + 60)

    assert [letter.alert for letter in due(outbox, now=NOW + 60)] == [over]


def test_an_end_that_comes_while_the_beginning_is_reported_is_not_lost(outbox: Outbox) -> None:
    over = resolve_alert(an_alert(), NOW + 1)
    outbox.add([an_alert()], TICKETS, NOW)
    underway = due(outbox)
    outbox.add([over], TICKETS, NOW + 1)
    outbox.mark_sent(underway, NOW + 2, never)
    outbox.mark_failed(underway, "late", None)

    assert [letter.alert for letter in due(outbox, now=NOW + 2)] == [over]


def test_an_end_is_reported_only_to_sinks_that_took_the_beginning(outbox: Outbox) -> None:
    over = resolve_alert(an_alert(), NOW + 60)
    outbox.add([an_alert()], BOTH, NOW)
    outbox.mark_sent(due(outbox, "hook"), NOW, never)
    outbox.mark_failed(due(outbox), "away", NOW + 9)
    outbox.add([over], BOTH, NOW + 60)

    assert [letter.alert for letter in due(outbox, "hook", NOW + 60)] == [over]
    assert due(outbox, now=NOW + 1e6) == []


def test_alert_that_ended_before_delivery_is_not_delivered(outbox: Outbox) -> None:
    news = [
        an_alert(),
        resolve_alert(an_alert(), NOW + 1),
        resolve_alert(an_alert("never said"), NOW),
    ]

    assert len(outbox.add(news, TICKETS, NOW)) == 3
    assert due(outbox, now=NOW + 1e6) == []


def test_an_end_while_the_beginning_is_refused_is_told_nobody(outbox: Outbox) -> None:
    outbox.add([an_alert()], TICKETS, NOW)
    underway = due(outbox)
    outbox.add([resolve_alert(an_alert(), NOW + 1)], TICKETS, NOW + 1)
    outbox.mark_failed(underway, "it answered 400", NOW + 9, is_refused=True)

    assert due(outbox, now=NOW + 1e6) == []


def test_an_end_reaches_sinks_that_the_process_that_tells_it_does_not_know(outbox: Outbox) -> None:
    over = resolve_alert(an_alert(), NOW + 1)
    outbox.add([an_alert()], TICKETS, NOW)
    outbox.mark_sent(due(outbox), NOW, never)
    outbox.add([over], {}, NOW + 1)
    (letter,) = due(outbox, now=NOW + 1)
    outbox.mark_sent([letter], NOW + 1, never)

    assert letter.alert == over
    assert due(outbox, now=NOW + 1e8) == []


def test_processes_that_look_at_once_share_what_is_due(url: str, outbox: Outbox) -> None:
    outbox.add([an_alert(f"s{n}") for n in range(40)], TICKETS, NOW)

    def take(_: int) -> list[str]:
        own = open_database(url)
        claimed = [letter.alert.id for letter in due(Outbox(own), most=10)]
        own.dispose()
        return claimed

    with ThreadPoolExecutor(4) as threads:
        claimed = [id_ for some in threads.map(take, range(4)) for id_ in some]

    assert len(claimed) == len(set(claimed))
    assert len(claimed) + len(due(outbox)) == 40


def test_processes_that_put_the_same_at_once_tell_it_once(url: str, outbox: Outbox) -> None:
    alerts = [an_alert(f"s{n}") for n in range(20)]

    def put(turn: int) -> int:
        own = open_database(url)
        news = Outbox(own).add(alerts[:: 1 if turn % 2 else -1], TICKETS, NOW)
        own.dispose()
        return len(news)

    with ThreadPoolExecutor(4) as threads:
        assert sum(threads.map(put, range(4))) == 20
    assert len(due(outbox)) == 20


def test_no_more_is_given_than_was_asked_for_the_longest_due_first(outbox: Outbox) -> None:
    outbox.add([an_alert("late")], TICKETS, NOW - 1)
    outbox.add([an_alert("early")], TICKETS, NOW - 9)

    assert [message.alert.subject for message in due(outbox, most=1)] == ["early"]
    assert [message.alert.subject for message in due(outbox, most=9)] == ["late"]


def test_an_alert_that_expires_is_reported_as_ended_then(outbox: Outbox) -> None:
    ends = an_alert("month", expires=NOW + 10)
    outbox.add([ends, an_alert("open")], TICKETS, NOW)

    assert outbox.expire(NOW + 9) == []
    assert outbox.expire(NOW + 60) == [resolve_alert(ends, NOW + 10)]
    outbox.add(outbox.expire(NOW + 60), TICKETS, NOW + 60)
    assert outbox.expire(NOW + 60) == []


def test_of_some_alerts_those_are_known_that_ended(outbox: Outbox) -> None:
    alerts = [an_alert("open"), an_alert("over"), an_alert("never said")]
    outbox.add([*alerts[:2], resolve_alert(alerts[1], NOW)], TICKETS, NOW)

    assert outbox.ended_ids(alert.id for alert in alerts) == {alerts[1].id}
    assert outbox.ended_ids([]) == set()


def test_messages_of_a_newer_version_are_left_to_it(outbox: Outbox, engine: Engine) -> None:
    outbox.add([an_alert("new", expires=NOW), an_alert("old", expires=NOW)], TICKETS, NOW)
    unread = update(schema.alerts).where(schema.alerts.c.id == an_alert("new").id)
    with write_transaction(engine) as connection:
        connection.execute(unread.values(text='{"severity":"doom"}'))

    assert [letter.alert.subject for letter in due(outbox)] == ["old"]
    assert [alert.subject for alert in outbox.open_alerts(9)] == ["old"]
    assert [alert.subject for alert in outbox.expire(NOW)] == ["old"]


def test_alerts_that_ended_long_ago_are_forgotten(outbox: Outbox, engine: Engine) -> None:
    old = resolve_alert(an_alert("old"), NOW)
    outbox.add([old, an_alert("open"), resolve_alert(an_alert("new"), NOW + 99)], TICKETS, NOW)

    assert outbox.retain(NOW + 50) == 1
    assert outbox.retain(NOW + 50) == 0
    assert rows(engine) == (2, 1)


def test_much_that_ended_long_ago_is_forgotten_step_by_step(outbox: Outbox) -> None:
    outbox.add([resolve_alert(an_alert(f"s{n}"), NOW) for n in range(501)], {}, NOW)

    assert outbox.retain(NOW + 50) == 501


def test_a_flood_takes_bounded_room_and_what_ended_goes_first(engine: Engine) -> None:
    outbox = Outbox(engine, most=3)
    outbox.add([an_alert("older", began=NOW - 99), an_alert("open")], TICKETS, NOW)
    for n in range(5):
        outbox.add([resolve_alert(an_alert(f"s{n}", began=NOW + n), NOW + n)], TICKETS, NOW)

    assert {alert.subject for alert in outbox.open_alerts(9)} == {"older", "open"}
    assert rows(engine) == (3, 2)
    outbox.add([an_alert(f"o{n}", began=NOW + n) for n in range(5)], TICKETS, NOW)
    assert {alert.subject for alert in outbox.open_alerts(9)} == {"o2", "o3", "o4"}


def test_open_and_sent_alerts_are_shown_the_newest_first(outbox: Outbox) -> None:
    outbox.add([an_alert("a"), an_alert("b", began=NOW + 5)], BOTH, NOW)
    outbox.add([resolve_alert(an_alert("c"), NOW)], TICKETS, NOW)
    assert [alert.subject for alert in outbox.open_alerts(9)] == ["b", "a"]
    assert outbox.last_messages(9) == []

    outbox.mark_sent(due(outbox), NOW, never)
    outbox.mark_failed(due(outbox, "hook"), "away", NOW + 9)
    assert [
        (last_message.alert.subject, last_message.sink, last_message.why)
        for last_message in outbox.last_messages(3)
    ] == [
        ("b", "hook", "away"),
        ("a", "hook", "away"),
        ("b", "slack", ""),
    ]


def rows(engine: Engine) -> tuple[int, int]:
    with read_transaction(engine) as connection:
        alerts = connection.execute(select(func.count()).select_from(schema.alerts))
        letters = connection.execute(select(func.count()).select_from(schema.outbox))
        return alerts.scalar_one(), letters.scalar_one()
