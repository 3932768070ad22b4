"""Cost ceilings in a running gateway: checks a call's cost before it is sent, records it after.

::

    checked ─┬─ Admitted ── as it is, or with a lower output limit and a note
             ├─ Elsewhere ── the same call fits on another model, where it is checked again
             └─ CallerError

What is predicted takes the prompt's tokens, what its cache should hold, the lengths learned of such
answers, and what the call's earlier attempts cost. A small prompt is counted only where it may
not fit: its length in bytes bounds its tokens.
"""

from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final, TypeAlias

import msgspec
from prometheus_client import Metric
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from proxy.calls.eligibility.output_limits import decode_once, with_output_limit
from proxy.calls.eligibility.retry_policy import GENERATING_ENDPOINTS
from proxy.calls.metering.settlement import AttemptInfo
from proxy.calls.ports import Admitted, CheaperRoute
from proxy.catalog.entries import Route
from proxy.providers.port import PreparedRequest
from proxy.records.call import Call
from proxy.records.receipt import Receipt, dollars
from proxy.services.budgets.ceiling_evaluation import CeilingEvaluation
from proxy.services.budgets.cost_bounds import clamps
from proxy.services.budgets.cost_bounds.prediction import Predictor
from slo.budgets.ceiling import (
    CallFits,
    Ceiling,
    CeilingDecision,
    CeilingExceeded,
    CeilingRefused,
    CheaperModel,
    OutputClamped,
    PredictionAccuracy,
)

#: Teams' features of which it is remembered which ceilings they have.
_MAX_FEATURES: Final = 4096
#: Calls under way of which it is remembered what they were to cost.
_MAX_CALLS: Final = 20_000
_QUANTILES: Final = (0.5, 0.95, 0.99)
_DECISIONS: Final = (CallFits, OutputClamped, CheaperModel, CeilingRefused, CeilingExceeded)
#: The metric's label of each decision.
_DECISION_LABELS: Final[Mapping[type[CeilingDecision], str]] = {
    CallFits: "fits",
    OutputClamped: "clamped",
    CheaperModel: "cheaper",
    CeilingRefused: "refused",
    CeilingExceeded: "exceeds",
}


CeilingCounts: TypeAlias = tuple[Ceiling, Sequence[tuple[str, int]]]
"""A ceiling, and decisions by name, each with its number."""


class _Open(msgspec.Struct):
    """A call under way.

    Attributes:
        predicted: Likely cost in all; None where unknown.
        spent: Cost of its attempts; None where unknown.
        has_used: True if one of them used anything.
    """

    ceilings: tuple[Ceiling, ...]
    predicted: int | None = None
    spent: int | None = 0
    has_used: bool = False


class CostCeilings(Collector):
    """Keeps the calls of one process below their ceilings."""

    def __init__(self, ceilings: Iterable[Ceiling], predictor: Predictor) -> None:
        self._predictor = predictor
        self._ceilings: tuple[Ceiling, ...] = ()
        self._applying: dict[tuple[str, str], tuple[Ceiling, ...]] = {}
        self._open: OrderedDict[str, _Open] = OrderedDict()
        self._accuracy: dict[str, PredictionAccuracy] = {}
        self._decisions: Counter[tuple[str, type[CeilingDecision]]] = Counter()
        self.update(ceilings)

    def update(self, ceilings: Iterable[Ceiling]) -> None:
        """Keep calls below these from now on; what was counted of those that stay goes on."""
        resolved = (_resolve_models(ceiling, self._predictor) for ceiling in ceilings)
        self._ceilings = tuple(sorted(resolved, key=lambda ceiling: ceiling.limit))
        self._applying.clear()
        self._accuracy = {
            ceiling.name: self._accuracy.get(ceiling.name) or PredictionAccuracy()
            for ceiling in self._ceilings
        }

    async def check(
        self, attempt: AttemptInfo, prepared: PreparedRequest, fits: Callable[[str], bool]
    ) -> Admitted | CheaperRoute:
        """The request as it may be sent, or where the call fits.

        Args:
            fits: Returns True if the model of this name can take the call, whatever it costs.

        Raises:
            CallerError: It may cost too much, or its price is unknown, and its ceiling refuses
                such calls.
        """
        call, route = attempt.call, attempt.route
        ceilings = self._applying.get((call.key.team_name, call.feature))
        if ceilings is None:
            ceilings = self._find_ceilings(call)
        if not ceilings or route is None or call.method != "POST":
            return Admitted(prepared)
        opened = self._open_call(call, ceilings)
        with decode_once(prepared.body, call.body):
            case = await self._evaluate(attempt, prepared, route, opened)
            return self._decide(case, fits, opened)

    def record_cost(self, receipt: Receipt) -> None:
        """Note what an attempt cost, and with a call's last how well that was foreseen."""
        self._predictor.learn(receipt)
        opened = self._open.get(receipt.call_id)
        if opened is None:
            return
        if receipt.usage is not None:
            opened.has_used = True
            spent, cost = opened.spent, receipt.cost_nanos
            opened.spent = None if spent is None or cost is None else spent + cost
        if receipt.final:
            del self._open[receipt.call_id]
            if opened.has_used:
                for ceiling in opened.ceilings:
                    if (accuracy := self._accuracy.get(ceiling.name)) is not None:
                        accuracy.record(opened.spent, opened.predicted, ceiling.limit)

    def prediction_accuracy(self, ceiling: str) -> PredictionAccuracy:
        """Prediction accuracy of the calls under the ceiling of this name.

        Raises:
            KeyError: There is none.
        """
        return self._accuracy[ceiling]

    def decision_counts(self) -> Sequence[CeilingCounts]:
        """Each ceiling, and how often each was decided since this process started."""
        return [
            (
                ceiling,
                [
                    (_DECISION_LABELS[kind], self._decisions[ceiling.name, kind])
                    for kind in _DECISIONS
                ],
            )
            for ceiling in self._ceilings
        ]

    def collect(self) -> Iterator[Metric]:
        """Decisions on calls and the accuracy of their predictions, as Prometheus' own types."""
        decisions = CounterMetricFamily(
            "thriftgate_ceiling_decisions",
            "What became of calls under a ceiling before they were sent",
            labels=["ceiling", "decision"],
        )
        calls = CounterMetricFamily(
            "thriftgate_ceiling_calls",
            "Settled calls under a ceiling, by whether they cost no more than it",
            labels=["ceiling", "within"],
        )
        errors = GaugeMetricFamily(
            "thriftgate_ceiling_error_ratio",
            "Settled cost over predicted (what 19 calls of 20 stay at or below), of late calls",
            labels=["ceiling", "percentile"],
        )
        for ceiling, counts in self.decision_counts():
            name, accuracy = ceiling.name, self._accuracy[ceiling.name]
            for label, count in counts:
                decisions.add_metric([name, label], count)
            over = accuracy.calls - accuracy.within
            for label, count in zip(
                ("yes", "no", "unknown"), (accuracy.within, over, accuracy.unpriced), strict=True
            ):
                calls.add_metric([name, label], count)
            for part in _QUANTILES:
                if (error := accuracy.error_quantile(part)) is not None:
                    errors.add_metric([name, f"{100 * part:g}"], error)
        yield from (decisions, calls, errors)

    def _find_ceilings(self, call: Call) -> tuple[Ceiling, ...]:
        """The ceilings that the call is under, the lowest first."""
        whose = (call.key.team_name, call.feature)
        ceilings = tuple(ceiling for ceiling in self._ceilings if ceiling.applies(*whose))
        if len(self._applying) >= _MAX_FEATURES:
            self._applying.clear()  # features are whatever callers say
        self._applying[whose] = ceilings
        return ceilings

    def _open_call(self, call: Call, ceilings: tuple[Ceiling, ...]) -> _Open:
        opened = self._open.get(call.id)
        if opened is None:
            opened = self._open[call.id] = _Open(ceilings)
            if len(self._open) > _MAX_CALLS:
                self._open.popitem(last=False)
        return opened

    async def _evaluate(
        self, attempt: AttemptInfo, prepared: PreparedRequest, route: Route, opened: _Open
    ) -> CeilingEvaluation:
        """Evaluates the attempt by a quick estimate, and exactly where that does not fit."""
        case = CeilingEvaluation(attempt, prepared, route, self._predictor, opened.spent or 0)
        if attempt.call.endpoint not in GENERATING_ENDPOINTS:
            return case
        case.learn(await self._predictor.predict(attempt, prepared, route))
        if case.upper_bound() > opened.ceilings[0].limit:
            case.learn(await self._predictor.predict(attempt, prepared, route, exactly=True))
        return case

    def _decide(
        self, case: CeilingEvaluation, fits: Callable[[str], bool], opened: _Open
    ) -> Admitted | CheaperRoute:
        """Decides the attempt under each of its ceilings, the lowest first.

        Raises:
            CallerError: As ``check``.
        """
        for ceiling in opened.ceilings:
            decision = case.decide(ceiling, fits)
            self._decisions[ceiling.name, type(decision)] += 1
            if isinstance(decision, OutputClamped):
                return self._clamp(ceiling, decision.tokens, case, opened)
            if isinstance(decision, CheaperModel):
                return CheaperRoute(decision.model, case.reroute_reason(ceiling))
            if isinstance(decision, CeilingRefused):
                raise case.refusal(ceiling, fits)
        opened.predicted = case.likely_cost()
        return Admitted(case.prepared)

    def _clamp(
        self, ceiling: Ceiling, tokens: int, case: CeilingEvaluation, opened: _Open
    ) -> Admitted:
        """The request with its output limit lowered, and the note on that."""
        attempt, route = case.attempt, case.route
        field = clamps.output_limit_field(attempt.call, route)
        total = case.total_tokens(tokens)
        self._predictor.record_clamp(attempt, total)
        opened.predicted = case.likely_cost(total)
        return Admitted(
            with_output_limit(case.prepared, route, tokens),
            {"x-thriftgate-clamped": f"{field}={tokens}"},
            (
                clamps.clamp_note(
                    field, tokens, f"{ceiling.name} of ${dollars(ceiling.limit)} a call"
                ),
            ),
        )


def _resolve_models(ceiling: Ceiling, predictor: Predictor) -> Ceiling:
    """The ceiling with the catalog's own names of its models, each once: some name a snapshot."""
    models = ((predictor.model(name), name) for name in ceiling.cheaper)
    names = dict.fromkeys(name if model is None else model.id for model, name in models)
    return msgspec.structs.replace(ceiling, cheaper=tuple(names))
