"""Ceilings and objectives applied to calls that have ended: which would have missed them."""

from collections.abc import Iterable, Mapping

import msgspec

from slo.budgets.ceiling import (
    Ceiling,
    CeilingExceeded,
    CeilingRefused,
    CheaperModel,
    ClampRange,
    CostPrediction,
    ModelCost,
    OutputClamped,
    decide_ceiling,
    least_output_tokens,
)
from slo.objectives.objective import Objective, ObjectiveIndex, classify_call
from slo.price import Tariff, call_cost
from slo.trials.past_call import PastCall, TrialSums
from slo.usage import Usage

_STEP_NAMES = {
    OutputClamped: "clamp",
    CheaperModel: "cheaper",
    CeilingRefused: "refuse",
    CeilingExceeded: "passes",
}


class CeilingTrial(msgspec.Struct, kw_only=True):
    """The outcome of a ceiling's trial.

    Attributes:
        counted: The calls that it is about.
        above: Those that cost more than its limit.
        excess_nanos: Amount by which they did.
        by_step: The same calls by the step taken: ``clamp``, ``cheaper``, ``refuse``, ``passes``.
        unpriced: Calls of unknown price, which are none of those above.
    """

    counted: TrialSums
    above: TrialSums
    excess_nanos: int = 0
    by_step: dict[str, TrialSums]
    unpriced: int = 0


def try_ceiling(
    ceiling: Ceiling, calls: Iterable[PastCall], tariffs: Mapping[str, Tariff]
) -> CeilingTrial:
    """The outcome of a ceiling with calls by what they cost in the end.

    A gateway decides by what a call can cost at most, so it acts on more calls.

    Args:
        tariffs: Prices of models, by public name.
    """
    trial = CeilingTrial(counted=TrialSums(), above=TrialSums(), by_step={})
    for call in calls:
        if not ceiling.applies(call.subject.team, call.subject.feature):
            continue
        trial.counted.add(call)
        if call.cost_nanos is None:
            trial.unpriced += 1
        elif call.cost_nanos > ceiling.limit:
            trial.above.add(call)
            trial.excess_nanos += call.cost_nanos - ceiling.limit
            step = _step(ceiling, call, tariffs)
            trial.by_step.setdefault(step, TrialSums()).add(call)
    return trial


class ObjectiveTrial(msgspec.Struct, kw_only=True):
    """The outcome of an objective's trial.

    Attributes:
        calls: Calls that it is about, and that count.
        good: Good events: calls, or of a cache the input tokens read from it.
        bad: Bad events.
        burn: Share of bad events over the share that the target allows; above 1 the error budget
            burns faster than it may. None without events.
    """

    calls: int = 0
    good: int = 0
    bad: int = 0
    burn: float | None = None


def try_objective(objective: Objective, calls: Iterable[PastCall]) -> ObjectiveTrial:
    """The outcome of an objective with these calls."""
    trial, index = ObjectiveTrial(), ObjectiveIndex([objective])
    for call in calls:
        measured = call.measurements
        if not index.applicable(measured.team, measured.feature, measured.streamed):
            continue
        events = classify_call(objective, measured)
        if events is not None:
            trial.calls += 1
            trial.good += events[0]
            trial.bad += events[1]
    if total := trial.good + trial.bad:
        trial.burn = trial.bad / total / (1 - objective.target)
    return trial


def _step(ceiling: Ceiling, call: PastCall, tariffs: Mapping[str, Tariff]) -> str:
    """The step that a call above the limit meets."""

    def elsewhere(model: str) -> ModelCost | None:
        usage = call.usage
        if usage is None or model not in tariffs:
            return None
        uncached = Usage(input=usage.prompt_tokens, output=usage.generated_tokens)
        cost = call_cost(uncached, tariffs[model], call.arrived)
        return None if cost is None else _model_cost(cost.effective_nanos)

    offer = _model_cost(call.cost_nanos or 0, _clamp_range(call, tariffs.get(call.model)))
    decision = decide_ceiling(ceiling, offer, elsewhere, call.model)
    return _STEP_NAMES[type(decision)]


def _model_cost(nanos: int, clamp: ClampRange | None = None) -> ModelCost:
    return ModelCost(predicted=CostPrediction(sure=nanos, likely=nanos, worst=nanos), clamp=clamp)


def _clamp_range(call: PastCall, tariff: Tariff | None) -> ClampRange | None:
    """The outputs that a call could have been left with; None where prices are unknown."""
    usage, paid = call.usage, call.cost_nanos
    if usage is None or paid is None or tariff is None or not usage.generated_tokens:
        return None
    whole = call_cost(usage, tariff, call.arrived)
    if whole is None:
        return None
    effective = whole.effective_nanos

    def price(tokens: int) -> int:
        shorter = msgspec.structs.replace(usage, output=tokens, reasoning=0)
        cost = call_cost(shorter, tariff, call.arrived)
        return paid if cost is None else paid - (effective - cost.effective_nanos)

    most = usage.generated_tokens
    return ClampRange(most=most, least=least_output_tokens(most, None, 1, 1), price=price)
