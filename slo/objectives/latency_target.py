"""The tightest latency limits that a call's objectives set; schedulers of engines get them."""

from collections.abc import Iterable
from typing import Final

import msgspec

from slo.budgets.stages import Stage
from slo.objectives.objective import Metric, Objective

_LIMITED: Final = frozenset({Metric.TTFT, Metric.TOTAL, Metric.DECODE})


class LatencyTarget(msgspec.Struct, frozen=True, kw_only=True):
    """The tightest limits, in seconds since the call's arrival; None where nothing is limited.

    Attributes:
        objective: Name of the objective with the tightest limit.
        queue_and_prefill: Limit of an engine until the first token; None without such budgets.
        decode: Limit of an engine from the first token to the last.
    """

    objective: str
    ttft: float | None = None
    total: float | None = None
    queue_and_prefill: float | None = None
    decode: float | None = None


def latency_target(objectives: Iterable[Objective]) -> LatencyTarget | None:
    """The tightest latency limits of these objectives; None where none limits a latency."""
    limits: dict[Metric, float] = {}
    tightest: tuple[float, str] | None = None
    engine: list[float] = []
    for objective in objectives:
        if objective.metric not in _LIMITED or objective.under is None:
            continue
        limits[objective.metric] = min(
            objective.under, limits.get(objective.metric, objective.under)
        )
        if tightest is None or objective.under < tightest[0]:
            tightest = objective.under, objective.name
        budgets = {budget.stage: budget.under for budget in objective.stages}
        if Stage.QUEUE in budgets and Stage.PREFILL in budgets:
            engine.append(budgets[Stage.QUEUE] + budgets[Stage.PREFILL])
        if Stage.DECODE in budgets:
            decode = budgets[Stage.DECODE]
            limits[Metric.DECODE] = min(decode, limits.get(Metric.DECODE, decode))
    if tightest is None:
        return None
    return LatencyTarget(
        objective=tightest[1],
        ttft=limits.get(Metric.TTFT),
        total=limits.get(Metric.TOTAL),
        queue_and_prefill=min(engine, default=None),
        decode=limits.get(Metric.DECODE),
    )
