"""Cost reports over real databases: every grouping adds up to the receipts, to the nano-dollar."""

from collections.abc import Sequence
from datetime import UTC, date, datetime
from decimal import Decimal

import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st
from sqlalchemy import Engine

from dashboards.cost_reports import DIMENSIONS, CostSums, Dimension, cost_report
from dashboards.report_summary.files import cost_document
from dashboards.report_summary.read_report import ReadReport
from dashboards.reports import MAX_USERS, ReportPeriod, tag_part
from proxy.records.receipt import Outcome, Receipt
from proxy.store.sql.database import write_transaction
from proxy.store.sql.views.ledger_reports import LedgerReports
from slo.usage import Usage
from tests.examples import examples
from tests.fakes.ledger import MERGED_PARTS, book
from tests.fakes.receipts import a_receipt

PROVIDERS = {"eu": "acme", "us": "acme"}
#: Periods with a change of clocks, in zones whose days begin at odd quarters too.
PERIODS = st.sampled_from(
    [
        ReportPeriod(first=date(2026, 2, 27), end=date(2026, 3, 3), zone="UTC"),
        ReportPeriod(first=date(2026, 3, 20), end=date(2026, 4, 2), zone="Europe/Berlin"),
        ReportPeriod(first=date(2026, 10, 20), end=date(2026, 11, 5), zone="America/New_York"),
        ReportPeriod(first=date(2026, 9, 28), end=date(2026, 10, 6), zone="Australia/Lord_Howe"),
        ReportPeriod(first=date(2026, 1, 28), end=date(2026, 3, 2), zone="Asia/Kathmandu"),
        ReportPeriod(first=date(2011, 12, 28), end=date(2012, 1, 2), zone="Pacific/Apia"),
    ]
)
GROUPINGS = st.lists(
    st.sampled_from((*DIMENSIONS, tag_part("customer"), tag_part("a-b.c"))),
    min_size=1,
    max_size=10,
)
NANOS = st.none() | st.integers(0, 1 << 49)
NAMES = st.sampled_from(["", "a", "=1+1"])
TAGS = st.dictionaries(st.sampled_from(["customer", "a-b.c"]), st.sampled_from("x'é")).map(
    lambda tags: tuple(tags.items())
)


@st.composite
def receipts(draw: st.DrawFn, period: ReportPeriod) -> list[Receipt]:
    """Receipts in a period and up to a day beside it, some of unknown price."""
    start, end = period.bounds
    drawn = []
    for n in range(draw(st.integers(1, 25))):
        started = draw(st.integers(start - 86_400, end + 86_400)) + draw(
            st.sampled_from([0.0, 0.5, 0.999])
        )
        cost = draw(NANOS)
        outcome = draw(st.sampled_from(Outcome))
        upstream = draw(st.sampled_from(["eu", "us", "other"]))
        fields = {
            "call_id": f"call_{int(started * 1000):012x}7{n:019x}",
            "started": started,
            "team": draw(st.sampled_from(["t1", "t2"])),
            "feature": draw(NAMES),
            "user": draw(NAMES),
            "tags": draw(TAGS),
            "model": draw(NAMES),
            "upstream": upstream,
            "route": f"{upstream}/{draw(st.sampled_from(['m', '*', 'm#fast']))}",
            "final": draw(st.booleans()),
            "outcome": outcome,
            "ttft": draw(st.sampled_from([None, 0.25])),
            "estimated": draw(st.booleans()),
            "list_nanos": cost,
            "cost_nanos": None if cost is None else draw(st.integers(0, cost)),
            "usage": draw(st.none() | st.builds(Usage, input=st.integers(0, 99))),
        }
        drawn.append(a_receipt(n, **fields))
    return drawn


def plain_sums(period: ReportPeriod, every: Sequence[Receipt]) -> CostSums:
    """The sums over receipts of a period, by plain arithmetic."""
    start, end = period.bounds
    inside = [receipt for receipt in every if start <= receipt.started < end]
    finals = [receipt for receipt in inside if receipt.final]
    failed = {Outcome.FAILED, Outcome.BROKEN}
    return CostSums(
        calls=len(finals),
        attempts=len(inside),
        answered=sum(receipt.ttft is not None for receipt in finals),
        errors=sum(receipt.outcome in failed for receipt in finals),
        estimated=sum(receipt.estimated for receipt in inside),
        unpriced=sum(
            receipt.cost_nanos is None
            and (receipt.usage is not None or receipt.outcome is Outcome.ANSWERED)
            for receipt in inside
        ),
        priced_list_nanos=sum(receipt.list_nanos or 0 for receipt in inside),
        priced_nanos=sum(receipt.cost_nanos or 0 for receipt in inside),
        usage=Usage(input=sum(receipt.usage.input for receipt in inside if receipt.usage)),
    )


def reports_of(engine: Engine, every: Sequence[Receipt], merged_part: float = 0.0) -> LedgerReports:
    """Reports over these receipts and no others, of which days have a part."""
    with write_transaction(engine) as connection:
        for table in ("calls", "rollups", "rollup_pending", "rollup_days"):
            connection.exec_driver_sql(f"DELETE FROM {table}")  # noqa: S608 - its own names
    book(engine, every, merged_part)
    return LedgerReports(engine)


def forget_receipts(engine: Engine) -> None:
    """Delete some receipts, as retention does; rollups stay."""
    with write_transaction(engine) as connection:
        connection.exec_driver_sql("DELETE FROM calls WHERE substr(call_id, 37) IN ('1', '4')")


@examples(12, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(data=st.data(), period=PERIODS, by=GROUPINGS, is_old=st.booleans())
def test_every_grouping_adds_up_to_the_receipts(
    engine: Engine,
    data: st.DataObject,
    period: ReportPeriod,
    by: list[Dimension],
    *,
    is_old: bool,
) -> None:
    every = data.draw(receipts(period))
    reports = reports_of(engine, every, data.draw(st.sampled_from(MERGED_PARTS)))
    if is_old:
        forget_receipts(engine)
    report = cost_report(reports, period, by, PROVIDERS)
    sums = plain_sums(period, every)
    document = cost_document(
        ReadReport(report=report, names={}, costs=None, forecasts=None, read_at=0.0)
    )

    assert report.total == sums
    assert len({row.values for row in report.rows}) == len(report.rows)
    assert all(len(row.values) == len(set(by)) for row in report.rows)
    costs = [row["cost_usd"] for row in document["rows"] if row["cost_usd"] is not None]
    assert sum(map(Decimal, costs)) * 10**9 == sums.priced_nanos


@examples(12, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(data=st.data(), period=PERIODS)
def test_days_add_up_to_their_months_in_every_zone(
    sqlite_engine: Engine, data: st.DataObject, period: ReportPeriod
) -> None:
    reports = reports_of(sqlite_engine, data.draw(receipts(period)))
    by_day = cost_report(reports, period, ("month", "day"))
    months: dict[str, CostSums] = {}
    for row in by_day.rows:
        months[row.values[0]] = months.get(row.values[0], CostSums()).plus(row.sums)

    assert months == {
        row.values[0]: row.sums for row in cost_report(reports, period, ("month",)).rows
    }


@pytest.mark.parametrize(("zone", "quarters"), [("UTC", 0), ("Asia/Kathmandu", 2)])
def test_quarters_are_read_before_and_after_whole_days_of_utc_alone(
    sqlite_engine: Engine, zone: str, quarters: int
) -> None:
    period = ReportPeriod(first=date(2026, 3, 2), end=date(2026, 3, 5), zone=zone)
    start, end = period.bounds
    middle = (start + end) // 2
    every = [
        a_receipt(n, started=moment + 1.0, cost_nanos=10**n)
        for n, moment in enumerate((start, start + 43_200, middle, end - 3_600))
    ]
    reports = reports_of(sqlite_engine, every, 0.5)
    whole = cost_report(reports, period, ("team",)).total.priced_nanos
    with write_transaction(sqlite_engine) as connection:
        connection.exec_driver_sql("UPDATE rollups SET cost_nanos = 0")
    without = cost_report(reports, period, ("team",)).total.priced_nanos

    assert whole == 1_111
    assert str(whole - without).count("1") == quarters


def test_a_day_is_the_one_that_the_call_had_there(sqlite_engine: Engine) -> None:
    period = ReportPeriod(first=date(2026, 3, 28), end=date(2026, 3, 31), zone="Europe/Berlin")
    moments = [datetime(2026, 3, 28, 23, 0, tzinfo=UTC), datetime(2026, 3, 29, 21, 59, tzinfo=UTC),
          datetime(2026, 3, 29, 22, 0, tzinfo=UTC)]  # fmt: skip
    every = [
        a_receipt(n, started=moment.timestamp(), cost_nanos=10**n)
        for n, moment in enumerate(moments)
    ]
    report = cost_report(reports_of(sqlite_engine, every), period, ("day",))

    assert [(row.values, row.sums.cost_nanos) for row in report.rows] == [
        (("2026-03-29",), 11),
        (("2026-03-30",), 100),
    ]


def test_users_beyond_the_dearest_are_others_and_lose_no_cost(sqlite_engine: Engine) -> None:
    every = [a_receipt(n, user=f"user{n:05}", cost_nanos=n) for n in range(MAX_USERS + 30)]
    start = datetime.fromtimestamp(every[0].started, UTC).date()
    period = ReportPeriod(first=start, end=date.fromordinal(start.toordinal() + 1), zone="UTC")
    report = cost_report(reports_of(sqlite_engine, every), period, ("user",))

    assert len(report.rows) == MAX_USERS + 1
    assert report.rows[-1].values == ("(others)",)
    assert report.rows[-1].sums.priced_nanos == sum(range(30))
    assert report.total.priced_nanos == sum(range(MAX_USERS + 30))


def test_upstreams_of_one_provider_share_a_row(sqlite_engine: Engine) -> None:
    every = [a_receipt(n, upstream=name, cost_nanos=1) for n, name in enumerate(["eu", "us", "x"])]
    start = datetime.fromtimestamp(every[0].started, UTC).date()
    period = ReportPeriod(first=start, end=date.fromordinal(start.toordinal() + 1), zone="UTC")
    report = cost_report(reports_of(sqlite_engine, every), period, ("provider",), PROVIDERS)

    assert [(row.values, row.sums.cost_nanos) for row in report.rows] == [
        (("acme",), 2),
        (("x",), 1),
    ]
