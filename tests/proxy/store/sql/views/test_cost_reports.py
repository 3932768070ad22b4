from dataclasses import replace
from datetime import date

import pytest
from sqlalchemy import Engine

from dashboards.cost_reports import Dimension
from dashboards.report_periods import period_before
from dashboards.reports import Part, ReportPeriod, SpendFilter, latest_days, ordered_parts
from proxy.store.sql.ids import id_floor
from proxy.store.sql.ledger.control_arms import ArmMeasurements
from proxy.store.sql.ledger.inserts import inserter
from proxy.store.sql.views.cost_reports import (
    ReportQuestion,
    has_more_receipts,
    pack_cost_report,
    read_cost_report,
    unpack_cost_report,
)
from proxy.store.sql.views.counted_savings import SavingsScope
from proxy.store.sql.views.readers import PickledOnce, Readers
from proxy.store.store import Store
from tests.fakes.chaos import two_model_catalog
from tests.fakes.ledger import book
from tests.fakes.receipts import START, a_receipt

NOW = START + 600
PERIOD = latest_days(NOW, 30)


def question(engine: Engine, *, measured: bool) -> ReportQuestion:
    measurement = PickledOnce(ArmMeasurements(engine).measure(lambda: NOW)) if measured else None
    catalog = PickledOnce(two_model_catalog())
    scope = SavingsScope(period=PERIOD, catalog=catalog, measurement=measurement)
    return ReportQuestion(scope=scope, by=("user",), providers={}, now=NOW)


def test_a_packed_report_is_the_report_as_it_was_read(store: Store) -> None:
    engine = store._engine
    book(
        engine,
        [a_receipt(n, cost_nanos=80, compaction="facts", compaction_nanos=20) for n in range(3)],
        0.5,
    )
    query = question(engine, measured=True)
    report = read_cost_report(Readers(engine), query)

    assert unpack_cost_report(pack_cost_report(Readers(engine), query)) == report
    assert report.read_at == NOW
    assert report.report.total.cost_nanos == 240
    assert report.report.savings is not None
    assert report.report.savings.saved_nanos == 60


def test_a_report_has_no_headline_before_arms_were_compared(store: Store) -> None:
    engine = store._engine
    assert (
        read_cost_report(Readers(engine), question(engine, measured=False)).report.savings is None
    )


def test_a_report_of_one_end_user_has_its_costs_and_no_headline(store: Store) -> None:
    engine = store._engine
    book(engine, [a_receipt(n, user=user * 32, cost_nanos=80) for n, user in enumerate("abb")], 0.5)
    only = SpendFilter(values={"user": frozenset({"b" * 32})})
    query = question(engine, measured=True)
    report = read_cost_report(
        Readers(engine), replace(query, scope=replace(query.scope, only=only))
    ).report

    assert (report.total.cost_nanos, report.savings) == (160, None)


def test_costs_over_time_are_by_the_first_dimension_with_several_values(store: Store) -> None:
    engine = store._engine
    book(engine, [a_receipt(n, team="t", cost_nanos=8 + n) for n in range(3)], 0.5)
    query = question(engine, measured=False)
    by = {
        dimensions: read_cost_report(Readers(engine), replace(query, by=dimensions))
        for dimensions in (("user", "team"), ("team", "model"), ("day",))
    }

    assert [read.costs.by for read in by.values() if read.costs] == ["feature", "model", "feature"]
    for read in by.values():
        assert read.costs is not None
        assert read.costs.total.cost_nanos == read.report.total.cost_nanos == 27


def test_costs_over_time_read_no_receipts_and_no_centuries(store: Store) -> None:
    engine = store._engine
    query = question(engine, measured=False)
    user = SpendFilter(values={"user": frozenset({"b" * 32})})
    ever = ReportPeriod(first=date(2000, 1, 1), end=date(2020, 1, 1), zone="UTC")
    for scope in (
        replace(query.scope, only=user),
        replace(query.scope, period=ever),
    ):
        assert read_cost_report(Readers(engine), replace(query, scope=scope)).costs is None


def test_a_report_from_the_first_of_a_month_is_beside_the_same_days_a_month_ago(
    store: Store,
) -> None:
    engine = store._engine
    query = question(engine, measured=False)
    september = ReportPeriod(first=date(2026, 9, 1), end=date(2026, 9, 11), zone="UTC")
    scope = replace(query.scope, period=september)
    costs = read_cost_report(Readers(engine), replace(query, scope=scope)).costs

    assert costs is not None
    assert (costs.before_first, costs.before_last) == (date(2026, 8, 1), date(2026, 8, 10))


@pytest.mark.parametrize("by", [("team", "feature"), ("model",), ("provider",), ("key", "route")])
def test_a_rows_forecast_is_that_of_its_own_calls(store: Store, by: tuple[Dimension, ...]) -> None:
    engine, providers = store._engine, {"lab": "acme"}
    days = [
        a_receipt(n, started=NOW - 86_400 * (n % 30), cost_nanos=10**9 + 7 * n) for n in range(120)
    ]
    inserter(engine)(days)
    month = ReportPeriod(first=date(2026, 9, 1), end=date(2026, 9, 22), zone="Europe/Berlin")
    query = question(engine, measured=False)
    scope = replace(query.scope, period=month)
    read = read_cost_report(
        Readers(engine), replace(query, scope=scope, by=by, providers=providers)
    )

    assert read.forecasts is not None
    assert read.forecasts.keys() >= {row.values for row in read.report.rows}
    for row in read.report.rows:
        values = dict(zip(by, row.values, strict=True))
        upstream = {"upstream" if name == "provider" else name: value.replace("acme", "lab")
                    for name, value in values.items()}  # fmt: skip
        only = SpendFilter(values={part_of(n): frozenset({v}) for n, v in upstream.items()})
        alone = replace(query, scope=replace(scope, only=only), by=by, providers=providers)
        forecast = read_cost_report(Readers(engine), alone).forecast
        assert forecast is not None
        assert forecast.forecast_nanos is not None
        assert read.forecasts[row.values] == forecast.forecast_nanos


def part_of(name: str) -> Part:
    (part,) = ordered_parts({name})
    return part


@pytest.mark.parametrize(
    ("by", "first"), [(("user",), 1), (("team", "day"), 1), (("month",), 1), (("team",), 2)]
)
def test_rows_of_parts_of_a_month_or_of_other_periods_have_no_forecast(
    store: Store, by: tuple[Dimension, ...], first: int
) -> None:
    engine = store._engine
    query = question(engine, measured=False)
    days = ReportPeriod(first=date(2026, 9, first), end=date(2026, 9, 22), zone="UTC")
    query = replace(query, scope=replace(query.scope, period=days), by=by)

    assert read_cost_report(Readers(engine), query).forecasts is None


def test_receipts_of_periods_are_counted_up_to_a_limit(store: Store) -> None:
    engine = store._engine
    before = a_receipt(9, call_id=id_floor(PERIOD.bounds[0] - 1), started=PERIOD.bounds[0] - 1)
    book(engine, [before, *(a_receipt(n) for n in range(3))], 0.5)
    readers = Readers(engine)

    assert [has_more_receipts(readers, [PERIOD], n) for n in (0, 2, 3)] == [True, True, False]
    assert [has_more_receipts(readers, [period_before(PERIOD), PERIOD], n) for n in (3, 4)] == [
        True,
        False,
    ]
