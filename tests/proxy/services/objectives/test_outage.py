"""One alert for counters that are away, however often and for however many objectives."""

from proxy.services.objectives.outage import CountersOutage
from slo.alert import Alert, Severity
from slo.objectives.objective import Enforce
from tests.fakes.alerts import AlertRecorder, an_alert
from tests.fakes.objective_replicas import START, objective, tracks

BOTH = tracks(objective(), objective(name="other", enforce=Enforce.ALERT)).values()


def outage(*objectives: Enforce) -> tuple[CountersOutage, list[Alert]]:
    alerts = AlertRecorder()
    tracked = tracks(
        *(objective(name=f"o{n}", enforce=enforce) for n, enforce in enumerate(objectives))
    )
    return CountersOutage(tracked.values() if objectives else BOTH, alerts), alerts


def test_an_outage_is_told_after_ten_seconds_and_its_end_after_a_minute_without_another():
    out, alerts = outage()
    for second in range(25):
        out.record_loss(START + second)
        assert len(alerts) == (second >= 10)
    for second in range(25, 84):
        out.record_recovery(START + second)
    assert len(alerts) == 1
    out.record_recovery(START + 84)

    begun, ended = alerts
    assert (begun.kind, begun.subject, begun.began) == ("store", "objectives", START)
    assert begun.severity is Severity.TICKET
    assert begun.facts == (("objectives", "2"),)
    assert (ended.id, ended.ended) == (begun.id, START + 24)


def test_an_outage_is_told_of_objectives_that_came_with_a_reload():
    alerts = AlertRecorder()
    out = CountersOutage((), alerts)
    for second in range(20):
        out.record_loss(START + second)
    assert alerts == []

    out.update(BOTH)
    out.record_loss(START + 20)
    assert [alert.kind for alert in alerts] == ["store"]


def test_one_late_answer_is_no_outage():
    out, alerts = outage()
    for minute in range(10):
        out.record_loss(START + 100 * minute)
        out.record_recovery(START + 100 * minute + 1)
        out.record_recovery(START + 100 * minute + 61)

    assert alerts == []


def test_counters_that_come_and_go_are_one_outage():
    out, alerts = outage()
    for second in range(0, 600, 6):
        out.record_loss(START + second)
        out.record_recovery(START + second + 3)

    assert len(alerts) == 1


def test_processes_that_lose_them_in_the_same_minute_tell_the_same():
    all_alerts = []
    for late in (0, 1, 2):
        out, alerts = outage()
        for second in range(20):
            out.record_loss(START + 30 + late + second)
        all_alerts += alerts

    assert len({alert.id for alert in all_alerts}) == 1


def test_the_next_outage_is_another_alert():
    out, alerts = outage()
    for began in (START, START + 200):
        for second in range(15):
            out.record_loss(began + second)
        out.record_recovery(began + 80)

    assert len({alert.id for alert in alerts}) == 2


def test_an_alert_that_another_process_left_open_ends_once_all_is_well():
    before, alerts = outage()
    for second in range(11):
        before.record_loss(START + second)
    heir, ends = outage()
    heir.resume(alerts, START + 30)
    heir.record_recovery(START + 60)
    assert ends == []
    heir.record_recovery(START + 90)

    assert [(alert.id, alert.is_open) for alert in ends] == [(alerts[0].id, False)]


def test_alert_about_the_journals_files_is_not_ended_by_an_answer_of_the_counters():
    heir, ends = outage()
    heir.resume([an_alert("journal", kind="store")], START + 30)
    heir.record_recovery(START + 200)

    assert ends == []


def test_people_are_told_as_objectives_ask():
    for enforce, severities in (
        (Enforce.OBSERVE, []),
        (Enforce.ALERT, [Severity.NOTE]),
        (Enforce.DEGRADE, [Severity.TICKET]),
    ):
        out, alerts = outage(enforce)
        out.record_loss(START)
        out.record_loss(START + 10)
        assert [alert.severity for alert in alerts] == severities
