"""Replicas that are paid by the hour: whose calls pay what, and their measured prices."""

import pytest

from proxy.calls.metering.replica_costs import ReplicaCosts
from proxy.catalog.entries import Route, Upstream
from proxy.providers.answers.engine_timings import EngineTimings
from proxy.records.timeline import Timeline
from proxy.services.objectives.conversations import is_worth_switching
from slo.measured_rates import MIN_MEASURED_CALLS
from slo.replica_cost import NS_PER_S, ReplicaPrice
from slo.usage import Usage
from tests.fakes.call_dependencies import TARIFF, call, route

#: $3.60 an hour: a million nano-dollars a second.
PRICE = ReplicaPrice(gpus=1, gpu_hour_nanos=3_600_000_000)
USAGE = Usage(input=1_000, output=500)
LONG = b'{"model":"m","messages":[{"role":"user","content":"' + b"word " * 1_000 + b'"}]}'


def upstream(name: str = "gpu", price: ReplicaPrice | None = PRICE) -> Upstream:
    return Upstream(name=name, kind="openai", base_url="http://gpu/v1", replica_price=price)


ROUTE = Route(name="gpu/m", upstream=upstream())


class ReplicaCostsHarness:
    """Costs of one replica, and a clock that is moved by hand."""

    def __init__(self, *upstreams: Upstream) -> None:
        self.at = 100.0
        self.costs = ReplicaCosts()
        self.costs.update(upstreams or (upstream(),), self.at)
        for name in self.costs.names():
            self.costs.set_running(name, is_running=True, now=self.at)

    def serve(
        self, wait: float = 1.0, rest: float = 2.0, timings: EngineTimings | None = None
    ) -> int | None:
        """Nano-dollars of a call that waits this long for its first content, and for the rest."""
        timeline = Timeline(lambda: self.at)
        use = self.costs.begin(upstream(), self.at)
        assert use is not None
        sent_at = self.at
        self.at += wait
        timeline.mark_first_content()
        self.at += rest
        share = use.settle(timeline, sent_at, USAGE, timings)
        assert share is not None
        assert use.settle(timeline, sent_at, USAGE, timings) is None
        return share.nanos


def test_a_call_pays_for_the_seconds_its_engine_reports() -> None:
    timings = EngineTimings(queue=0.5, prefill=0.5, decode=1.5)

    assert ReplicaCostsHarness().serve(timings=timings) == 2_000_000


def test_without_a_report_a_call_pays_for_all_its_time_there() -> None:
    assert ReplicaCostsHarness().serve() == 3_000_000


def test_an_upstream_that_is_not_paid_by_the_hour_is_not_counted() -> None:
    costs = ReplicaCostsHarness(upstream(price=None)).costs

    assert costs.begin(upstream(), 0.0) is None
    assert list(costs.reports(0.0)) == []


def test_a_call_that_came_to_nothing_leaves_idle_time() -> None:
    machine = ReplicaCostsHarness()
    use = machine.costs.begin(upstream(), 100.0)
    assert use is not None
    use.release(104.0)
    use.release(105.0)
    (report,) = machine.costs.reports(110.0)

    assert (report.totals.used_ns, report.totals.idle_ns) == (0, 10 * NS_PER_S)


def test_a_replica_that_does_not_run_has_no_idle_time_and_its_calls_pay() -> None:
    machine = ReplicaCostsHarness()
    machine.costs.set_running("gpu", is_running=False, now=101.0)
    machine.at = 500.0
    failed = machine.costs.begin(upstream(), machine.at)
    assert failed is not None
    machine.at = 600.0
    failed.release(machine.at)
    before = machine.costs.served_at("gpu")
    machine.serve()
    (report,) = machine.costs.reports(9_000.0)

    assert (report.totals.used_ns, report.totals.idle_ns) == (3 * NS_PER_S, NS_PER_S)
    assert (before, machine.costs.served_at("gpu")) == (None, 603.0)


def test_the_price_per_token_is_measured_once_some_calls_were_served() -> None:
    machine = ReplicaCostsHarness()
    before = machine.costs.tariff(ROUTE)
    for _ in range(MIN_MEASURED_CALLS):
        machine.serve(timings=EngineTimings(prefill=1.0, decode=2.0))
    (report,) = machine.costs.reports(machine.at)

    assert before is None
    assert machine.costs.tariff(ROUTE) is not None
    assert report.rates is not None
    assert (report.rates.input, report.rates.output) == (1_000_000_000, 4_000_000_000)


def test_a_price_list_goes_before_what_is_measured() -> None:
    listed = Route(name="gpu/m", upstream=upstream(), tariff=TARIFF)

    assert ReplicaCostsHarness().costs.tariff(listed) is TARIFF


def test_a_reload_keeps_the_counts_of_replicas_that_stay_and_forgets_the_others() -> None:
    machine = ReplicaCostsHarness(upstream("gpu"), upstream("old"))
    machine.serve()
    machine.costs.update([upstream("gpu"), upstream("new")], machine.at)
    reports = {report.upstream: report for report in machine.costs.reports(machine.at)}

    assert set(reports) == {"gpu", "new"}
    assert reports["gpu"].totals.used_nanos == 3_000_000


def test_of_an_answer_that_came_at_once_nothing_is_learned_of_prices() -> None:
    machine = ReplicaCostsHarness()
    for _ in range(MIN_MEASURED_CALLS):
        machine.serve(rest=0.0)

    assert machine.costs.tariff(ROUTE) is None


@pytest.mark.parametrize("price", [ReplicaPrice(gpus=2), None])
def test_an_unknown_price_stays_unknown(price: ReplicaPrice | None) -> None:
    machine = ReplicaCostsHarness(upstream(price=price))
    use = machine.costs.begin(upstream(), 100.0)
    share = None if use is None else use.settle(Timeline(lambda: 101.0), 100.0, USAGE, None)

    assert share is None or share.nanos is None
    assert machine.costs.tariff(ROUTE) is None


@pytest.mark.parametrize(
    ("speed", "is_cheaper"), [(1.0, False), (100.0, True)], ids=["slow", "fast"]
)
def test_the_controller_compares_an_engines_measured_price_with_a_providers(
    speed: float, *, is_cheaper: bool
) -> None:
    """A provider at $1 and $4 a million tokens, beside an engine paid by the hour."""
    machine = ReplicaCostsHarness()
    seconds = 1.0 / speed
    for _ in range(MIN_MEASURED_CALLS):
        machine.serve(timings=EngineTimings(prefill=seconds, decode=2.0 * seconds))
    provider = route("provider")
    tariff = machine.costs.tariff

    assert is_worth_switching(call(LONG), provider, ROUTE, tariff) is is_cheaper
    assert not is_worth_switching(call(LONG), provider, ROUTE)
