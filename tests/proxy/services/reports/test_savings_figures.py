from decimal import Decimal

import pytest
from sqlalchemy import update

from dashboards.reports import SpendFilter, latest_days
from proxy.services.reports.savings_figures import SavingsFigures
from proxy.store.sql.database import write_transaction
from proxy.store.sql.ledger.control_arms import MAX_MEASUREMENT_AGE_S
from proxy.store.sql.ledger.inserts import inserter
from proxy.store.sql.schema import arm_measurement
from proxy.store.store import Store
from tests.fakes.chaos import two_model_catalog
from tests.fakes.receipts import START, a_receipt

PERIOD = latest_days(START, 30)


class SlowClock:
    """A clock that goes on by a step whenever it is read."""

    def __init__(self, step: float) -> None:
        self.at = START
        self.step = step

    def __call__(self) -> float:
        self.at += self.step
        return self.at


def figures(store: Store, clock: SlowClock) -> SavingsFigures:
    return SavingsFigures(store, two_model_catalog, clock)


def test_a_headline_is_of_the_calls_that_count(store: Store) -> None:
    inserter(store._engine)(
        [a_receipt(n, team="ab"[n], compaction="facts", compaction_nanos=10 * n) for n in range(2)]
    )
    savings = figures(store, SlowClock(0.0))

    assert savings.headline(PERIOD).saved_nanos == 10
    only = SpendFilter(values={"team": frozenset("a")})
    assert savings.headline(PERIOD, only).saved_nanos == 0


def test_running_the_gateway_costs_a_part_of_its_month_from_the_first_call_on(
    store: Store,
) -> None:
    inserter(store._engine)([a_receipt(1, compaction="facts", compaction_nanos=20)])
    store.own_cost_usd_month = Decimal(30)
    clock = SlowClock(0.0)
    clock.at = START + 3 * 86_400
    whole = figures(store, clock).headline(latest_days(clock.at, 90))
    part = figures(store, clock).headline(PERIOD, SpendFilter(values={"team": frozenset("a")}))

    assert whole.running_nanos is not None
    assert whole.running_nanos == pytest.approx(3 * 10**9, rel=0.01)
    assert whole.saved_nanos == 20 - whole.running_nanos
    assert part.running_nanos is None


def test_a_cost_report_has_the_headline_of_its_period(store: Store) -> None:
    inserter(store._engine)([a_receipt(1, compaction="facts", compaction_nanos=20)])
    read = figures(store, SlowClock(0.0)).read_report(PERIOD, ("team",))
    report = read.report

    assert report.savings is not None
    assert report.savings.saved_nanos == 20
    assert report.savings.paid_nanos == report.total.cost_nanos
    assert read.costs is not None
    assert read.costs.total.cost_nanos == report.total.cost_nanos


@pytest.mark.parametrize(("took", "rests"), [(1.0, 100.0), (100.0, MAX_MEASUREMENT_AGE_S)])
def test_a_measurement_holds_longer_the_longer_it_takes_for_all_who_share_a_store(
    store: Store, took: float, rests: float
) -> None:
    begun, other = START + took, SlowClock(0.0)
    first = figures(store, SlowClock(took)).measure()
    savings = figures(store, other)

    assert (first.at, first.took) == (begun, took)
    other.at = begun + rests - 1
    assert savings.measure() == first
    other.at = begun + rests
    assert savings.measure().at == other.at


def test_a_newer_measurement_of_another_process_replaces_the_own_one(store: Store) -> None:
    own = figures(store, SlowClock(100.0))
    before = own.measure()
    inserter(store._engine)([a_receipt(1, team="a", conversation="ab", arm="treated")])
    newer = store.arms.measure(lambda: START + 900)

    assert own.measure() == newer != before
    assert own.headline(PERIOD).measured_at == START + 900


def test_a_measurement_that_another_version_stored_is_made_again(store: Store) -> None:
    own = figures(store, SlowClock(1.0))
    own.measure()
    with write_transaction(store._engine) as connection:
        connection.execute(update(arm_measurement).values(text='{"at": "noon"}'))

    assert figures(store, SlowClock(0.0)).measure().at == START
