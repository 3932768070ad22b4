"""Engines as metrics: bounded series of phases, draft tokens and costs."""

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.registry import Collector

from proxy.calls.metering.replica_costs import ReplicaCosts
from proxy.catalog.entries import Upstream
from proxy.services.telemetry.engine_metrics import PhaseMetrics, ReplicaCostMetrics
from slo.replica_cost import ReplicaPrice
from tests.fakes.receipts import a_receipt, an_engine_receipt


def page(collector: Collector) -> str:
    registry = CollectorRegistry()
    registry.register(collector)
    return generate_latest(registry).decode()


def test_phases_and_draft_tokens_are_counted_by_upstream() -> None:
    metrics = PhaseMetrics()
    for n in (1, 2):
        metrics.observe(an_engine_receipt(n, upstream="gpu"))
    metrics_text = page(metrics)

    assert 'thriftgate_phase_seconds_count{phase="decode",upstream="gpu"} 2.0' in metrics_text
    assert 'thriftgate_phase_seconds_sum{phase="decode",upstream="gpu"} 1.5' in metrics_text
    assert 'thriftgate_phase_seconds_sum{phase="prefill",upstream="gpu"} 0.375' in metrics_text
    assert 'thriftgate_draft_tokens_total{upstream="gpu"} 83.0' in metrics_text
    assert 'thriftgate_accepted_tokens_total{upstream="gpu"} 60.0' in metrics_text


def test_providers_that_report_no_phases_have_no_series() -> None:
    metrics = PhaseMetrics()
    metrics.observe(a_receipt(upstream="openai"))

    assert "openai" not in page(metrics)


def test_series_are_bounded_however_many_upstreams_there_are() -> None:
    metrics = PhaseMetrics()
    for n in range(300):
        metrics.observe(an_engine_receipt(n, upstream=f"gpu-{n}"))

    assert page(metrics).count('phase="queue",upstream=') <= 257 * 17
    assert 'phase="queue",upstream="other"' in page(metrics)


def test_used_and_idle_time_of_a_replica_are_shown_with_their_price() -> None:
    price = ReplicaPrice(gpus=2, gpu_hour_nanos=3_600_000_000)
    gpu = Upstream(name="gpu", kind="openai", base_url="http://gpu/v1", replica_price=price)
    costs = ReplicaCosts()
    costs.update([gpu], -50.0)
    costs.set_running("gpu", is_running=True, now=0.0)
    use = costs.begin(gpu, 4.0)
    assert use is not None
    use.release(5.0)
    metrics_text = page(ReplicaCostMetrics(costs, lambda: 10.0))

    assert 'thriftgate_replica_gpu_seconds_total{state="idle",upstream="gpu"} 20.0' in metrics_text
    assert 'thriftgate_replica_cost_usd_total{state="idle",upstream="gpu"} 0.02' in metrics_text


def test_money_of_an_unknown_price_is_not_shown_as_nothing() -> None:
    gpu = Upstream(
        name="gpu", kind="openai", base_url="http://gpu/v1", replica_price=ReplicaPrice()
    )
    costs = ReplicaCosts()
    costs.update([gpu], 0.0)

    assert "thriftgate_replica_cost_usd_total{" not in page(ReplicaCostMetrics(costs, lambda: 1.0))
