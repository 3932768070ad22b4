"""Evaluates the ceilings of one attempt: its cost here and on other models, and any refusal."""

from collections.abc import Callable
from functools import partial

import msgspec

from proxy.calls.eligibility.output_limits import output_allowance
from proxy.calls.metering.settlement import AttemptInfo
from proxy.catalog.entries import Route
from proxy.errors import CallerError
from proxy.providers.port import PreparedRequest
from proxy.records.receipt import CEILING_REROUTE, dollars
from proxy.services.budgets.cost_bounds import clamps
from proxy.services.budgets.cost_bounds.prediction import Predictor
from proxy.services.budgets.cost_bounds.pricing import (
    AttemptPrice,
    Prediction,
    price_attempt,
    served_model,
)
from proxy.services.budgets.cost_bounds.prompt_bounds import SMALL_BODY_BYTES, text_bound
from proxy.services.budgets.cost_bounds.reservation_requests import is_uncountable
from proxy.services.budgets.refusals import (
    CeilingExcess,
    ceiling_refusal,
    unpriced_refusal,
)
from slo.budgets.ceiling import (
    CallFits,
    Ceiling,
    CeilingDecision,
    CeilingExceeded,
    ClampRange,
    CostPrediction,
    ModelCost,
    decide_ceiling,
    least_output_tokens,
)
from slo.budgets.reservation_sizing import UsageBounds


class CeilingEvaluation:
    """One attempt under its ceilings.

    Attributes:
        worth: Most it may cost; None where unknown.
    """

    def __init__(
        self,
        attempt: AttemptInfo,
        prepared: PreparedRequest,
        route: Route,
        predictor: Predictor,
        spent: int,
    ) -> None:
        self.attempt, self.prepared, self.route = attempt, prepared, route
        self._predictor = predictor
        self._spent = spent
        self._prediction: Prediction | None = None
        self.worth: AttemptPrice | None = None

    def learn(self, prediction: Prediction) -> None:
        """Note what is known of it now."""
        self._prediction = prediction
        self.worth = price_attempt(prediction, self.route, self.prepared.body, warm=True)

    def worst_cost(self) -> int:
        """The most the call may cost; what it has cost so far where its price is unknown."""
        return self._spent + (self.worth.need.worst if self.worth is not None else 0)

    def upper_bound(self) -> int:
        """The most it may cost however wrong the guess at its prompt is, where that is all text."""
        prediction, body = self._prediction, self.prepared.body
        if prediction is None or self.worth is None or len(body) > SMALL_BODY_BYTES:
            return self.worst_cost()
        longest = max(prediction.tokens, text_bound(body, self.route))
        worth = price_attempt(msgspec.structs.replace(prediction, tokens=longest), self.route, body)
        return self._spent + (worth or self.worth).need.worst

    def likely_cost(self, total: int | None = None) -> int | None:
        """The likely cost with so many tokens at most; None where its price is unknown."""
        if self.worth is None or self._prediction is None:
            return None
        length = self._prediction.output.likely
        if total is None or total >= length:
            return self._spent + self.worth.need.likely
        return self._spent + self.worth.cost_with(total)

    def total_tokens(self, choice_tokens: int) -> int:
        """Tokens of all choices, of so many each."""
        return choice_tokens * (
            self._prediction.allowance.choices if self._prediction is not None else 1
        )

    def decide(self, ceiling: Ceiling, fits: Callable[[str], bool]) -> CeilingDecision:
        """Decides the attempt under a ceiling."""
        if self.worth is not None and self.worst_cost() <= ceiling.limit:
            return CallFits()  # as nearly always: no offer is needed
        offer = self._offer(ceiling.limit)
        if offer is None and not is_uncountable(ceiling.unpriced, self.attempt.call, self.route):
            return CeilingExceeded()
        return decide_ceiling(
            ceiling, offer, partial(self._offer_of_model, fits), served_model(self.route)
        )

    def reroute_reason(self, ceiling: Ceiling) -> str:
        """Reason for rerouting the call."""
        what = "its price is unknown"
        if self.worth is not None:
            what = f"it may cost ${dollars(self.worst_cost())}"
        return f"{CEILING_REROUTE}{ceiling.name} of ${dollars(ceiling.limit)} a call, and {what}"

    def refusal(self, ceiling: Ceiling, fits: Callable[[str], bool]) -> CallerError:
        """The refusal of the attempt."""
        offer = self._offer(ceiling.limit)
        if offer is None or self._prediction is None:
            details = {"ceiling": ceiling.name}
            return unpriced_refusal(f"The ceiling `{ceiling.name}`", details, self.route)
        needs = self._prediction.allowance.minimum
        alone = offer.clamp and msgspec.structs.replace(offer.clamp, least=needs)

        def cost_of(need: UsageBounds) -> int | None:
            worst = self._spent + need.worst
            return worst if worst <= ceiling.limit else None

        return ceiling_refusal(
            CeilingExcess(
                ceiling=ceiling,
                predicted=offer.predicted,
                tokens=alone.within(ceiling.limit) if alone else None,
                field=clamps.output_limit_field(self.attempt.call, self.route),
                cheapest=self._predictor.cheapest_alternative(
                    self.attempt, self._prediction.tokens, cost_of, fits, ceiling.cheaper
                ),
            )
        )

    def _offer(self, limit: int) -> ModelCost | None:
        if self.worth is None or self._prediction is None:
            return None
        is_over = self.worst_cost() > limit
        clamp = None
        if is_over and clamps.is_limitable(self.prepared):
            clamp = self._clamp(self._prediction, self.worth)
        return ModelCost(predicted=self._cost_range(self.worth), clamp=clamp)

    def _offer_of_model(self, fits: Callable[[str], bool], name: str) -> ModelCost | None:
        model = self._predictor.model(name)
        if model is None or self._prediction is None or not fits(name):
            return None
        prediction = self._predictor.predict_on_model(self.attempt, self._prediction.tokens, model)
        if prediction is None:
            return None
        worth = price_attempt(prediction, model.routes[0], self.attempt.call.body)
        if worth is None:
            return None
        return ModelCost(predicted=self._cost_range(worth), clamp=self._clamp(prediction, worth))

    def _cost_range(self, worth: AttemptPrice) -> CostPrediction:
        spent, need = self._spent, worth.need
        return CostPrediction(
            sure=spent + need.sure, likely=spent + need.likely, worst=spent + need.worst
        )

    def _clamp(self, prediction: Prediction, worth: AttemptPrice) -> ClampRange:
        """The range in which the output limit can be lowered, from what the caller asked for."""
        call, allowed = self.attempt.call, prediction.allowance
        requested = output_allowance(call.body, call.endpoint, self.route).requested
        least = least_output_tokens(requested, prediction.usual, allowed.choices, allowed.minimum)
        return ClampRange(
            most=allowed.per_choice,
            least=least,
            price=lambda tokens: self._spent + worth.cost_with(tokens * allowed.choices),
        )
