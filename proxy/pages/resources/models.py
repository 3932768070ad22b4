"""``/api/v1/models`` and ``/api/v1/engines``: the catalog in force with its prices, and engines."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from dashboards.access import Action, Viewer
from proxy.catalog.catalog import Catalog
from proxy.catalog.entries import Model, Route
from proxy.engines.state.traffic_file import (
    EngineTraffic,
    ReplicaTraffic,
    SpeculationReport,
    WarmingReport,
    read_traffic,
)
from proxy.pages.resources.api import Resource
from proxy.pages.viewing import Clock, SignedIn, check_allowed, route, view_of

#: Obstacle of a route whose upstream lacks its key.
NO_KEY: Final = "no key"
#: Rates of a route that are shown, by their name in the answer.
_RATES: Final = ("input", "cache_read", "output")
#: Rates of cache writes, by the time that they are kept.
_WRITES: Final = {
    "5 min": "write_5m",
    "30 min": "write_30m",
    "1 h": "write_1h",
    "12 h": "write_12h",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class RouteView:
    """A route of a model, with the standard prices of now.

    Attributes:
        provider: The upstream's provider; "" where it was not given.
        is_priced: False where no price is known.
        price_source: ``shipped``, ``own`` for prices of the operator's file, or ``assumed``; ""
            without prices.
        assumed_price_of: Predecessor whose prices are assumed; "" for none.
        since: Day from which the prices hold, in seconds since the epoch; null for always.
        until: Day on which they end and others follow; null for none known.
        input: Nano-dollars per million input tokens; null where unknown, as the other rates.
        cache_read: The same of tokens read from a cache.
        cache_writes: The same of tokens written to a cache, by how long they are kept.
        output: The same of generated tokens.
        discount: Contracted part that is taken off, 0 to 1.
        window: Most prompt tokens; null where unknown.
        cache: Name of the cache's rules; "" where unknown.
        can_answer: True if it has its key, is in service and is not failing now.
        obstacle: Reason why not; "" for none.
    """

    name: str
    upstream: str
    provider: str
    is_priced: bool
    price_source: str
    assumed_price_of: str
    since: float | None
    until: float | None
    input: int | None
    cache_read: int | None
    cache_writes: Mapping[str, int]
    output: int | None
    discount: float
    window: int | None
    cache: str
    can_answer: bool
    obstacle: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelView:
    """A model and its routes, in the order they are tried.

    Attributes:
        fallbacks: Models that answer in its place when all its routes fail.
        retires: Day on which its provider stops serving it, such as ``2027-01-31``; "" for none.
    """

    id: str
    routes: Sequence[RouteView]
    fallbacks: Sequence[str]
    retires: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaView:
    """A replica of a self-hosted engine as one gateway sees it; null for what is unknown.

    Attributes:
        gateway: Process id of the gateway.
        is_healthy: True if calls go there.
        reason: Reason why not; "" for none.
        running: Calls in its batch.
        waiting: Calls in its queue.
        kv_usage: Part of its KV cache in use, 0 to 1.
        calls_in_flight: Calls that this gateway has there.
        prompt_tokens: Prompt tokens of calls that were sent there.
        available: Those that one cache of all replicas would have had.
        captured: Those that the replica was thought to hold.
        delivered: Those that it read from its cache.
    """

    gateway: int
    name: str
    profile: str
    model: str
    is_healthy: bool
    reason: str
    running: float | None
    waiting: float | None
    kv_usage: float | None
    calls_in_flight: int
    prompt_tokens: int
    available: int
    captured: int
    delivered: int


@dataclass(frozen=True, slots=True, kw_only=True)
class WarmingView(WarmingReport):
    """Prompts of one kind that one gateway had engines read ahead, and what calls gained.

    Attributes:
        gateway: Process id of the gateway.
    """

    gateway: int


@dataclass(eq=False)
class ModelsResource(Resource):
    """Models and engines as viewers see them.

    Args:
        obstacle: Reason that a route cannot answer now; "" for none.
        folder: The data folder, where gateways say what their engines do.
    """

    tag = "models"

    _catalog: Callable[[], Catalog]
    _obstacle: Callable[[Route], str]
    _folder: Path
    _now: Clock

    @route("GET", "/models", name="list_models")
    async def models(self, viewer: SignedIn) -> Sequence[ModelView]:
        """Models with their routes and the standard prices of now."""
        check_allowed(viewer, Action.SEE_COSTS)
        now = self._now()
        sees_variables = viewer.may(Action.CHANGE_CONFIGURATION)
        return [
            self._model(model, now, sees_variables=sees_variables)
            for model in self._catalog().models.values()
        ]

    @route("GET", "/engines", name="list_engines")
    async def engines(self, viewer: SignedIn) -> Sequence[ReplicaView]:
        """Replicas of self-hosted engines."""
        gateways = await self._traffic(viewer)
        return [
            _replica(gateway.pid, replica) for gateway in gateways for replica in gateway.replicas
        ]

    @route("GET", "/engines/warming", name="list_warming")
    async def warming(self, viewer: SignedIn) -> Sequence[WarmingView]:
        """Prompts that engines read ahead, their cost, and what calls gained."""
        return [
            WarmingView(gateway=gateway.pid, **asdict(report))
            for gateway in await self._traffic(viewer)
            for report in gateway.warming
        ]

    @route("GET", "/engines/speculation", name="list_speculation")
    async def speculation(self, viewer: SignedIn) -> Sequence[SpeculationReport]:
        """Advice on speculation by profile: acceptance, speed-ups, the recommended setting."""
        by_profile = {
            report.profile: report  # all gateways of a data folder have the same one
            for gateway in await self._traffic(viewer)
            for report in gateway.speculation
        }
        return [report for _, report in sorted(by_profile.items())]

    async def _traffic(self, viewer: Viewer) -> Sequence[EngineTraffic]:
        """The engines' traffic, as the gateways of this data folder see it."""
        check_allowed(viewer, Action.SEE_OPERATIONS)
        return await asyncio.to_thread(read_traffic, self._folder, self._now())

    def _model(self, model: Model, now: float, *, sees_variables: bool) -> ModelView:
        return ModelView(
            id=model.id,
            routes=[
                self._route(route, now, sees_variables=sees_variables) for route in model.routes
            ],
            fallbacks=model.fallbacks,
            retires="" if model.retires is None else model.retires.isoformat(),
        )

    def _route(self, route: Route, now: float, *, sees_variables: bool) -> RouteView:
        period = None if route.tariff is None else route.tariff.period(now)
        sheet = None if period is None else period.sheets.get("")
        obstacle = self._obstacle(route)
        if obstacle == NO_KEY and route.upstream.key_env and sees_variables:
            obstacle = f"{NO_KEY}: set {route.upstream.key_env}"
        rates = {name: None if sheet is None else getattr(sheet.rates, name) for name in _RATES}
        return RouteView(
            name=route.name,
            upstream=route.upstream.name,
            provider=route.upstream.provider,
            is_priced=sheet is not None,
            price_source=_price_source(route) if sheet is not None else "",
            assumed_price_of=route.assumed_price_of,
            until=None if route.tariff is None else route.tariff.next_change(now),
            since=None if period is None or period.since == float("-inf") else period.since,
            discount=0.0 if route.tariff is None else float(route.tariff.discount),
            window=route.window,
            cache=route.regime,
            can_answer=not obstacle,
            obstacle=obstacle,
            cache_writes={
                name: price
                for name, field in _WRITES.items()
                if sheet is not None and (price := getattr(sheet.rates, field)) is not None
            },
            **rates,
        )


def _price_source(route: Route) -> str:
    if route.assumed_price_of:
        return "assumed"
    return "own" if route.has_own_price else "shipped"


def _replica(gateway: int, traffic: ReplicaTraffic) -> ReplicaView:
    return view_of(ReplicaView, traffic, traffic.reuse, gateway=gateway)
