"""The bill of a replica, divided among its calls: nothing is lost and nothing is charged twice."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slo.replica_cost import NS_PER_S, CallInFlight, ReplicaPrice, SharedReplica

HOUR = 3600 * NS_PER_S
#: One nano-dollar a nanosecond: shares and prices are the same numbers.
EVEN = ReplicaPrice(gpus=1, gpu_hour_nanos=HOUR)


def test_a_call_alone_pays_for_all_its_time_and_the_rest_is_idle() -> None:
    replica = SharedReplica(EVEN, 0.0)
    call = replica.begin(2.0)
    share = replica.settle(call, 5.0)
    totals = replica.totals(10.0)

    assert (share.ns, share.nanos, share.gpu_seconds) == (3 * NS_PER_S, 3 * NS_PER_S, 3.0)
    assert (totals.used_nanos, totals.idle_nanos) == (3 * NS_PER_S, 7 * NS_PER_S)


def test_calls_at_once_share_each_instant_in_equal_parts() -> None:
    replica = SharedReplica(EVEN, 0.0)
    first, second = replica.begin(0.0), replica.begin(1.0)

    assert replica.settle(first, 3.0).ns == 2 * NS_PER_S  # 1 s alone, 2 s of two
    assert replica.settle(second, 4.0).ns == 2 * NS_PER_S


def test_a_call_pays_for_the_time_it_was_worked_on_and_not_for_its_queue() -> None:
    replica = SharedReplica(EVEN, 0.0)
    first, queued = replica.begin(0.0), replica.begin(0.0)
    replica.settle(first, 1.0, worked_s=1.0)
    share = replica.settle(queued, 2.0, worked_s=1.0)
    totals = replica.totals(2.0)

    assert share.ns == NS_PER_S
    assert totals.used_ns + totals.idle_ns == 2 * NS_PER_S


def test_a_queued_call_s_time_goes_to_those_that_were_worked_on() -> None:
    replica = SharedReplica(EVEN, 0.0)
    long, queued = replica.begin(0.0), replica.begin(0.0)
    replica.settle(queued, 10.0, worked_s=0.0)

    assert replica.settle(long, 10.0).ns == 10 * NS_PER_S


def test_gpus_multiply_the_price_and_a_machine_without_any_counts_as_one() -> None:
    price = ReplicaPrice(gpus=4, gpu_hour_nanos=2_490_000_000)
    replica = SharedReplica(price, 0.0)
    share = replica.settle(replica.begin(0.0), 3600.0)

    assert (share.nanos, share.gpu_seconds) == (9_960_000_000, 4 * 3600.0)
    assert ReplicaPrice(gpus=0, gpu_hour_nanos=7).hour_nanos == 7


def test_an_unknown_price_is_unknown_and_gpu_seconds_are_counted() -> None:
    replica = SharedReplica(ReplicaPrice(gpus=2), 0.0)
    share = replica.settle(replica.begin(0.0), 3.0)

    assert (share.nanos, share.gpu_seconds) == (None, 6.0)


def test_a_call_that_pays_nothing_leaves_idle_time_where_it_was_alone() -> None:
    replica = SharedReplica(EVEN, 0.0)
    replica.release(replica.begin(0.0), 4.0)

    assert replica.totals(4.0).idle_ns == 4 * NS_PER_S


def test_a_changed_replica_price_holds_for_later_settlements() -> None:
    replica = SharedReplica(EVEN, 0.0)
    replica.change_price(ReplicaPrice(gpus=2, gpu_hour_nanos=HOUR), 1.0)
    share = replica.settle(replica.begin(1.0), 2.0)

    assert (replica.totals(2.0).idle_nanos, share.nanos) == (NS_PER_S, 2 * NS_PER_S)


def test_a_share_is_settled_once() -> None:
    replica = SharedReplica(EVEN, 0.0)
    call = replica.begin(0.0)
    replica.release(call, 1.0)

    with pytest.raises(RuntimeError, match="twice"):
        replica.settle(call, 2.0)


def test_thousands_of_events_during_one_call_keep_few_readings() -> None:
    replica = SharedReplica(EVEN, 0.0)
    long = replica.begin(0.0)
    for n in range(20_000):
        replica.settle(replica.begin(n + 0.25), n + 0.75)

    assert len(replica._readings) <= 4096
    assert replica.settle(long, 20_000.0, worked_s=20_000.0).ns == 15_000 * NS_PER_S


STEPS = st.lists(
    st.tuples(
        st.floats(0.0, 50.0),
        st.sampled_from(["begin", "begin", "settle", "release"]),
        st.none() | st.floats(0.0, 100.0),
        st.integers(0, 20),
    ),
    max_size=60,
)


@given(steps=STEPS, hour=st.integers(0, 10**12), gpus=st.integers(0, 8))
def test_shares_and_idle_time_add_up_to_the_bill_at_any_overlap_of_calls(
    steps: list[Any], hour: int, gpus: int
) -> None:
    replica = SharedReplica(ReplicaPrice(gpus=gpus, gpu_hour_nanos=hour), 0.0)
    now, charged, running = 0.0, 0, list[CallInFlight]()
    for wait, kind, worked_s, which in steps:
        now += wait
        if kind == "begin":
            running.append(replica.begin(now))
        elif running:
            call = running.pop(which % len(running))
            if kind == "settle":
                charged += replica.settle(call, now, worked_s).nanos or 0
            else:
                replica.release(call, now)
    totals = replica.totals(now)
    assert totals.used_ns + totals.idle_ns + totals.open_ns == round(now * NS_PER_S)
    charged += sum(replica.settle(call, now).nanos or 0 for call in running)
    totals = replica.totals(now)

    assert (totals.open_ns, totals.used_nanos) == (0, charged)
    assert charged + totals.idle_nanos == round(now * NS_PER_S) * hour * max(gpus, 1) // HOUR
