from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Iterator
from datetime import date

import pytest
from sqlalchemy import Engine

from dashboards.reports import ReportPeriod, SpendFilter
from dashboards.time_buckets import BucketUnit, time_buckets
from proxy.records.receipt import IDLE_TEAM, Receipt, answering_model
from proxy.store.sql.database import open_database
from proxy.store.sql.ids import id_floor
from proxy.store.sql.ledger.inserts import inserter
from proxy.store.sql.rollups.value_sums import OTHER_VALUES
from proxy.store.sql.views.ledger_reports import LedgerReports
from proxy.store.sql.views.spend_series import BucketSpend, SpendSeries, SpendSplit
from tests.fakes.ledger import MERGED_PARTS, book
from tests.fakes.receipts import a_receipt

PERIOD = ReportPeriod(first=date(2026, 11, 1), end=date(2026, 11, 21), zone="Asia/Kathmandu")
BUCKETS = time_buckets(PERIOD, "day")
FIRST = PERIOD.bounds[0]
ROUTES = ("lab/model-0", "lab/model-0#b", "lab/*", "bedrock/claude")


def a_call(n: int, **changes) -> Receipt:
    started = FIRST - 100_000 + n * 2220.0
    fields = {
        "call_id": id_floor(started)[:-6] + f"{n:06x}",
        "started": started,
        "route": ROUTES[n % 4],
        "upstream": ROUTES[n % 4].partition("/")[0],
        "user": f"{n % 5:032x}",
        "final": n % 7 != 0,
    }
    return a_receipt(n, **(fields | changes))


CALLS = [a_call(n) for n in range(900)]


def calls_between(start: float, end: float) -> list[Receipt]:
    first, last = (bisect_left(CALLS, edge, key=lambda each: each.started) for edge in (start, end))
    return CALLS[first:last]


@pytest.fixture(params=MERGED_PARTS, scope="module")
def merged_part(request: pytest.FixtureRequest) -> float:
    return float(request.param)


@pytest.fixture(scope="module")
def ledger(new_shared_url: Callable[[], str], merged_part: float) -> Iterator[Engine]:
    """A ledger of all calls, which tests only read."""
    engine = open_database(new_shared_url())
    book(engine, CALLS, merged_part)
    yield engine
    engine.dispose()


@pytest.fixture
def series(ledger: Engine) -> SpendSeries:
    return SpendSeries(ledger)


def split(part, limit: int = 50, **more) -> SpendSplit:
    return SpendSplit(part=part, limit=limit, **more)


def costs(rows: list[BucketSpend]) -> dict[tuple[int, str], int]:
    return {(row.bucket, row.value): row.sums.priced_nanos for row in rows}


def expected_sums(value_of, only=lambda _: True) -> dict[tuple[int, str], int]:
    found: dict[tuple[int, str], int] = defaultdict(int)
    for each in CALLS:
        inside = [n for n, edge in enumerate(BUCKETS.starts) if each.started >= edge]
        if inside and each.started < BUCKETS.edges[-1] and only(each):
            found[inside[-1], value_of(each)] += each.cost_nanos or 0
    return found


@pytest.mark.parametrize(
    ("part", "value_of"),
    [
        ("team", lambda r: r.team),
        ("feature", lambda r: r.feature),
        ("model", lambda r: answering_model(r.route, r.model)),
        ("requested", lambda r: r.model),
        ("key", lambda r: r.key_id),
        ("route", lambda r: r.route),
        ("upstream", lambda r: r.upstream),
        ("user", lambda r: r.user),
    ],
)
def test_each_bucket_has_what_its_calls_cost(series: SpendSeries, part, value_of) -> None:
    assert costs(series.spend_by_bucket(BUCKETS.edges, split(part))) == expected_sums(value_of)


def test_all_that_is_not_among_the_dearest_is_one_value(series: SpendSeries) -> None:
    rows = series.spend_by_bucket(BUCKETS.edges, split("route", limit=1))
    whole = series.spend_by_bucket(BUCKETS.edges, SpendSplit())

    assert len({row.value for row in rows}) == 2
    assert OTHER_VALUES in {row.value for row in rows}
    assert sum(row.sums.priced_nanos for row in rows) == sum(row.sums.priced_nanos for row in whole)


def test_the_dearest_are_those_of_the_period_and_not_of_the_one_before(engine: Engine) -> None:
    was_dear = a_call(50, team="old", cost_nanos=10**12)
    new = a_call(700, team="new", user="ab" * 16)
    inserter(engine)([was_dear, new])
    edges = (FIRST, FIRST + 86_400 * 10, FIRST + 86_400 * 20)
    for part, value in (("team", "new"), ("user", new.user)):
        found = SpendSeries(engine).spend_over_time(edges, split(part, limit=1))

        assert {row.bucket: row.value for row in found.periods} == {0: OTHER_VALUES, 1: value}


def test_upstreams_of_one_provider_are_one_value(series: SpendSeries) -> None:
    both = split("upstream", labels={"lab": "acme", "bedrock": "acme"})

    assert {row.value for row in series.spend_by_bucket(BUCKETS.edges, both)} == {"acme"}


@pytest.mark.parametrize(
    ("values", "counts"),
    [
        ({"team": {"team_1"}}, lambda r: r.team == "team_1"),
        ({"feature": {""}}, lambda r: not r.feature),
        ({"model": {"claude"}}, lambda r: answering_model(r.route, r.model) == "claude"),
        ({"key": {"key_2"}, "upstream": {"lab"}}, lambda r: r.key_id + r.upstream == "key_2lab"),
        ({"user": {f"{3:032x}"}}, lambda r: r.user == f"{3:032x}"),
    ],
)  # fmt: skip
def test_a_filter_leaves_the_calls_with_its_values(series: SpendSeries, values, counts) -> None:
    only = SpendFilter(values={part: frozenset(some) for part, some in values.items()})
    rows = series.spend_by_bucket(BUCKETS.edges, split("team"), only)

    assert costs(rows) == expected_sums(lambda r: r.team, counts)


def test_teams_that_may_not_be_seen_are_never_counted(series: SpendSeries, ledger: Engine) -> None:
    reports = LedgerReports(ledger)
    for part in ("team", "user"):
        mine = SpendFilter(teams=frozenset({"team_1"}))
        both = SpendFilter(teams=frozenset({"team_1"}), values={"team": frozenset({"team_0"})})
        own = expected_sums(lambda r: "x", lambda r: r.team == "team_1")

        rows = series.spend_by_bucket(BUCKETS.edges, split(part), mine)
        assert sum(row.sums.priced_nanos for row in rows) == sum(own.values())
        assert series.spend_by_bucket(BUCKETS.edges, split(part), both) == []
        spent = reports.spend(PERIOD, (part,), mine)
        assert sum(row.cost_nanos or 0 for row in spent) == sum(own.values())
        assert reports.spend(PERIOD, (part,), both) == []


def test_it_agrees_with_the_reports_on_everything(engine: Engine, merged_part: float) -> None:
    book(engine, CALLS, merged_part)
    unpriced = a_call(301, call_id="call_0", list_nanos=None, cost_nanos=None)
    idle = a_call(302, call_id="call_1", team=IDLE_TEAM, cost_nanos=77, feature="idle:x")
    inserter(engine)([unpriced, idle])
    (report,) = LedgerReports(engine).spend(PERIOD, ())
    whole = (BUCKETS.edges[0], BUCKETS.edges[-1])
    (found,) = SpendSeries(engine).spend_by_bucket(whole, SpendSplit())

    sums = found.sums
    assert (sums.calls, sums.attempts, sums.errors) == (
        report.calls,
        report.attempts,
        report.errors,
    )
    assert (sums.unpriced, sums.usage) == (report.unpriced, report.usage)
    assert (sums.priced_list_nanos, sums.priced_nanos) == (report.list_nanos, report.cost_nanos)
    assert (found.idle_nanos, report.idle_nanos) == (77, 77)
    assert found.unattributed_nanos == sum(
        expected_sums(lambda _: "", lambda r: not r.feature).values()
    )


@pytest.mark.parametrize("zone", ["Asia/Kathmandu", "Europe/Berlin", "America/New_York", "UTC"])
@pytest.mark.parametrize("unit", ["hour", "day", "week"])
def test_costs_over_time_add_up_to_their_period_in_any_zone(
    series: SpendSeries, zone: str, unit: BucketUnit
) -> None:
    period = ReportPeriod(first=date(2026, 11, 6), end=date(2026, 11, 12), zone=zone)
    buckets = time_buckets(period, unit)
    edges = (buckets.edges[0] - 86_400, *buckets.edges)
    found = series.spend_over_time(edges, split("feature", limit=1))
    (top,) = {row.value for row in found.buckets} - {OTHER_VALUES}
    for row in found.buckets:
        inside = [
            each.cost_nanos or 0
            for each in calls_between(*buckets.edges[row.bucket : row.bucket + 2])
            if (each.feature == row.value or (row.value == OTHER_VALUES and each.feature != top))
        ]
        assert row.sums.priced_nanos == sum(inside) > 0
    for value in (top, OTHER_VALUES):
        (whole,) = (row for row in found.periods if (row.bucket, row.value) == (1, value))
        parts = [row.sums for row in found.buckets if row.value == value]
        assert sum(each.priced_nanos for each in parts) == whole.sums.priced_nanos
        assert sum(each.calls for each in parts) == whole.sums.calls


def test_costs_of_buckets_are_those_of_all_values(series: SpendSeries) -> None:
    wanted = expected_sums(lambda _: "")
    found = series.costs_by_bucket(BUCKETS.edges)

    assert found == [wanted[n, ""] for n in range(len(BUCKETS.starts))]
    nobody = SpendFilter(teams=frozenset())
    assert series.costs_by_bucket(BUCKETS.edges, nobody) == [0] * len(BUCKETS.starts)
