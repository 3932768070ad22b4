"""Idle time of replicas in the ledger: what calls used and what is idle sum to the bill."""

from collections.abc import Sequence
from datetime import date
from itertools import count

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dashboards.reports import Part, ReportPeriod, Spend
from proxy.catalog.entries import Upstream
from proxy.records.receipt import IDLE_TEAM, Receipt
from proxy.services.engines.idle_costs import IdleCosts
from proxy.store.store import Store
from slo.replica_cost import ReplicaPrice
from tests.fakes.receipts import an_engine_receipt

HOUR = 3600
#: A whole hour, at which the gateway starts.
BEGIN = 1_790_002_800
#: Nano-dollars of a GPU hour.
PRICE = 2_490_000_000
DAYS = ReportPeriod(first=date(2026, 9, 1), end=date(2026, 10, 1), zone="UTC")
NUMBERS = count(1)
BY_ROUTE: tuple[Part, ...] = ("team", "feature", "route")


def replica(name: str = "house:0", gpus: int = 2, price: int | None = PRICE) -> Upstream:
    cost = ReplicaPrice(gpus=gpus, gpu_hour_nanos=price)
    return Upstream(name=name, kind="openai", base_url="http://gpu:1", replica_price=cost)


def a_call(n: int, at: float, gpu_seconds: float) -> Receipt:
    """A call of so much GPU time, priced by it."""
    return an_engine_receipt(
        n,
        call_id=f"call_{int(BEGIN + at) * 1000:012x}7{n:019x}",
        started=BEGIN + at,
        upstream="house:0",
        route="house:0/m",
        gpu_seconds=gpu_seconds,
        list_nanos=None,
        cost_nanos=round(gpu_seconds * PRICE / HOUR),
    )


def spend_by(store: Store, by: tuple[Part, ...] = BY_ROUTE) -> dict[tuple[str, ...], Spend]:
    return {row.values(by): row for row in store.reports.spend(DAYS, by)}


def run(store: Store, hours: float, upstreams: Sequence[Upstream] = (replica(),)) -> None:
    """A gateway that books every half hour for so long, from the start on."""
    costs = IdleCosts(store, upstreams)
    for minute in range(0, int(hours * 60) + 1, 30):
        costs.book(float(BEGIN + minute * 60))


IDLE = (IDLE_TEAM, "idle:house", "idle:house:0")


def test_used_and_idle_cost_of_a_replica_sum_to_its_bill(store: Store) -> None:
    store.book([a_call(n, at=n * 500.0, gpu_seconds=90.0 + n) for n in range(20)])
    run(store, hours=4)

    rows = spend_by(store)
    used = sum(row.cost_nanos or 0 for row in rows.values()) - (rows[IDLE].cost_nanos or 0)
    assert used == pytest.approx(1_990 * PRICE / HOUR, abs=20)
    # three hours have ended for an hour; a call may be rounded by a nano-dollar
    assert used + (rows[IDLE].cost_nanos or 0) == pytest.approx(3 * 2 * PRICE, abs=20)


def test_an_hour_is_one_row_that_is_no_call_and_no_attempt(store: Store) -> None:
    store.book([a_call(1, 60.0, 100.0)])
    run(store, hours=4)
    row = spend_by(store)[IDLE]

    assert (row.calls, row.attempts, row.errors, row.unpriced, row.estimated) == (0, 0, 0, 0, 0)
    assert row.idle_nanos == row.cost_nanos
    booked = [each for each in store.ledger.receipts_since(0.0) if each.team == IDLE_TEAM]
    assert [(each.started - BEGIN, each.duration) for each in booked if each.duration] == [
        (0.0, HOUR),
        (HOUR, HOUR),
        (2.0 * HOUR, HOUR),
    ]


def test_the_cost_of_1000_calls_leaves_idle_time_out(store: Store) -> None:
    store.book([a_call(n, n * 10.0, 1.0) for n in range(10)])
    (before,) = store.reports.spend(DAYS, ())
    run(store, hours=4)
    (after,) = store.reports.spend(DAYS, ())

    assert after.nanos_per_1k_calls == before.nanos_per_1k_calls
    assert (after.calls, after.attempts) == (10, 10)
    assert after.cost_nanos == (before.cost_nanos or 0) + after.idle_nanos
    assert after.idle_nanos > 0


def test_split_by_user_idle_time_is_apart_too(store: Store) -> None:
    store.book([a_call(1, 60.0, 100.0)])
    run(store, hours=4)

    idle = spend_by(store, ("team", "user"))[IDLE_TEAM, ""]
    assert (idle.calls, idle.attempts, idle.idle_nanos) == (0, 0, idle.cost_nanos)


def test_neither_a_restart_nor_a_second_gateway_books_an_hour_twice(store: Store) -> None:
    run(store, hours=5)
    once = spend_by(store)
    run(store, hours=5)
    costs = IdleCosts(store, [replica()])
    costs.book(float(BEGIN + 5 * HOUR))
    costs.book(float(BEGIN + 5 * HOUR + 1700))

    assert spend_by(store) == once
    assert once[IDLE].cost_nanos == 4 * 2 * PRICE


def test_a_restart_within_the_gap_goes_on_where_the_last_row_ended(store: Store) -> None:
    run(store, hours=2)
    IdleCosts(store, [replica()]).book(float(BEGIN + 4 * HOUR - 60))

    assert spend_by(store)[IDLE].cost_nanos == 2 * 2 * PRICE


def test_time_without_a_gateway_is_not_booked(store: Store) -> None:
    run(store, hours=2)
    late = IdleCosts(store, [replica()])
    for at in (30.0, 31.0, 32.0):
        late.book(BEGIN + at * HOUR)

    assert spend_by(store)[IDLE].cost_nanos == (1 + 1) * 2 * PRICE


def test_a_replica_is_paid_from_the_first_whole_quarter_that_is_seen(store: Store) -> None:
    costs = IdleCosts(store, [replica()])
    store.book([a_call(1, 1000.0, 50.0), a_call(2, 2000.0, 10.0)])
    for at in (1000.0, HOUR + 600.0, 2.0 * HOUR):
        costs.book(BEGIN + at)

    idle = (HOUR - 1800) * 2 - 10  # from 10:30 on; the first call began before
    assert spend_by(store)[IDLE].cost_nanos == pytest.approx(idle * PRICE / HOUR, abs=1)


def test_without_a_price_nothing_is_booked(store: Store) -> None:
    run(store, hours=4, upstreams=[replica(price=None)])

    assert spend_by(store) == {}


def test_a_replica_that_was_only_just_seen_has_no_line_in_reports(store: Store) -> None:
    run(store, hours=0.5)

    assert spend_by(store) == {}


def test_budgets_do_not_pay_for_idle_time(store: Store) -> None:
    team = store.teams.create("a", now=0.0)
    store.book([msgspec.structs.replace(a_call(1, 60.0, 100.0), team=team.id)])
    run(store, hours=4)
    ends = float(BEGIN), float(BEGIN + 4 * HOUR)

    receipts = store.spendings.from_receipts("organization", *ends).by
    rollups = store.spendings.from_rollups("organization", *ends)
    assert [each.nanos for each in receipts.values()] == [round(100 * PRICE / HOUR)]
    assert [each.nanos for each in rollups.values()] == [round(100 * PRICE / HOUR)]


def test_the_use_of_an_upstream_leaves_idle_time_out(store: Store) -> None:
    store.book([a_call(1, 60.0, 100.0)])
    run(store, hours=4)
    (usage,) = store.reports.upstream_usage(["house:0"], BEGIN)

    assert (usage.calls, usage.gpu_micros) == (1, 100_000_000)


@settings(
    max_examples=5, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    calls=st.lists(
        st.tuples(st.integers(0, 4 * HOUR - 1), st.integers(0, 4_000_000_000)), max_size=12
    )
)
def test_whatever_calls_used_their_time_and_the_idle_time_are_the_time_paid(
    store: Store, calls: list[tuple[int, int]]
) -> None:
    name = f"house:{(number := next(NUMBERS))}"  # one store for all examples
    store.book(
        [
            an_engine_receipt(
                n,
                call_id=f"call_{number}_{n}",
                started=float(BEGIN + at),
                upstream=name,
                gpu_seconds=micros / 1e6,
            )
            for n, (at, micros) in enumerate(calls)
        ]
    )
    run(store, hours=5, upstreams=[replica(name)])
    ids = [each for each in store.ledger.receipts_since(0.0) if each.upstream == name]

    assert round(sum(each.gpu_seconds or 0 for each in ids) * 1e6) == 4 * HOUR * 2 * 1_000_000
