from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, date, datetime
from functools import partial

import pytest
from sqlalchemy import Engine

from dashboards.report_periods import last_period, periods_after
from proxy.store.sql.database import open_database
from proxy.store.sql.report_deliveries import MAX_PERIODS, ReportDeliveries, ReportDelivery
from slo.policies.reports import ReportInterval

WEEK = ReportInterval.WEEK
NOW = datetime(2026, 11, 24, 12, tzinfo=UTC).timestamp()
A_WEEK = 7 * 86_400.0
LEASE = 600.0
BOTH = ("mailto:ann@example.com", "webhook")


@pytest.fixture
def deliveries(engine: Engine) -> ReportDeliveries:
    return ReportDeliveries(engine)


def schedule(deliveries: ReportDeliveries, now: float, recipients: tuple[str, ...] = BOTH) -> int:
    last = last_period(WEEK, "UTC", now)
    return deliveries.schedule(
        "r", recipients, last, partial(periods_after, last=last, every=WEEK), now
    )


def claim(
    deliveries: ReportDeliveries, now: float, recipients: tuple[str, ...] = BOTH
) -> ReportDelivery | None:
    return deliveries.claim_due("r", recipients, now, LEASE)


def all_due(deliveries: ReportDeliveries, now: float) -> list[tuple[str, str]]:
    claimed = []
    while (delivery := claim(deliveries, now)) is not None:
        claimed.append((delivery.begins.isoformat(), delivery.recipient))
    return claimed


def test_a_new_report_begins_with_the_period_that_goes_on(deliveries: ReportDeliveries) -> None:
    assert schedule(deliveries, NOW) == 0
    assert all_due(deliveries, NOW) == []
    assert deliveries.last_deliveries("r", 9) == []

    assert schedule(deliveries, NOW + A_WEEK) == 1
    assert all_due(deliveries, NOW + A_WEEK) == [("2026-11-23", recipient) for recipient in BOTH]


def test_a_period_is_scheduled_once(deliveries: ReportDeliveries) -> None:
    schedule(deliveries, NOW)
    assert [schedule(deliveries, NOW + A_WEEK) for _ in range(3)] == [1, 0, 0]

    assert len(all_due(deliveries, NOW + A_WEEK)) == 2


def test_periods_that_ended_while_no_gateway_ran_are_sent_late(
    deliveries: ReportDeliveries,
) -> None:
    schedule(deliveries, NOW)
    assert schedule(deliveries, NOW + 3 * A_WEEK) == 3

    begun = [begins for begins, to in all_due(deliveries, NOW + 3 * A_WEEK) if to == "webhook"]
    assert begun == ["2026-11-23", "2026-11-30", "2026-12-07"]


def test_of_very_many_missed_periods_the_newest_are_sent(deliveries: ReportDeliveries) -> None:
    schedule(deliveries, NOW)
    assert schedule(deliveries, NOW + (MAX_PERIODS + 9) * A_WEEK) == MAX_PERIODS


def test_a_claimed_delivery_nobody_else_gets_until_the_lease_ends(
    deliveries: ReportDeliveries,
) -> None:
    schedule(deliveries, NOW)
    now = NOW + A_WEEK
    schedule(deliveries, now, ("webhook",))
    first = claim(deliveries, now)

    assert first is not None
    assert (first.begins, first.ends) == (date(2026, 11, 23), date(2026, 11, 30))
    assert claim(deliveries, now + LEASE - 1) is None
    assert claim(deliveries, now + LEASE) is not None


def test_gateways_that_claim_together_share_deliveries_and_none_goes_twice(url: str) -> None:
    engines = [open_database(url) for _ in range(4)]
    gateways = [ReportDeliveries(engine) for engine in engines]
    recipients = tuple(f"mailto:{n}@example.com" for n in range(20))

    def work(deliveries: ReportDeliveries) -> list[str]:
        schedule(deliveries, NOW, recipients)
        schedule(deliveries, NOW + A_WEEK, recipients)
        names = []
        while (delivery := claim(deliveries, NOW + A_WEEK, recipients)) is not None:
            deliveries.mark_sent(delivery, NOW + A_WEEK)
            names.append(delivery.recipient)
        return names

    with ThreadPoolExecutor(4) as threads:
        claimed = [to for part in threads.map(work, gateways) for to in part]
    for engine in engines:
        engine.dispose()

    assert sorted(claimed) == sorted(recipients)


def test_a_sent_report_is_never_due_again(deliveries: ReportDeliveries) -> None:
    schedule(deliveries, NOW)
    schedule(deliveries, NOW + A_WEEK, ("webhook",))
    claimed = claim(deliveries, NOW + A_WEEK)
    assert claimed is not None
    deliveries.mark_sent(claimed, NOW + A_WEEK + 5)

    assert claim(deliveries, NOW + 99 * A_WEEK) is None
    (last_delivery,) = deliveries.last_deliveries("r", 9)
    assert (last_delivery.sent, last_delivery.due, last_delivery.tries, last_delivery.why) == (
        NOW + A_WEEK + 5,
        None,
        0,
        "",
    )


def test_a_failed_report_is_due_later_with_its_reason_and_may_be_given_up(
    deliveries: ReportDeliveries,
) -> None:
    now = NOW + A_WEEK
    schedule(deliveries, NOW)
    schedule(deliveries, now, ("webhook",))
    claimed = claim(deliveries, now)
    assert claimed is not None
    deliveries.mark_failed(claimed, "it answered\n500", now + 60)

    assert claim(deliveries, now + 59) is None
    again = claim(deliveries, now + 60)
    assert again is not None
    assert (again.tries, again.why) == (1, "it answered 500")
    deliveries.mark_failed(again, "it answered 500", None)
    assert claim(deliveries, now + 99 * A_WEEK) is None


def test_a_recipient_that_was_taken_out_gets_nothing(deliveries: ReportDeliveries) -> None:
    schedule(deliveries, NOW)
    schedule(deliveries, NOW + A_WEEK)

    assert claim(deliveries, NOW + A_WEEK, ()) is None
    claimed = claim(deliveries, NOW + A_WEEK, ("webhook",))
    assert claimed is not None
    assert claimed.recipient == "webhook"
    assert claim(deliveries, NOW + A_WEEK, ("webhook",)) is None


def test_reports_have_deliveries_of_their_own(deliveries: ReportDeliveries) -> None:
    schedule(deliveries, NOW)
    schedule(deliveries, NOW + A_WEEK)

    assert deliveries.claim_due("other", BOTH, NOW + A_WEEK, LEASE) is None
