"""The times that replicas run, as a gateway sees them by a clock that is moved by hand."""

from dataclasses import replace

import pytest

from proxy.calls.metering.replica_costs import ReplicaCosts
from proxy.catalog.entries import Upstream
from proxy.engines.state.replica_report import ProcessState
from proxy.records.timeline import Timeline
from proxy.services.engines.replica_monitor import ReplicaStatus
from proxy.services.engines.replica_uptime import ReplicaUptime
from proxy.store.sql.ledger.engine_usage import ReplicaRun
from slo.replica_cost import NS_PER_S, ReplicaPrice

#: Seconds since the epoch at tick 0.
EPOCH = 1_790_000_000.0
PRICE = ReplicaPrice(gpus=4, gpu_hour_nanos=2_490_000_000)
UNSEEN = ReplicaStatus(name="gpu:0", profile="gpu", model="m", base_url="http://gpu/v1")


class UptimeHarness:
    """A replica, and a gateway that looks at it each second."""

    def __init__(self, status: ReplicaStatus | None = UNSEEN) -> None:
        self.ticks = 0.0
        self.status = status
        self.upstream = Upstream(
            name="gpu:0", kind="openai", base_url="http://gpu/v1", replica_price=PRICE
        )
        self.costs = ReplicaCosts()
        self.costs.update([self.upstream], 0.0)
        self.uptime = ReplicaUptime(self.costs, lambda _: self.status)

    def pass_time(self, seconds: int, *, answers: bool = False) -> None:
        for _ in range(seconds):
            self.ticks += 1.0
            if answers and self.status is not None:
                self.status = replace(self.status, answered_at=self.ticks, is_healthy=True)
            self.uptime.note(EPOCH + self.ticks, self.ticks)

    def be(self, process: ProcessState) -> None:
        assert self.status is not None
        self.status = replace(self.status, process=process)

    def serve_call(self) -> None:
        use = self.costs.begin(self.upstream, self.ticks)
        assert use is not None
        use.settle(Timeline(lambda: self.ticks), self.ticks, None, None)

    @property
    def runs(self) -> list[tuple[float, float]]:
        return [(run.began - EPOCH, run.ended - EPOCH) for run in self.uptime.runs()]

    @property
    def idle_s(self) -> float:
        (report,) = self.costs.reports(self.ticks)
        return report.totals.idle_ns / NS_PER_S


def test_an_attached_replica_that_never_answers_does_not_run():
    machine = UptimeHarness()
    machine.pass_time(2_000)

    assert (machine.runs, machine.idle_s) == ([], 0.0)


def test_an_attached_replica_runs_from_its_first_answer_to_its_last():
    machine = UptimeHarness()
    machine.pass_time(100)
    machine.pass_time(50, answers=True)
    machine.pass_time(500)

    assert machine.runs == [(101.0, 150.0)]
    assert machine.idle_s == pytest.approx(49 + 60, abs=2)


def test_a_slow_page_does_not_end_a_run_and_a_refused_connection_does_at_once():
    machine = UptimeHarness()
    machine.pass_time(10, answers=True)
    machine.pass_time(40)
    machine.pass_time(10, answers=True)
    machine.status = replace(UNSEEN, is_healthy=False)
    machine.pass_time(5)
    machine.pass_time(10, answers=True)

    assert machine.runs == [(1.0, 60.0), (66.0, 75.0)]


def test_a_supervised_replica_runs_while_it_starts_serves_and_drains():
    machine = UptimeHarness()
    for state in ProcessState:
        machine.be(state)
        machine.pass_time(100)

    assert machine.runs == [(1.0, 300.0)]
    assert machine.idle_s == pytest.approx(300.0, abs=1)


def test_unwatched_replica_runs_for_a_quarter_of_an_hour_from_each_call():
    machine = UptimeHarness(status=None)
    machine.pass_time(100)
    machine.serve_call()
    machine.pass_time(600)
    machine.serve_call()
    machine.pass_time(2_000)

    assert machine.runs == [(101.0, 1_600.0)]


def test_runs_that_were_stored_and_ended_are_forgotten_and_the_present_one_goes_on():
    machine = UptimeHarness()
    machine.pass_time(10, answers=True)
    stored = machine.uptime.runs()
    machine.pass_time(10, answers=True)
    machine.uptime.forget(stored)
    still = machine.uptime.runs()
    machine.status = replace(UNSEEN, is_healthy=False)
    machine.pass_time(1)
    machine.uptime.forget(machine.uptime.runs())

    assert still == [ReplicaRun("gpu:0", EPOCH + 1, EPOCH + 20)]
    assert machine.uptime.runs() == []


def test_a_run_ends_with_its_replica_s_entry_in_the_catalog():
    machine = UptimeHarness()
    machine.pass_time(10, answers=True)
    machine.costs.update([], machine.ticks)
    machine.pass_time(10, answers=True)

    assert machine.runs == [(1.0, 10.0)]
