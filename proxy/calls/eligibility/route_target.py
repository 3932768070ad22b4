"""The target of a route, as planning sees it."""

from typing import Final

from proxy.caches.outlook import planning_regime
from proxy.catalog.entries import Route
from proxy.prefix.planned import PlanningTarget
from proxy.records.call import MESSAGES
from slo.price import Tariff, TokenRates

#: Providers of OpenAI-type upstreams whose models take system messages anywhere; for others the
#: catalog's trait ``mid_system`` says so.
#: Source: OpenAI API reference, chat completions, messages (2026-11); xAI and DeepSeek likewise.
_ANYWHERE: Final = frozenset({"openai", "azure", "xai", "deepseek"})
_CHAT: Final = "chat/completions"


def route_target(route: Route, model: str, time: float, endpoint: str = _CHAT) -> PlanningTarget:
    """The route's upstream, cache and prices.

    Args:
        model: The model the caller asked for.
    """
    rates = _rates(route.tariff, time)
    upstream = route.upstream
    return PlanningTarget(
        upstream=upstream.name,
        model=route.model or model,
        regime=planning_regime(
            route.regime,
            provider=upstream.provider,
            least=route.min_cache_tokens,
            rates=rates,
            retention=route.prompt_cache_retention,
        ),
        late=(upstream.speaks_messages and endpoint != MESSAGES)
        or upstream.provider in _ANYWHERE
        or "mid_system" in route.traits,
        rates=rates,
    )


def _rates(tariff: Tariff | None, time: float) -> TokenRates | None:
    """The standard rates of a small call; None where they are unknown."""
    period = tariff.period(time) if tariff is not None else None
    sheet = period.sheets.get("") if period is not None else None
    return sheet.rates if sheet is not None else None
