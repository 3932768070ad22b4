"""Predicts an attempt's usage and cost before it is sent.

A prompt is counted once for each call and model, however many budgets and ceilings ask.
"""

from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from itertools import chain
from operator import attrgetter
from typing import Final
from weakref import ReferenceType, ref

import msgspec

from proxy.calls.eligibility.output_limits import output_allowance, prepared_endpoint
from proxy.calls.metering.settlement import AttemptInfo, billing_terms
from proxy.calls.ports import Estimator
from proxy.catalog.catalog import Catalog
from proxy.catalog.entries import Model, Route
from proxy.prefix.planned import Passthrough
from proxy.providers.port import PreparedRequest
from proxy.records.receipt import Outcome, Receipt
from proxy.services.budgets.cost_bounds.answer_lengths import (
    AnswerLengths,
    LengthKey,
    length_key,
)
from proxy.services.budgets.cost_bounds.pricing import (
    Alternative,
    Prediction,
    price_attempt,
    served_model,
)
from proxy.services.budgets.cost_bounds.prompt_bounds import SMALL_BODY_BYTES
from slo.budgets.reservation_sizing import PriceQuote, UsageBounds
from slo.price import Tariff

#: Calls under way of which something is remembered.
_MAX_CALLS: Final = 20_000
#: Models looked at for a cheaper one.
_MAX_MODELS: Final = 64


class _Kind(msgspec.Struct):
    """The key by which attempts of like length are grouped.

    Attributes:
        requested: Tokens it might have generated as it was asked for.
        sent: Tokens it may generate as it is sent.
    """

    name: LengthKey
    requested: int
    sent: int


class _Known(msgspec.Struct):
    """State remembered of a call under way.

    Attributes:
        tokens: Its prompt's, by model and by the bytes it is sent in: it may be sent shorter.
    """

    tokens: dict[tuple[str, int], int] = msgspec.field(default_factory=dict)
    kinds: dict[int, _Kind] = msgspec.field(default_factory=dict)
    last: "_Last | None" = None


class _Last(msgspec.Struct, frozen=True):
    """A prediction, and of what; it serves a call's ceilings and its budgets.

    Attributes:
        prepared: Its request, whose body it does not keep alive.
    """

    number: int
    prepared: "ReferenceType[PreparedRequest]"
    route: Route
    prediction: Prediction

    def is_of(self, attempt: AttemptInfo, prepared: PreparedRequest, route: Route) -> bool:
        """True if it is of this very request."""
        is_same = self.prepared() is prepared and self.route is route
        return is_same and self.number == attempt.number


class Predictor:
    """Predicts for the calls of one process.

    Args:
        catalog: The models there are; None where no other model is to be told of.
        tariff: Returns a route's prices; None for those of the catalog alone.

    Attributes:
        lengths: Lengths of answers, which it learns from receipts.
    """

    def __init__(
        self,
        estimator: Estimator,
        catalog: Catalog | None = None,
        tariff: Callable[[Route], Tariff | None] | None = None,
    ) -> None:
        self._tariff = tariff or attrgetter("tariff")
        self._estimator = estimator
        self._catalog = catalog
        self.lengths = AnswerLengths()
        self._calls: OrderedDict[str, _Known] = OrderedDict()
        self._siblings: dict[str, tuple[Model, ...]] = {}

    def update(self, catalog: Catalog) -> None:
        """Predict by another catalog from now on; what was learned of lengths stays."""
        self._catalog = catalog
        self._siblings.clear()

    async def predict(
        self,
        attempt: AttemptInfo,
        prepared: PreparedRequest,
        route: Route,
        *,
        exactly: bool = False,
    ) -> Prediction:
        """Predicts what the attempt may use and cost.

        Args:
            exactly: True if the tokens of a small prompt are counted, too.
        """
        call = attempt.call
        state, model = self._call_state(call.id), route.model or call.model
        last = state.last
        if last is not None and not exactly and last.is_of(attempt, prepared, route):
            return last.prediction
        tokens = self._guess(attempt, model, state, exactly=exactly)
        if tokens is None:
            tokens = (await self._estimator.usage(call, route, None)).prompt_tokens
            state.tokens[model, len(call.body)] = tokens
        allowed = output_allowance(prepared.body, prepared_endpoint(prepared), route)
        kind = _kind(attempt, route, allowed.total, state)
        kind.sent = allowed.total
        prediction = Prediction(
            tokens=tokens,
            cached=_cached_tokens(attempt, tokens),
            allowance=allowed,
            output=self.lengths.predict(kind.name, allowed.total),
            usual=self.lengths.usual(kind.name, allowed.total) if exactly else None,
            quote=PriceQuote(
                tariff=self._tariff(route), at=call.arrived, terms=billing_terms(attempt, "", {})
            ),
        )
        state.last = _Last(attempt.number, ref(prepared), route, prediction)
        return prediction

    def record_clamp(self, attempt: AttemptInfo, total: int) -> None:
        """Note that the attempt was clamped to so many tokens, all its choices together."""
        kind = self._call_state(attempt.call.id).kinds.get(attempt.number)
        if kind is not None:
            kind.sent = total

    def predict_on_model(
        self, attempt: AttemptInfo, tokens: int, model: Model
    ) -> Prediction | None:
        """Predicts the call on a model's first route; None where its prompt is too long.

        Args:
            attempt: The call's, on the route it is to leave.
            tokens: Of its prompt.
        """
        call, route = attempt.call, model.routes[0]
        if route.window is not None and tokens > route.window:
            return None
        allowed = output_allowance(call.body, call.endpoint, route)
        kind = length_key(
            call.key.team, call.feature, served_model(route) or model.id, allowed.total
        )
        moved = msgspec.structs.replace(attempt, route=route)
        return Prediction(
            tokens=tokens,
            allowance=allowed,
            output=self.lengths.predict(kind, allowed.total),
            usual=self.lengths.usual(kind, allowed.total),
            quote=PriceQuote(
                tariff=self._tariff(route), at=call.arrived, terms=billing_terms(moved, "", {})
            ),
        )

    def model(self, name: str) -> Model | None:
        """The model of this public name; None where the catalog has none."""
        return self._catalog.find(name) if self._catalog is not None else None

    def cheapest_alternative(
        self,
        attempt: AttemptInfo,
        tokens: int,
        cost_of: Callable[[UsageBounds], int | None],
        fits: Callable[[str], bool] = lambda _: True,
        other_names: Iterable[str] = (),
    ) -> Alternative | None:
        """The cheapest model of the same provider that would do; None where none is known.

        Args:
            attempt: The call's, on the route that is too dear.
            tokens: Of its prompt.
            cost_of: Returns the part of its possible cost that counts; None where that is too much.
            fits: Returns True if the model of this name can take the call.
            other_names: Names of models to look at besides, of whatever provider.
        """
        best: Alternative | None = None
        named = (self.model(name) for name in other_names)
        for model in chain(self._models_of_same_provider(attempt), filter(None, named)):
            estimate = self.predict_on_model(attempt, tokens, model)
            worth = (
                price_attempt(estimate, model.routes[0], attempt.call.body) if estimate else None
            )
            nanos = cost_of(worth.need) if worth is not None else None
            if nanos is not None and (best is None or nanos < best.nanos) and fits(model.id):
                best = Alternative(model.id, nanos)
        return best

    def learn(self, receipt: Receipt) -> None:
        """Learn from a receipt, once however often it comes."""
        state = self._calls.get(receipt.call_id)
        if state is None:
            return
        kind = state.kinds.pop(receipt.attempt, None)
        if receipt.final:
            del self._calls[receipt.call_id]
        usage = receipt.usage
        if kind is None or usage is None or receipt.estimated:
            return
        if receipt.outcome is Outcome.ANSWERED:
            # What was cut off by a clamp is taken to be as long as it might have been.
            is_cut = usage.generated_tokens >= kind.sent < kind.requested
            length = kind.requested if is_cut else usage.generated_tokens
            self.lengths.add(kind.name, length)

    def _call_state(self, call_id: str) -> _Known:
        state = self._calls.get(call_id)
        if state is None:
            state = self._calls[call_id] = _Known()
            if len(self._calls) > _MAX_CALLS:
                self._calls.popitem(last=False)
        return state

    def _guess(
        self, attempt: AttemptInfo, model: str, state: _Known, *, exactly: bool
    ) -> int | None:
        """Tokens that the prompt is likely to have, told at once; None where not well enough.

        A small body has a fourth of its bytes, half of them where it holds more than ASCII.
        """
        body = attempt.call.body
        counted = state.tokens.get((model, len(body)))
        if counted is not None:
            return counted
        if exactly or len(body) > SMALL_BODY_BYTES:
            return None
        return -(-len(body) // (4 if body.isascii() else 2))

    def _models_of_same_provider(self, attempt: AttemptInfo) -> list[Model]:
        """Models of the provider, but for the one that is asked and those that are retired."""
        call, route = attempt.call, attempt.route
        if route is None or self._catalog is None or call.endpoint == "embeddings":
            return []  # other embeddings mean something else
        provider = route.upstream.provider
        if provider not in self._siblings:
            self._siblings[provider] = _of_provider(self._catalog.models, provider)
        today = datetime.fromtimestamp(call.arrived, UTC).date()
        excluded = {call.model, served_model(route)}
        return [
            model
            for model in self._siblings[provider]
            if model.id not in excluded and (model.retires is None or model.retires > today)
        ]


def _kind(attempt: AttemptInfo, route: Route, limit: int, state: _Known) -> _Kind:
    """The attempt's kind, which is that of its first request to a model."""
    call, model = attempt.call, served_model(route) or attempt.call.model
    kind = state.kinds.get(attempt.number)
    if kind is None or kind.name[2] != model:
        name = length_key(call.key.team, call.feature, model, limit)
        kind = state.kinds[attempt.number] = _Kind(name, limit, limit)
    return kind


def _cached_tokens(attempt: AttemptInfo, tokens: int) -> int:
    """Tokens of the prompt that its cache should hold; 0 where unknown."""
    if isinstance(attempt.planned, Passthrough) or not tokens:
        return 0
    return min(attempt.planned.evidence.expected.rescale(tokens).tokens, tokens)


def _of_provider(models: Mapping[str, Model], provider: str) -> tuple[Model, ...]:
    """The provider's models, by their first routes; not more than are looked at."""
    candidates = (
        model
        for model in models.values()
        if model.routes[0].upstream.provider == provider and _generates(model)
    )
    return (
        tuple(model for model, _ in zip(candidates, range(_MAX_MODELS), strict=False))
        if provider
        else ()
    )


def _generates(model: Model) -> bool:
    """True if it may have an output: where that costs nothing and prompts do, it gives vectors."""
    tariff = model.routes[0].tariff
    sheet = tariff.periods[-1].sheets.get("") if tariff is not None and tariff.periods else None
    return sheet is None or sheet.rates.output != 0 or not sheet.rates.input
