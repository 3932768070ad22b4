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
from proxy.store.sql.ledger.engine_usage import ReplicaRun
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


def a_call(n: int, offset: float, gpu_seconds: float) -> Receipt:
    """A call of so much GPU time, priced by it."""
    return an_engine_receipt(
        n,
        call_id=f"call_{int(BEGIN + offset) * 1000:012x}7{n:019x}",
        started=BEGIN + offset,
        upstream="house:0",
        route="house:0/m",
        gpu_seconds=gpu_seconds,
        list_nanos=None,
        cost_nanos=round(gpu_seconds * PRICE / HOUR),
    )


def spend_by(store: Store, by: tuple[Part, ...] = BY_ROUTE) -> dict[tuple[str, ...], Spend]:
    return {row.values(by): row for row in store.reports.spend(DAYS, by)}


def run(store: Store, hours: float, upstreams: Sequence[Upstream] = (replica(),)) -> None:
    """A gateway that sees the replicas run, and books every half hour, from the start on."""
    costs = IdleCosts(store, upstreams)
    for minute in range(0, int(hours * 60) + 1, 30):
        now = float(BEGIN + minute * 60)
        keep_runs(store, (0.0, minute * 60.0), upstreams=[upstream.name for upstream in upstreams])
        costs.book(now)


def keep_runs(
    store: Store, *spans: tuple[float, float], upstreams: Sequence[str] = ("house:0",)
) -> None:
    """Replicas ran between these seconds since the start."""
    runs = [ReplicaRun(name, BEGIN + a, BEGIN + b) for name in upstreams for a, b in spans]
    store.replica_time.extend_runs(runs)


def idle_nanos(store: Store) -> int:
    return sum(row.idle_nanos for row in spend_by(store).values())


IDLE = (IDLE_TEAM, "idle:house", "idle:house:0")


def test_used_and_idle_cost_of_a_replica_sum_to_its_bill(store: Store) -> None:
    store.book([a_call(n, offset=n * 500.0, gpu_seconds=90.0 + n) for n in range(20)])
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
    booked = [receipt for receipt in store.ledger.receipts_since(0.0) if receipt.team == IDLE_TEAM]
    assert [
        (receipt.started - BEGIN, receipt.duration) for receipt in booked if receipt.duration
    ] == [
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
    IdleCosts(store, [replica()]).book(float(BEGIN + 5 * HOUR + 1700))

    assert spend_by(store) == once
    assert once[IDLE].cost_nanos == 4 * 2 * PRICE


def test_hours_of_a_gateway_that_stopped_are_booked_by_the_next_one(store: Store) -> None:
    keep_runs(store, (0.0, 2.0 * HOUR))
    IdleCosts(store, [replica()]).book(float(BEGIN + 30 * HOUR))

    assert idle_nanos(store) == 2 * 2 * PRICE


def test_replicas_that_never_ran_cost_nothing(store: Store) -> None:
    replicas = [replica(f"house:{n}", gpus=4) for n in range(8)]
    costs = IdleCosts(store, replicas)
    for hour in range(26):
        costs.book(float(BEGIN + hour * HOUR))

    assert spend_by(store) == {}


def test_the_time_between_two_runs_is_not_paid(store: Store) -> None:
    store.book([a_call(1, 1_900.0, 10.0)])
    keep_runs(store, (1_000.0, 1_500.0), (1_850.5, 4_000.0))
    IdleCosts(store, [replica()]).book(float(BEGIN + 3 * HOUR))

    seconds = 500.0 + (HOUR - 1_850.5) + 400.0
    assert idle_nanos(store) == pytest.approx((seconds * 2 - 10) * PRICE / HOUR, abs=2)


def test_a_time_that_several_gateways_saw_is_paid_once(store: Store) -> None:
    keep_runs(store, (0.0, 1_000.0))
    keep_runs(store, (200.0, 2_000.0))
    keep_runs(store, (300.0, 600.0))
    IdleCosts(store, [replica()]).book(float(BEGIN + 3 * HOUR))

    assert idle_nanos(store) == pytest.approx(2_000 * 2 * PRICE / HOUR, abs=1)


def test_without_a_price_nothing_is_booked(store: Store) -> None:
    run(store, hours=4, upstreams=[replica(price=None)])

    assert spend_by(store) == {}


def test_an_hour_that_only_just_ended_has_no_line_in_reports(store: Store) -> None:
    run(store, hours=1.5)

    assert spend_by(store) == {}


def test_budgets_do_not_pay_for_idle_time(store: Store) -> None:
    team = store.teams.create("a", now=0.0)
    store.book([msgspec.structs.replace(a_call(1, 60.0, 100.0), team=team.id)])
    run(store, hours=4)
    ends = float(BEGIN), float(BEGIN + 4 * HOUR)

    receipts = store.spendings.from_receipts("organization", *ends).by
    rollups = store.spendings.from_rollups("organization", *ends)
    assert [receipt.nanos for receipt in receipts.values()] == [round(100 * PRICE / HOUR)]
    assert [rollup.nanos for rollup in rollups.values()] == [round(100 * PRICE / HOUR)]


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
def test_busy_and_idle_time_of_a_replica_add_up_to_the_time_paid(
    store: Store, calls: list[tuple[int, int]]
) -> None:
    name = f"house:{(number := next(NUMBERS))}"  # one store for all examples
    store.book(
        [
            an_engine_receipt(
                n,
                call_id=f"call_{number}_{n}",
                started=float(BEGIN + offset),
                upstream=name,
                gpu_seconds=micros / 1e6,
            )
            for n, (offset, micros) in enumerate(calls)
        ]
    )
    run(store, hours=5, upstreams=[replica(name)])
    ids = [receipt for receipt in store.ledger.receipts_since(0.0) if receipt.upstream == name]

    assert round(sum(receipt.gpu_seconds or 0 for receipt in ids) * 1e6) == 4 * HOUR * 2 * 1_000_000
