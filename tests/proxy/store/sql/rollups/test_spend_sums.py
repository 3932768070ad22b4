from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from datetime import date
from types import MappingProxyType
from typing import Any

import pytest
from sqlalchemy import Engine, event

from dashboards.report_periods import BucketUnit, time_buckets
from dashboards.reports import ALL_CALLS, Part, ReportPeriod, SpendFilter
from dashboards.views.costs import RowSort
from proxy.records.receipt import Receipt, answering_model
from proxy.store.sql.database import open_database, read_transaction
from proxy.store.sql.ids import id_floor
from proxy.store.sql.ledger.inserts import inserter
from proxy.store.sql.rollups.bucket_sums import Sums
from proxy.store.sql.rollups.spend_sums import (
    SpendReader,
    ValueDimension,
    ValueRange,
    costs_by_bucket,
    estimated_cost,
)
from proxy.store.sql.rollups.value_sums import (
    OTHER_VALUES,
    add_up,
    largest_values,
    merge_unshown,
)
from proxy.store.sql.views.ledger_reports import LedgerReports
from tests.fakes.ledger import MERGED_PARTS, book
from tests.fakes.receipts import a_receipt

PERIOD = ReportPeriod(first=date(2026, 11, 1), end=date(2026, 11, 21), zone="Asia/Kathmandu")
BUCKETS = time_buckets(PERIOD, "day")
FIRST = PERIOD.bounds[0]
EDGES = (FIRST - 86_400, *BUCKETS.edges)
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


def spend(
    engine: Engine,
    part: Part,
    edges: Sequence[int] = EDGES,
    *,
    limit: int = 50,
    only: SpendFilter = ALL_CALLS,
    labels: Mapping[str, str] = MappingProxyType({}),
    earlier: tuple[int, int] | None = None,
) -> tuple[Sums, Sums]:
    """Sums of the period before and of the period by value, and the costs of each bucket."""
    dimension = ValueDimension(part, labels)
    with read_transaction(engine, is_snapshot=True) as connection:
        reader = SpendReader(connection, earlier or (edges[0], edges[1]), edges[1:], only)
        if dimension.reads_receipts:
            shown: Collection[str] = reader.ranked_values(dimension, ValueRange(count=limit))
            periods = reader.by_value(dimension, shown)
        else:
            every = reader.by_value(dimension, None)
            shown = largest_values(every, "cost_nanos", limit, bucket=1)
            periods = merge_unshown(every, shown)
        return periods, reader.by_bucket(dimension, shown)


def costs(sums: Sums) -> dict[tuple[Any, ...], int]:
    return {key: numbers["cost_nanos"] for key, numbers in sums.items()}


def bucket_costs(engine: Engine, part: Part, **how: Any) -> dict[tuple[Any, ...], int]:
    return costs(spend(engine, part, **how)[1])


def expected_sums(value_of, only=lambda _: True) -> dict[tuple[int, str], int]:
    costs: dict[tuple[int, str], int] = defaultdict(int)
    for receipt in CALLS:
        inside = [n for n, edge in enumerate(BUCKETS.starts) if receipt.started >= edge]
        if inside and receipt.started < BUCKETS.edges[-1] and only(receipt):
            costs[inside[-1], value_of(receipt)] += receipt.cost_nanos or 0
    return costs


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
def test_each_bucket_has_what_its_calls_cost(ledger: Engine, part, value_of) -> None:
    assert bucket_costs(ledger, part) == expected_sums(value_of)


def test_all_that_is_not_among_the_dearest_is_one_value(ledger: Engine) -> None:
    nanos = bucket_costs(ledger, "route", limit=1)

    assert len({value for _, value in nanos}) == 2
    assert OTHER_VALUES in {value for _, value in nanos}
    assert sum(nanos.values()) == sum(bucket_costs(ledger, "team").values())


def test_the_dearest_are_those_of_the_period_and_not_of_the_one_before(engine: Engine) -> None:
    was_dear = a_call(50, team="old", cost_nanos=10**12)
    new = a_call(700, team="new", user="ab" * 16)
    inserter(engine)([was_dear, new])
    edges = (FIRST, FIRST + 86_400 * 10, FIRST + 86_400 * 20)
    parts: dict[Part, str] = {"team": "new", "user": new.user}
    for part, value in parts.items():
        periods, _ = spend(engine, part, edges, limit=1)

        assert set(periods) == {(0, OTHER_VALUES), (1, value)}


def test_time_between_two_periods_counts_in_neither(ledger: Engine) -> None:
    earlier, edges = (FIRST, FIRST + 86_400), (FIRST + 3 * 86_400, FIRST + 4 * 86_400)
    parts: tuple[Part, ...] = ("team", "user")
    for part in parts:
        periods, _ = spend(ledger, part, (0, *edges), earlier=earlier)
        for bucket, bounds in enumerate((earlier, edges)):
            nanos = sum(each.cost_nanos or 0 for each in calls_between(*bounds))
            assert (
                sum(each["cost_nanos"] for key, each in periods.items() if key[0] == bucket)
                == nanos
            )


def test_receipts_between_two_periods_are_not_read(sqlite_engine: Engine) -> None:
    book(sqlite_engine, CALLS[:9], 0.5)
    parameters: list[Sequence[Any]] = []
    event.listen(
        sqlite_engine, "before_cursor_execute", lambda *call: parameters.append(tuple(call[3]))
    )
    earlier, later = (FIRST, FIRST + 86_400), (FIRST + 30 * 86_400, FIRST + 31 * 86_400)
    with read_transaction(sqlite_engine) as connection:
        SpendReader(connection, earlier, later, ALL_CALLS).by_value(ValueDimension("user", {}), ())

    bounds = [{id_floor(edge) for edge in period} for period in (earlier, later)]
    of_receipts = [{*some} & (bounds[0] | bounds[1]) for some in parameters]
    assert [some for some in of_receipts if some] == bounds


def test_upstreams_of_one_provider_are_one_value(ledger: Engine) -> None:
    nanos = bucket_costs(ledger, "upstream", labels={"lab": "acme", "bedrock": "acme"})

    assert {value for _, value in nanos} == {"acme"}


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
def test_a_filter_leaves_the_calls_with_its_values(ledger: Engine, values, counts) -> None:
    only = SpendFilter(values={part: frozenset(some) for part, some in values.items()})

    assert bucket_costs(ledger, "team", only=only) == expected_sums(lambda r: r.team, counts)


def test_teams_that_may_not_be_seen_are_never_counted(ledger: Engine) -> None:
    reports = LedgerReports(ledger)
    parts: tuple[Part, ...] = ("team", "user")
    for part in parts:
        mine = SpendFilter(teams=frozenset({"team_1"}))
        both = SpendFilter(teams=frozenset({"team_1"}), values={"team": frozenset({"team_0"})})
        own = expected_sums(lambda r: "x", lambda r: r.team == "team_1")

        assert sum(bucket_costs(ledger, part, only=mine).values()) == sum(own.values())
        assert spend(ledger, part, only=both) == ({}, {})
        spent = reports.spend(PERIOD, (part,), mine)
        assert sum(row.cost_nanos or 0 for row in spent) == sum(own.values())
        assert reports.spend(PERIOD, (part,), both) == []


@pytest.mark.parametrize("zone", ["Asia/Kathmandu", "Europe/Berlin", "America/New_York", "UTC"])
@pytest.mark.parametrize("unit", ["hour", "day", "week"])
def test_costs_over_time_add_up_to_their_period_in_any_zone(
    ledger: Engine, zone: str, unit: BucketUnit
) -> None:
    period = ReportPeriod(first=date(2026, 11, 6), end=date(2026, 11, 12), zone=zone)
    buckets = time_buckets(period, unit)
    edges = (buckets.edges[0] - 86_400, *buckets.edges)
    periods, by_bucket = spend(ledger, "feature", edges, limit=1)
    (top,) = {value for _, value in by_bucket} - {OTHER_VALUES}
    for (bucket, value), sums in by_bucket.items():
        inside = [
            call.cost_nanos or 0
            for call in calls_between(*buckets.edges[bucket : bucket + 2])
            if (call.feature == value or (value == OTHER_VALUES and call.feature != top))
        ]
        assert sums["cost_nanos"] == sum(inside) > 0
    for value in (top, OTHER_VALUES):
        whole = periods[1, value]
        parts = add_up(sums for (_, of_value), sums in by_bucket.items() if of_value == value)
        assert (parts["cost_nanos"], parts["calls"]) == (whole["cost_nanos"], whole["calls"])


def test_costs_of_buckets_are_those_of_all_values(ledger: Engine) -> None:
    expected = expected_sums(lambda _: "")
    nobody = SpendFilter(teams=frozenset())
    with read_transaction(ledger, is_snapshot=True) as connection:
        nanos = costs_by_bucket(connection, BUCKETS.edges, ALL_CALLS)
        of_nobody = costs_by_bucket(connection, BUCKETS.edges, nobody)

    assert nanos == [expected[n, ""] for n in range(len(BUCKETS.starts))]
    assert of_nobody == [0] * len(BUCKETS.starts)


def test_a_bucket_between_equal_edges_is_empty(ledger: Engine) -> None:
    start, middle, end = FIRST, FIRST + 86_400, FIRST + 2 * 86_400
    expected = [
        sum(call.cost_nanos or 0 for call in calls_between(*days))
        for days in ((start, middle), (middle, end))
    ]
    with read_transaction(ledger, is_snapshot=True) as connection:
        nanos = costs_by_bucket(connection, (start, middle, middle, end), ALL_CALLS)

    assert nanos == [expected[0], 0, expected[1]]


def test_values_of_receipts_are_in_the_order_of_names_whatever_their_case(engine: Engine) -> None:
    inserter(engine)([a_call(100 + n, user=user) for n, user in enumerate(("c", "B", "a"))])
    with read_transaction(engine) as connection:
        reader = SpendReader(connection, (EDGES[0], EDGES[1]), EDGES[1:], ALL_CALLS)
        names = reader.ranked_values(ValueDimension("user", {}), ValueRange(count=9, sort="name"))

    assert names == ["a", "B", "c"]


def test_a_bucket_whose_calls_have_no_known_price_has_an_unknown_cost(engine: Engine) -> None:
    calls = [a_receipt(n, cost_nanos=cost) for n, cost in enumerate((None, 5, None))]
    day = int(calls[0].started) // 86_400 * 86_400
    edges = (day, day + 86_400)
    inserter(engine)(calls[:1])
    with read_transaction(engine, is_snapshot=True) as connection:
        assert costs_by_bucket(connection, edges, ALL_CALLS) == [None]
    inserter(engine)(calls[1:])
    with read_transaction(engine, is_snapshot=True) as connection:
        assert costs_by_bucket(connection, edges, ALL_CALLS) == [5]


def test_users_without_receipts_are_among_the_others(engine: Engine) -> None:
    inserter(engine)(CALLS[:300])
    with engine.begin() as connection:  # receipts of older calls are deleted, their sums stay
        connection.exec_driver_sql("DELETE FROM calls WHERE cost_nanos / 3 * 3 = cost_nanos")
    for limit in (2, 50):
        users, teams = spend(engine, "user", limit=limit), spend(engine, "team")
        for by_user, by_team in zip(users, teams, strict=True):
            assert {key[0]: 0 for key in by_user} == {key[0]: 0 for key in by_team}
            for bucket in {key[0] for key in by_team}:
                sums = [
                    add_up(numbers for key, numbers in every.items() if key[0] == bucket)
                    for every in (by_user, by_team)
                ]
                for name in ("calls", "cost_nanos"):
                    assert sums[0][name] == sums[1][name]
        assert (1, OTHER_VALUES) in users[0]


@pytest.mark.parametrize("sort", ["cost", "change", "calls", "name"])
def test_users_are_ranked_in_the_database_and_paged(ledger: Engine, sort: RowSort) -> None:
    user, (begin, end) = ValueDimension("user", {}), (EDGES[1], EDGES[-1])
    amounts: dict[str, list[int]] = defaultdict(lambda: [0, 0, 0])
    for call in CALLS:
        if begin <= call.started < end:
            amounts[call.user][0] += call.cost_nanos or 0
            amounts[call.user][1] += call.cost_nanos or 0
            amounts[call.user][2] += call.final
        elif EDGES[0] <= call.started < begin:
            amounts[call.user][1] -= call.cost_nanos or 0
    place = {"cost": 0, "change": 1, "calls": 2}.get(sort)
    ranked = sorted(amounts, key=lambda each: (0 if place is None else -amounts[each][place], each))
    with read_transaction(ledger, is_snapshot=True) as connection:
        reader = SpendReader(connection, (EDGES[0], EDGES[1]), EDGES[1:], ALL_CALLS)
        page = ValueRange(count=2, sort=sort, first=1)
        page_and_count = reader.ranked_values(user, page), reader.value_count(user, page)
        named = reader.ranked_values(user, ValueRange(count=9, sort=sort, find="00002"))

    assert page_and_count == (ranked[1:3], 5)
    assert named == [f"{2:032x}"]


def test_the_cost_of_estimated_attempts_is_known_unless_receipts_alone_tell(engine: Engine) -> None:
    calls = [
        a_call(n, estimated=n < 3, cost_nanos=n, started=FIRST, feature="ab"[n % 2])
        for n in range(1, 6)
    ]
    book(engine, calls, 0.5)

    def cost(only: SpendFilter = ALL_CALLS) -> int | None:
        with read_transaction(engine) as connection:
            return estimated_cost(connection, PERIOD.bounds, only)

    by_feature = [SpendFilter(values={"feature": frozenset({name})}) for name in ("a", "none")]
    assert [cost(), *map(cost, by_feature)] == [3, 2, 0]
    assert cost(SpendFilter(values={"user": frozenset({"ann"})})) is None
