"""The tightest latency limits of the objectives that a call counts in."""

from typing import Any

import pytest

from slo.budgets.stages import Stage, StageBudget
from slo.objectives.latency_target import latency_target
from slo.objectives.objective import Metric, Objective


def objective(name: str, metric: Metric, under: float | None, **fields: Any) -> Objective:
    return Objective(name=name, metric=metric, target=0.95, under=under, **fields)


def test_the_tightest_of_several_limits_counts_and_its_objective_is_named():
    target = latency_target(
        [
            objective("slow", Metric.TTFT, 2.0),
            objective("fast", Metric.TTFT, 0.5),
            objective("whole", Metric.TOTAL, 30.0),
        ]
    )

    assert target is not None
    assert (target.objective, target.ttft, target.total) == ("fast", 0.5, 30.0)
    assert (target.queue_and_prefill, target.decode) == (None, None)


def test_budgets_of_stages_limit_an_engine_once_queue_and_prefill_are_both_known():
    queue, prefill = StageBudget(Stage.QUEUE, 0.1), StageBudget(Stage.PREFILL, 0.3)
    decode = StageBudget(Stage.DECODE, 5.0)
    both = latency_target([objective("a", Metric.TTFT, 1.0, stages=(queue, prefill))])
    one = latency_target([objective("a", Metric.TOTAL, 9.0, stages=(queue, decode))])

    assert both is not None
    assert one is not None
    assert both.queue_and_prefill == pytest.approx(0.4)
    assert (one.queue_and_prefill, one.decode) == (None, 5.0)


def test_objectives_for_decode_itself_count_like_a_budget_for_it():
    target = latency_target(
        [
            objective("a", Metric.DECODE, 4.0),
            objective("b", Metric.TOTAL, 9.0, stages=(StageBudget(Stage.DECODE, 6.0),)),
        ]
    )

    assert target is not None
    assert target.decode == 4.0


@pytest.mark.parametrize("metric", [Metric.ERRORS, Metric.COST, Metric.CACHE])
def test_objectives_that_limit_no_latency_make_no_target(metric: Metric):
    assert latency_target([objective("a", metric, None)]) is None
    assert latency_target([]) is None
