"""What Prometheus reads of objectives."""

from prometheus_client import CollectorRegistry, generate_latest

from proxy.services.objectives.figures import ObjectiveMetrics
from proxy.services.objectives.router import ObjectiveRouter
from slo.controller.state import ControllerSnapshot, ControllerState
from tests.fakes.chaos import two_model_catalog
from tests.fakes.objective_replicas import objective, tracks


def page(wheel: ObjectiveRouter) -> str:
    registry = CollectorRegistry()
    registry.register(ObjectiveMetrics(wheel))
    return generate_latest(registry).decode()


def test_every_objective_is_there_before_anything_happened():
    said = page(ObjectiveRouter(tracks(objective(), objective(name="other")), two_model_catalog()))

    for name in ("chat-ttft", "other"):
        assert f'thriftgate_objective_good_total{{objective="{name}"}} 0.0' in said
        assert f'thriftgate_objective_bad_total{{objective="{name}"}} 0.0' in said
        assert f'thriftgate_objective_state{{objective="{name}",state="healthy"}} 1.0' in said


def test_counts_levels_and_states_are_told():
    wheel = ObjectiveRouter(tracks(), two_model_catalog())
    wheel.totals["chat-ttft"] = (7, 3)
    wheel.standings = {
        "chat-ttft": ControllerSnapshot(state=ControllerState.DEGRADED, level=2, since=0.0)
    }
    wheel.rerouted["chat-ttft", "small"] = 4
    wheel.not_enforced["chat-ttft", "elsewhere"] = 5
    said = page(wheel)

    for line in (
        'thriftgate_objective_good_total{objective="chat-ttft"} 7.0',
        'thriftgate_objective_bad_total{objective="chat-ttft"} 3.0',
        'thriftgate_objective_level{objective="chat-ttft"} 2.0',
        'thriftgate_objective_state{objective="chat-ttft",state="degraded"} 1.0',
        'thriftgate_objective_state{objective="chat-ttft",state="healthy"} 0.0',
        'thriftgate_fallback_calls_total{level="small",objective="chat-ttft"} 4.0',
        'thriftgate_unenforced_fallback_calls_total{level="elsewhere",objective="chat-ttft"} 5.0',
    ):
        assert line in said
