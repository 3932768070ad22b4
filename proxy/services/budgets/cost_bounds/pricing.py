"""Prices an attempt before it is sent; pure."""

import msgspec

from proxy.calls.eligibility.output_limits import OutputAllowance
from proxy.catalog.entries import Route
from slo.budgets.budget import BudgetUnit
from slo.budgets.reservation_sizing import OutputBounds, PriceQuote, UsageBounds, usage_bounds
from slo.price import call_cost
from slo.usage import Usage


class Prediction(msgspec.Struct, frozen=True, kw_only=True):
    """The predicted use of an attempt before it is sent.

    Attributes:
        tokens: Of its prompt.
        cached: Number of them that its cache should hold.
        allowance: Most output it may generate.
        output: Output it will generate, all choices together.
        usual: Most that nine of ten such calls generate; None where little is learned.
    """

    tokens: int
    cached: int = 0
    allowance: OutputAllowance
    output: OutputBounds
    usual: int | None = None
    quote: PriceQuote


class AttemptPrice(msgspec.Struct, frozen=True):
    """The price of a prompt and its answer.

    Attributes:
        prompt: As it will be billed.
        need: In nano-dollars.
    """

    prompt: Usage
    quote: PriceQuote
    need: UsageBounds

    def cost_with(self, generated: int) -> int:
        """Nano-dollars with so many tokens generated; it never falls."""
        tariff = self.quote.tariff
        usage = msgspec.structs.replace(self.prompt, output=generated)
        paid = (
            call_cost(usage, tariff, self.quote.at, self.quote.terms)
            if tariff is not None
            else None
        )
        return paid.effective_nanos if paid is not None else self.need.worst


class Alternative(msgspec.Struct, frozen=True):
    """A model that would do, and what the call may cost there, in nano-dollars."""

    model: str
    nanos: int


def served_model(route: Route) -> str:
    """The public name of the model that a route serves; "" for the route of all else."""
    return route.name.partition("/")[2].partition("#")[0]


def dearest_prompt(tokens: int, route: Route, body: bytes, cached: int = 0) -> Usage:
    """A prompt of so many tokens in the dearest way its provider may bill it.

    What may be written to its cache is taken to be.

    Args:
        body: As it is sent.
        cached: Number of them that are read from the cache.
    """
    rest = tokens - cached
    if route.regime == "openai-breakpoint":
        return Usage(cache_read=cached, write_30m=rest)
    if route.regime == "anthropic-breakpoint" and b'"cache_control"' in body:
        if b'"1h"' in body:
            return Usage(cache_read=cached, write_1h=rest)
        return Usage(cache_read=cached, write_5m=rest)
    return Usage(cache_read=cached, input=rest)


def price_attempt(
    prediction: Prediction, route: Route, body: bytes, *, warm: bool = False
) -> AttemptPrice | None:
    """Prices an attempt; None at an unknown price.

    Args:
        body: As it is sent.
        warm: True if its cache is taken to hold what it should.
    """
    tokens, cached = prediction.tokens, prediction.cached if warm else 0
    for prompt in (dearest_prompt(tokens, route, body, cached), Usage(input=tokens)):
        bounds = usage_bounds(BudgetUnit.USD, prompt, prediction.output, prediction.quote)
        if bounds is not None:
            return AttemptPrice(prompt, prediction.quote, bounds)
    return None
