"""Chooses the replica of an engine for each call: the state around the pure router.

::

    order ── prompt ─ chain ─► ReplicaRouter.decide ─► the replicas in order, a ticket each
    ticket ─ send ─ begin_answer ─ end ─► what the router believes of their caches

It fails open: whatever goes wrong, the replicas stay in the order of the catalog.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import median
from typing import Final

import msgspec

from proxy.calls.metering.finished_turn import FinishedTurn
from proxy.calls.ports import Dependencies, ReplicaOrder
from proxy.calls.route_choice import RouteChoice
from proxy.calls.translation.converted_calls import CONVERTED_ENDPOINTS
from proxy.catalog.entries import Route
from proxy.engines.routing.call_prompt import call_prompt
from proxy.engines.routing.decision import ReplicaCost, RoutingRequest
from proxy.engines.routing.prompt_chain import PromptChain, chain_root, prompt_chain
from proxy.engines.routing.replica import LoadReport, ReplicaCandidate
from proxy.engines.routing.router import ReplicaRouter, RoutedCall
from proxy.engines.warming.accounts import WarmingAccounts, WarmingKind
from proxy.providers.cache_isolation import isolate_cache
from proxy.records.call import WARMING_PREFIX, Call
from proxy.services.engines.exact_prefixes import ExactPrefixes
from proxy.services.engines.replica_monitor import ReplicaMonitor, ReplicaStatus
from proxy.services.engines.warming.replica_warming import ReplicaWarming
from proxy.services.engines.warming.warming_calls import warming_sender
from proxy.services.engines.warming.warming_gains import WarmingGains
from proxy.services.engines.warming.warming_state import CallNames
from slo.usage import Usage

_log = logging.getLogger("thriftgate.engines")

#: Bodies from this size on are read and hashed on a thread: it takes about half a millisecond.
_MIN_THREADED_BODY_BYTES: Final = 256 * 1024
#: Bytes of a token until an engine has reported tokens, and the weight of its newest report.
_BYTES_PER_TOKEN: Final = 4.0
_RATIO_WEIGHT: Final = 0.05
#: Prompts below these tokens say little about the bytes of a token.
_MIN_RATIO_TOKENS: Final = 64
#: Room of a prefix cache whose engine does not say it.
DEFAULT_CACHE_TOKENS: Final = 500_000
_EMPTY: Final = b"{}"
_CHAT: Final = "chat/completions"
_NO_CHAIN: Final = PromptChain((), 1.0, 0)
_MAX_LOGGED_FAILURES: Final = 5


@dataclass(slots=True)
class ModelRouting:
    """The routing of one model's calls over all replicas that serve it.

    Attributes:
        router: Decides, and believes something of each replica's cache.
        reasons: Calls by the reason of their decision.
        bytes_per_token: Of its prompts, as its engine counts them.
        route: One of its routes, the last that a call could take.
        starts: Starts of each replica that the router was told of, by its address.
        own_calls: Calls of this gateway there when its load was read.
    """

    router: ReplicaRouter = field(default_factory=ReplicaRouter)
    reasons: Counter[str] = field(default_factory=Counter)
    bytes_per_token: float = _BYTES_PER_TOKEN
    route: Route | None = None
    starts: dict[str, int] = field(default_factory=dict)
    own_calls: dict[str, int] = field(default_factory=dict)


@dataclass(slots=True)
class _Ticket:
    """A replica for one call; it tells the router of the call there."""

    owner: "ReplicaRouting"
    status: ReplicaStatus
    why: str
    routing: ModelRouting
    request: RoutingRequest
    cost: ReplicaCost
    content_bytes: int
    call: Call
    routed: RoutedCall | None = None
    names: CallNames | None = None

    @property
    def name(self) -> str:
        """The replica's name."""
        return self.status.name

    @property
    def slots(self) -> int:
        """Calls that the replica takes at once beside those of other gateways; 0 for unknown."""
        status, metrics = self.status, self.status.metrics
        load = 0 if metrics is None else int(metrics.load)
        other_calls = max(0, load - self.routing.own_calls.get(status.base_url, 0))
        return max(0, status.slots - other_calls)

    def send(self) -> None:
        """Count the call as on its way there."""
        if self.call.feature.startswith(WARMING_PREFIX):
            self.owner.gains.note_typed(self.call.id, self.status, self.request.chain)
        if self.owner.warming is not None:
            conversation = self.request.conversation
            self.names = self.owner.warming.note_sent(self.name, self.call, conversation)
        self.routed = self.routing.router.send(
            self.request, self.cost, self.owner.ticks(), is_streaming=self.call.is_streaming
        )
        self.routing.reasons[self.why.partition(":")[0]] += 1

    def begin_answer(self) -> None:
        """Note that the prompt is read."""
        if self.routed is not None:
            self.routed.begin_answer(self.owner.ticks())

    def end(
        self, usage: Usage | None, *, is_comparable: bool, turn: FinishedTurn | None = None
    ) -> None:
        """Note that the call is over there, with the usage that the engine reported."""
        self._end(usage, is_comparable=is_comparable)
        names, self.names = self.names, None
        if names is not None and turn is not None and self.owner.warming is not None:
            self.owner.warming.note_turn(self.name, turn, self.call, names)

    def _end(self, usage: Usage | None, *, is_comparable: bool) -> None:
        routed, self.routed = self.routed, None
        if routed is None:
            return
        prompt = usage.prompt_tokens if usage is not None else 0
        if usage is None or not prompt:
            routed.end(self.owner.ticks())
            return
        if not self.call.is_unattended:
            self.owner.gains.note_call(self.status, self.request.chain, usage.cache_read)
        # In tokens of the chain, which are an estimate.
        share = usage.cache_read / prompt
        cached = round(share * self.request.chain.tokens)
        routed.end(self.owner.ticks(), cached, is_comparable=is_comparable)
        if is_comparable and prompt >= _MIN_RATIO_TOKENS and self.content_bytes:
            routing = self.routing
            bytes_per_token = self.content_bytes / prompt
            routing.bytes_per_token += _RATIO_WEIGHT * (bytes_per_token - routing.bytes_per_token)


class ReplicaRouting:
    """Orders the replicas of engines for calls, and learns how that went.

    Args:
        region: The gateway's own region; "" where regions are equal.
        warming: Is told of calls, and warms replicas that are idle; None for nothing.
        exact: Knows what caches hold by events; None for nothing.

    Attributes:
        gains: Counts what calls found warmed; it needs to hear of receipts.
    """

    def __init__(
        self,
        monitor: ReplicaMonitor,
        ticks: Callable[[], float],
        region: str = "",
        warming: ReplicaWarming | None = None,
        exact: ExactPrefixes | None = None,
    ) -> None:
        self._monitor = monitor
        self.ticks = ticks
        self._region = region
        self._models: dict[str, ModelRouting] = {}
        self._failures = 0
        self.warming = warming
        self._exact = exact
        self.gains = WarmingGains(WarmingAccounts() if warming is None else warming.accounts)
        monitor.listen(self._note_reading)
        if warming is not None:
            warming.is_idle, warming.on_warmed = self.is_idle, self.note_warmed
            monitor.listen(warming.note_reading)

    @property
    def models(self) -> Mapping[str, ModelRouting]:
        """Each model that was asked for, by the name under which its engines serve it."""
        return self._models

    def calls_in_flight(self, replica: ReplicaStatus) -> int:
        """Calls that this gateway has at a replica now."""
        routing = self._models.get(replica.model)
        return routing.router.calls_in_flight(replica.base_url) if routing is not None else 0

    def use(self, deps: Dependencies) -> None:
        """Have warming send its calls through these ports from now on."""
        if self.warming is not None:
            self.warming.send = warming_sender(deps, self.ticks)

    def is_idle(self, replica: ReplicaStatus) -> bool:
        """True if a replica serves no call now, as far as its last page and own calls tell."""
        metrics = replica.metrics
        if not replica.is_healthy or metrics is None or self.calls_in_flight(replica):
            return False
        routing = self._models.get(replica.model)
        own = 0 if routing is None else routing.own_calls.get(replica.base_url, 0)
        return metrics.load <= own

    async def note_warmed(
        self, replica: ReplicaStatus, call: Call, kind: WarmingKind, computed_tokens: int
    ) -> None:
        """Believe that a replica holds the prompt of a call that warmed it."""
        routing = self._models.get(replica.model)
        if routing is None or routing.route is None:
            return
        request, _ = await self._request(routing, call, routing.route)
        _note_starts(routing, [replica])
        routing.router.note_warmed(
            ReplicaCandidate(
                name=replica.base_url, cache_tokens=replica.cache_tokens or DEFAULT_CACHE_TOKENS
            ),
            request.chain,
        )
        self.gains.note_warmed(replica, kind, request.chain, computed_tokens)

    def keep_only(self, models: Collection[str]) -> None:
        """Drop the state of models that no engine serves any more."""
        for name in self._models.keys() - set(models):
            del self._models[name]

    async def order(self, call: Call, choices: tuple[RouteChoice, ...]) -> ReplicaOrder:
        """The replicas of one model in the order in which to try them; never raises."""
        try:
            return await self._order(call, choices)
        except Exception as error:  # noqa: BLE001 - an optimiser's mistake must not cost the call
            self._failures += 1
            if self._failures <= _MAX_LOGGED_FAILURES:
                _log.warning("Replicas stay in the catalog's order: %r", error)
            return ReplicaOrder(ready=choices)

    def _note_reading(self, status: ReplicaStatus) -> None:
        """Remember how many of the calls that the engine counts are this gateway's own."""
        if (routing := self._models.get(status.model)) is not None:
            own = self.calls_in_flight(status)
            if self.warming is not None:
                own += self.warming.is_warming(status.name)
            routing.own_calls[status.base_url] = own

    async def _order(self, call: Call, choices: tuple[RouteChoice, ...]) -> ReplicaOrder:
        by_url: dict[str, tuple[RouteChoice, ReplicaStatus]] = {}
        for choice in choices:
            status = self._monitor.status(choice.route.upstream.name)
            if status is None:  # its profile came or went a moment ago
                return ReplicaOrder(ready=choices)
            by_url[status.base_url] = choice, status
        routing = self._models.setdefault(choices[0].route.model, ModelRouting())
        routing.route = choices[0].route
        request, size = await self._request(routing, call, choices[0].route)
        statuses = [status for _, status in by_url.values()]
        _note_starts(routing, statuses)
        if self._exact is not None:
            request = await self._exact.add(
                call, choices[0].route, statuses, request, routing.router
            )
        decision = routing.router.decide(
            request, _candidates(routing, choices, statuses), self.ticks()
        )
        ready = []
        for cost in decision.order:
            choice, status = by_url.pop(cost.name)
            ticket = _Ticket(self, status, decision.why, routing, request, cost, size, call)
            ready.append(_at_address(choice, status, ticket))
        unready = tuple(_at_address(choice, status) for choice, status in by_url.values())
        return ReplicaOrder(ready=tuple(ready), unready=unready)

    async def _request(
        self, routing: ModelRouting, call: Call, route: Route
    ) -> tuple[RoutingRequest, int]:
        """The question for the router, and the bytes of the prompt."""
        body = call.body
        if len(body) < _MIN_THREADED_BODY_BYTES:
            chain, opening, size = _chain(routing, call, route)
        else:
            chain, opening, size = await asyncio.to_thread(_chain, routing, call, route)
        request = RoutingRequest(
            chain=chain,
            conversation=call.conversation or call.session or opening,
            preferred_region=self._region,
        )
        return request, size


def _chain(routing: ModelRouting, call: Call, route: Route) -> tuple[PromptChain, str, int]:
    """The chain of the call's prompt, a name of how it opens, and the prompt's bytes.

    It is made of the caller's own bytes, before anything is planned or compacted for a replica.
    """
    prompt = call_prompt(call.body, call.endpoint)
    if prompt is None:
        return _NO_CHAIN, "", 0
    # What is sent in chat has the salt of chat.
    endpoint = _CHAT if call.endpoint in CONVERTED_ENDPOINTS else call.endpoint
    salt = call.salt if isolate_cache(_EMPTY, endpoint, route, call.salt).fields else ""
    root = chain_root(route.model or call.model, salt)
    size = len(prompt.content)
    tokens = round(size / routing.bytes_per_token)
    return prompt_chain(root, prompt.content, tokens), prompt.conversation, size


def _note_starts(routing: ModelRouting, statuses: Sequence[ReplicaStatus]) -> None:
    """Have the router forget the caches of replicas that were started again."""
    for status in statuses:
        if routing.starts.setdefault(status.base_url, status.starts) != status.starts:
            routing.starts[status.base_url] = status.starts
            routing.router.clear_cache(status.base_url)


def _candidates(
    routing: ModelRouting, choices: Iterable[RouteChoice], statuses: Sequence[ReplicaStatus]
) -> list[ReplicaCandidate]:
    """The replicas for the router; those of one profile have one prefill rate.

    They run on alike machines. A busy one looks slow, and its load counts already.
    """
    rates: dict[str, list[float]] = {}
    for status in statuses:
        if status.prefill_tokens_per_s:
            rates.setdefault(status.profile, []).append(status.prefill_tokens_per_s)
    usual = {profile: median(measured) for profile, measured in rates.items()}
    return [
        _candidate(routing, choice.route.upstream.region, status, usual.get(status.profile, 0.0))
        for choice, status in zip(choices, statuses, strict=True)
    ]


def _candidate(
    routing: ModelRouting, region: str, status: ReplicaStatus, rate: float
) -> ReplicaCandidate:
    metrics, load, url = status.metrics, None, status.base_url
    if metrics is not None and metrics.has_load:
        load = LoadReport(
            at=status.read_at,
            running=int(metrics.values.get("running", 0.0)),
            waiting=int(metrics.values.get("waiting", 0.0)),
            kv_usage=metrics.values.get("kv_usage", 0.0),
            own=routing.own_calls.get(url, 0),
        )
    return ReplicaCandidate(
        name=url,
        region=region,
        is_healthy=status.is_healthy,
        cache_tokens=status.cache_tokens or DEFAULT_CACHE_TOKENS,
        prefill_tokens_per_s=rate,
        slots=status.slots,
        round_trip_s=status.round_trip_s,
        load=load,
    )


def _at_address(
    choice: RouteChoice, status: ReplicaStatus, ticket: _Ticket | None = None
) -> RouteChoice:
    """The choice with its ticket, and with the address to which a rolling change moved it."""
    route = choice.route
    if route.upstream.base_url != status.base_url and status.process is not None:
        route = replace(route, upstream=replace(route.upstream, base_url=status.base_url))
    return msgspec.structs.replace(choice, route=route, replica=ticket)
