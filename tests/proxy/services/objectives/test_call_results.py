"""Tests of what objectives are told of an ended call: its stages, and why it fell back."""

from proxy.services.objectives.call_results import (
    fallback_reason,
    levels_by_route,
    load_shed,
    measure_call,
    note_broken_stage,
)
from proxy.services.objectives.objective_state import track_objective
from slo.budgets.stages import Stage, StageBudget, StageMisses
from slo.objectives.objective import Metric
from tests.fakes.call_dependencies import call
from tests.fakes.chaos import two_model_catalog
from tests.fakes.objectives import objective
from tests.fakes.receipts import a_receipt, an_engine_receipt

CALL = call(b'{"model":"m"}')
TRACK = track_objective(
    objective(
        name="chat-ttft",
        metric=Metric.TTFT,
        under=0.5,
        stages=(StageBudget(Stage.QUEUE, 0.1), StageBudget(Stage.PREFILL, 0.3)),
    )
)


def test_an_engine_s_call_has_all_stages_and_a_provider_s_the_gateway_s_alone() -> None:
    engine = measure_call(CALL, an_engine_receipt(2), 5, first_turn=True)
    provider = measure_call(CALL, a_receipt(2), 5, first_turn=True)

    assert engine.phases == {
        Stage.GATEWAY: 0.0004,
        Stage.QUEUE: 0.25,
        Stage.PREFILL: 0.25,
        Stage.DECODE: 0.75,
        Stage.TRANSFER: 0.0625,
    }
    assert provider.phases == {Stage.GATEWAY: 0.0004}


def test_the_fallback_reason_names_the_stage_that_is_late() -> None:
    misses = StageMisses()
    late = measure_call(CALL, an_engine_receipt(1), 5, first_turn=True)
    note_broken_stage(misses, TRACK, late)

    assert fallback_reason(TRACK, 1, misses, is_pinned=False) == (
        "chat-ttft: fallback level 1, queue is late"
    )
    assert fallback_reason(TRACK, 1, misses, is_pinned=True) == (
        "chat-ttft: fallback level 1, pinned"
    )


def test_an_objective_without_stages_names_none() -> None:
    misses, plain = StageMisses(), track_objective(objective(name="plain"))
    late = measure_call(CALL, an_engine_receipt(1), 5, first_turn=True)
    note_broken_stage(misses, plain, late)

    assert fallback_reason(plain, 2, misses, is_pinned=False) == "plain: fallback level 2"
    assert not misses.totals


def test_a_call_that_is_shed_is_told_when_to_come_back() -> None:
    refusal = load_shed(TRACK, is_pinned=False)

    assert (refusal.status, refusal.retry_after) == (429, 30.0)
    assert "`chat-ttft` is missed" in refusal.message


def test_routes_of_the_ladders_models_have_the_first_level_that_names_them() -> None:
    track = track_objective(objective(ladder=("elsewhere", "small", "m", "small")))

    assert levels_by_route(track, two_model_catalog()) == {"small/m": 2, "one/m": 3, "two/m": 3}
