"""Ceilings with fakes around them, and calls to check under them."""

import asyncio
from dataclasses import replace
from typing import Any

from proxy.calls.metering.settlement import AttemptInfo
from proxy.calls.ports import Admitted, CheaperRoute
from proxy.calls.translation.translation import prepare
from proxy.catalog.catalog import Catalog
from proxy.catalog.entries import Model, Route
from proxy.services.budgets.ceilings import CostCeilings
from proxy.services.budgets.cost_bounds.prediction import Predictor
from slo.budgets.ceiling import Ceiling, CeilingStep
from slo.price import PricePeriod, PriceSheet, Tariff, TokenRates
from slo.usage import Usage
from tests.fakes.admission_harness import BODY, NOW
from tests.fakes.call_dependencies import FakeEstimator, call, route
from tests.fakes.receipts import a_receipt

CLAMP, CHEAPER, REFUSE = CeilingStep
#: 11 tokens once it is counted, of $1 a million; 1,000 to generate, of $4.
DEAR = replace(route("one", max_output=4096), name="one/m")
#: What a call on that route may cost at most.
WORST = 11 * 1_000 + 1000 * 4_000
#: A ceiling with room for 500 tokens.
HALF = 11 * 1_000 + 500 * 4_000


def ceiling(limit: int = WORST, **fields: Any) -> Ceiling:
    return Ceiling(**{"name": "c", "limit": limit, **fields})


def model(name: str, nanos: int, **fields: Any) -> Model:
    """A model of the same provider whose every token costs so much."""
    rates = TokenRates(input=nanos * 1_000_000, output=nanos * 1_000_000)
    tariff = Tariff(periods=(PricePeriod(sheets={"": PriceSheet(rates=rates)}),))
    served = route("one", **{"tariff": tariff, **fields})
    return Model(id=name, routes=(replace(served, name=f"one/{name}"),))


class CeilingHarness:
    """Ceilings at work on the calls of one team's feature."""

    def __init__(self, *ceilings: Ceiling, models: tuple[Model, ...] = ()) -> None:
        by_id = {model.id: model for model in (Model(id="m", routes=(DEAR,)), *models)}
        self.catalog = Catalog(models=by_id, upstreams={}, default=route("default", tariff=None))
        self.estimator = FakeEstimator()
        self.predictor = Predictor(self.estimator, self.catalog)
        self.ceilings = CostCeilings(ceilings, self.predictor)

    def attempt(
        self, number: int = 1, body: bytes = BODY, over: Route = DEAR, **fields: Any
    ) -> AttemptInfo:
        started_call = call(body, **{"id": f"call_{number}", "arrived": NOW, **fields})
        return AttemptInfo(call=started_call, route=over)

    def check(self, attempt: AttemptInfo, *unable: str) -> Admitted | CheaperRoute:
        """Return what becomes of an attempt, where these models cannot take it."""
        prepared = prepare(attempt.call, attempt.route or DEAR)
        return asyncio.run(self.ceilings.check(attempt, prepared, lambda name: name not in unable))

    def end(self, number: int, cost: int | None, generated: int = 10, **fields: Any) -> None:
        """Settle a call's attempt."""
        usage = Usage(input=11, output=generated)
        receipt_fields = {
            "call_id": f"call_{number}",
            "attempt": 0,
            "usage": usage,
            "cost_nanos": cost,
        }
        self.ceilings.record_cost(a_receipt(**{**receipt_fields, **fields}))

    def teach(self, *lengths: int) -> None:
        """Let calls be answered at these lengths."""
        for number, length in enumerate(lengths, 1000):
            self.check(self.attempt(number))
            self.end(number, 0, length)

    def figures(self) -> dict[str, float]:
        """Return what Prometheus reads, without what is 0."""
        return {
            f"{sample.name} {' '.join(sample.labels.values())}": sample.value
            for metric in self.ceilings.collect()
            for sample in metric.samples
            if sample.value
        }


def expect_admitted(answer: Admitted | CheaperRoute) -> Admitted:
    """The result of a call that its ceilings let pass."""
    assert isinstance(answer, Admitted)
    return answer
