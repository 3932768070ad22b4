"""Calls whose answers by two models are graded, as the rule for small models would have sent them.

The rule is the live one, with its defaults and a fixed seed. Grades stand for a judge who says the
same in both orders, so its error is taken to be small once that was seen often; errors in the
grades themselves are not known here. Both models are priced without a prompt cache.
"""

from collections.abc import Callable, Iterable
from random import Random
from typing import Final

import msgspec

from proxy.catalog.entries import Model, Route
from proxy.fast_path.small_first.judge_channel import Verdict, estimate_error
from proxy.fast_path.small_first.loss_control import LossControl, LossPromise, new_control
from proxy.services.fast_path.small_first import traits_of_call
from proxy.tools.replay.planning import recorded_as_call
from proxy.tools.replay.recorded_call import RecordedCall
from slo.policies.small_first import SmallFirst
from slo.price import call_cost
from slo.usage import Usage

_DEFAULTS: Final = SmallFirst(name="")
_SEED: Final = 7
_UPDATE_ERROR_EVERY: Final = 25
#: Tokens that a judge says, in each of both orders.
_VERDICT_TOKENS: Final = 10
_ORDERS: Final = 2
_PairKey = tuple[str, str]


class GradedTotals(msgspec.Struct, kw_only=True):
    """The graded calls of one pair of models.

    Attributes:
        large: Public name of the model that was asked for.
        small_calls: Calls that would have gone to the small model.
        compared_calls: Calls whose two answers would have been compared.
        lost: Answers that the large model alone has right, less those that the small one has, of
            the calls that would have gone small.
        proved_loss: The bound on that at the end, as a share of all calls.
        nanos: Savings in nano-dollars, comparisons taken off; None where a price is unknown.
        always_lost: The same as ``lost``, had every call gone to the small model.
        always_nanos: Savings, had every call gone there, and none been compared.
    """

    large: str
    small: str
    calls: int = 0
    small_calls: int = 0
    compared_calls: int = 0
    lost: int = 0
    proved_loss: float = 0.0
    nanos: int | None = 0
    always_lost: int = 0
    always_nanos: int | None = 0


class GradedAnswers:
    """Sends graded calls by the rule, in the order of their times.

    Args:
        find_model: The catalog's model of a name.
        day: The day whose prices are valid, in seconds since the epoch.
    """

    def __init__(self, find_model: Callable[[str], Model | None], day: float) -> None:
        self._find_model = find_model
        self._day = day
        self._draw = Random(_SEED).random  # noqa: S311 - the same result each time
        self._pairs: dict[_PairKey, tuple[LossControl, GradedTotals]] = {}

    def totals(self) -> tuple[GradedTotals, ...]:
        """The totals of each pair of models, those of most calls first."""
        for control, totals in self._pairs.values():
            totals.proved_loss = control.proved_loss()
        every = (totals for _, totals in self._pairs.values())
        return tuple(sorted(every, key=lambda totals: -totals.calls))

    def add(self, line: RecordedCall, large: Model, usage: Usage, now: float) -> None:
        """Add a call; one without grades of its own model and of a cheaper one is passed over.

        Args:
            large: The model that it is replayed as.
            usage: Its tokens.
        """
        grades = self._known_grades(line)
        small = self._cheapest(grades.keys() - {large.id}, large, usage)
        if large.id not in grades or small is None:
            return
        control, totals = self._pair(large.id, small)
        verdict = Verdict(_sign(grades[large.id] - grades[small]))
        traits = traits_of_call(recorded_as_call(line, now))
        call_id = str(totals.calls)
        decided = control.decide(call_id, line.feature, traits, (self._draw(), self._draw()))
        if decided.is_judged:
            control.record_verdict(call_id, verdict)
            if control.judged % _UPDATE_ERROR_EVERY == 0:
                agreed = control.judged
                control.update_error(estimate_error(agreed, agreed, _DEFAULTS.judge_error))
        saved = _difference(self._cost(large.id, usage), self._cost(small, usage))
        other = large.id if decided.is_small else small
        totals.calls += 1
        totals.always_lost += verdict
        totals.always_nanos = _sum(totals.always_nanos, saved)
        if decided.is_small:
            totals.small_calls += 1
            totals.lost += verdict
            totals.nanos = _sum(totals.nanos, saved)
        if decided.is_judged:
            totals.compared_calls += 1
            paid = self._comparison_cost(large.id, other, usage)
            totals.nanos = _difference(totals.nanos, paid)

    def _known_grades(self, line: RecordedCall) -> dict[str, float]:
        """The grades by model, of those that the catalog has."""
        models = ((self._find_model(name), grade) for name, grade in line.grades)
        return {model.id: grade for model, grade in models if model is not None}

    def _cheapest(self, names: Iterable[str], large: Model, usage: Usage) -> str | None:
        """The cheapest of the models, those of unknown price last; None where all are dearer."""
        costs = [(self._cost(name, usage), name) for name in names]
        own = self._cost(large.id, usage)
        cheaper = [
            (cost is None, cost or 0, name)
            for cost, name in costs
            if cost is None or own is None or cost < own
        ]
        return min(cheaper)[-1] if cheaper else None

    def _pair(self, large: str, small: str) -> tuple[LossControl, GradedTotals]:
        pair = self._pairs.get((large, small))
        if pair is None:
            promise = LossPromise(
                max_loss=_DEFAULTS.max_loss,
                judged_share=_DEFAULTS.judged_share,
                error=estimate_error(0, 0, _DEFAULTS.judge_error),
            )
            pair = new_control(promise), GradedTotals(large=large, small=small)
            self._pairs[large, small] = pair
        return pair

    def _comparison_cost(self, judge: str, other: str, usage: Usage) -> int | None:
        """The other model's answer, and the judge's verdict on both answers in both orders."""
        read = Usage(input=usage.prompt_tokens + 2 * usage.generated_tokens, output=_VERDICT_TOKENS)
        verdict = self._cost(judge, read)
        verdicts = None if verdict is None else _ORDERS * verdict
        return _sum(self._cost(other, usage), verdicts)

    def _cost(self, name: str, usage: Usage) -> int | None:
        model = self._find_model(name)
        return None if model is None else _route_cost(model.routes[0], usage, self._day)


def _route_cost(route: Route, usage: Usage, day: float) -> int | None:
    cost = call_cost(usage, route.tariff, day) if route.tariff is not None else None
    return None if cost is None else cost.effective_nanos


def _sum(nanos: int | None, more: int | None) -> int | None:
    return None if nanos is None or more is None else nanos + more


def _difference(nanos: int | None, less: int | None) -> int | None:
    return None if nanos is None or less is None else nanos - less


def _sign(number: float) -> int:
    return (number > 0) - (number < 0)
