"""Routes the calls of one model over its replicas, and learns from what the engines report.

One router for each route of one gateway: `decide`, then `send` for each replica that is tried;
the `RoutedCall` is told of the first token and of the end.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from proxy.engines.routing.cache_model import CacheModel
from proxy.engines.routing.decision import (
    ReplicaCost,
    ReplicaDecision,
    RoutingRequest,
    credit_home,
    rank_replicas,
)
from proxy.engines.routing.kv_events import KvEventIndex
from proxy.engines.routing.policy import DEFAULT_POLICY, RoutingPolicy
from proxy.engines.routing.prompt_chain import PromptChain
from proxy.engines.routing.replica import CallsInFlight, LoadReport, ReplicaCandidate

#: Replicas remembered; those that were candidates least recently are forgotten.
_MAX_REPLICAS: Final = 256
#: Weight of the newest call in slow means.
_MEAN_WEIGHT: Final = 0.02


@dataclass(slots=True)
class ReuseCounters:
    """Tokens of the calls that were sent, by how much of them was, or could be, reused.

    Attributes:
        calls: Calls sent.
        prompt_tokens: Tokens of their prompts.
        available: Tokens that one cache with the room of all replicas would have had.
        captured: Tokens that the chosen replicas were thought to hold.
        delivered: Tokens that the engines read from their caches, as they report.
        reported_calls: Calls of which an engine reported it.
    """

    calls: int = 0
    prompt_tokens: int = 0
    available: int = 0
    captured: int = 0
    delivered: int = 0
    reported_calls: int = 0


class _ReplicaState:
    def __init__(self, cache_tokens: int) -> None:
        self.model = CacheModel(cache_tokens)
        self.flight = CallsInFlight()
        self.events: KvEventIndex | None = None
        self.reuse = ReuseCounters()

    def matched_tokens(self, request: RoutingRequest, links: int) -> int:
        """Tokens of a prompt that the replica holds, of which the model guesses so many links."""
        guess = request.chain.tokens_at(links)
        if self.events is None or request.token_chain is None:
            return guess
        held = self.events.matched_tokens(request.token_chain)
        # Text and tokens are counted in one measure: that of the chain, an estimate.
        scale = request.chain.tokens / max(1, request.token_chain.tokens)
        held = min(round(held * scale), request.chain.tokens)
        return held if self.events.is_complete else max(held, guess)


class _SeenReplica(NamedTuple):
    """A candidate, what is known of it, and its load as far as the report is fresh."""

    candidate: ReplicaCandidate
    state: _ReplicaState
    load: LoadReport | None


class RoutedCall:
    """A call on its way to a replica; counts as load there until its end."""

    def __init__(
        self, state: _ReplicaState, cost: ReplicaCost, used_at: int, total: ReuseCounters
    ) -> None:
        self._state = state
        self._cost = cost
        self._used_at = used_at
        self._reuse = total, state.reuse
        self._is_reading = True
        self._is_over = False
        state.flight.calls += 1
        state.flight.prefill_tokens += cost.uncached_tokens

    def begin_answer(self) -> None:
        """The first token has come: the prompt is read."""
        if self._is_reading:
            self._is_reading = False
            self._state.flight.prefill_tokens -= self._cost.uncached_tokens

    def end(self, cached_tokens: int | None = None, *, is_comparable: bool = True) -> None:
        """The call is over, for whatever reason.

        Args:
            cached_tokens: Tokens that the engine reports as read from its cache; None where it
                reports nothing, also because it failed.
            is_comparable: False if another prompt than the chain's was sent, so that nothing can
                be learned from it.
        """
        if self._is_over:
            return
        self._is_over = True
        self.begin_answer()
        self._state.flight.calls -= 1
        if cached_tokens is not None:
            for reuse in self._reuse:
                reuse.delivered += cached_tokens
                reuse.reported_calls += 1
            if is_comparable:
                self._state.model.learn(self._cost.matched_tokens, self._used_at, cached_tokens)


class ReplicaRouter:
    """Chooses replicas by cost, and keeps a bounded guess of what each one's cache holds."""

    def __init__(self, policy: RoutingPolicy = DEFAULT_POLICY) -> None:
        self.reuse = ReuseCounters()
        self._policy = policy
        self._states: dict[str, _ReplicaState] = {}
        self._all_room = CacheModel(0)
        self._mean_uncached = 1_000.0
        self._others = 0.0

    def __len__(self) -> int:
        return len(self._states)

    def decide(
        self, request: RoutingRequest, candidates: Sequence[ReplicaCandidate], now: float
    ) -> ReplicaDecision:
        """The replicas that may serve the call, the best first."""
        seen = [
            _SeenReplica(each, self._state(each), self._fresh_load(each, now))
            for each in candidates
        ]
        others = self._note_others(seen)
        usable = [each for each in seen if request.may_use(each.candidate)]
        guesses, links = [], 0
        for each in usable:
            # Replicas often hold the same beginning: the last one's match is tried first.
            links = each.state.model.matched_links(request.chain, links)
            guesses.append(links)
        costs = self._costs(request, usable, guesses)
        costs = credit_home(costs, request, self._policy, others)
        self._all_room.resize(sum(each.cache_tokens for each in candidates))
        return rank_replicas(costs, request, self._policy)

    def send(self, request: RoutingRequest, cost: ReplicaCost) -> RoutedCall:
        """Note that the call goes to this replica of its decision."""
        state, chain = self._states[cost.name], request.chain
        available = chain.tokens_at(self._all_room.matched_links(chain))
        self._all_room.touch(chain)
        for reuse in (self.reuse, state.reuse):
            reuse.calls += 1
            reuse.prompt_tokens += chain.tokens
            reuse.available += max(available, cost.matched_tokens)
            reuse.captured += cost.matched_tokens
        self._mean_uncached += _MEAN_WEIGHT * (cost.uncached_tokens - self._mean_uncached)
        used_at = state.model.used_at(chain, state.model.matched_links(chain))
        state.model.touch(chain)
        return RoutedCall(state, cost, used_at, self.reuse)

    def calls_in_flight(self, name: str) -> int:
        """Calls that this gateway has at a replica now."""
        return self._states[name].flight.calls if name in self._states else 0

    def reuse_at(self, name: str) -> ReuseCounters | None:
        """The counters of the calls that were sent to a replica; None for one that never was."""
        return self._states[name].reuse if name in self._states else None

    def has_events(self, name: str) -> bool:
        """True if what a replica holds is known by its KV events."""
        return name in self._states and self._states[name].events is not None

    def read_events(self, name: str, events: KvEventIndex | None) -> None:
        """Go by a replica's KV events from now on; with None, by the guess again."""
        if name in self._states:
            self._states[name].events = events

    def note_warmed(self, candidate: ReplicaCandidate, chain: PromptChain) -> None:
        """Believe that a replica holds a prompt that was read there for no call."""
        self._state(candidate).model.touch(chain)

    def clear_cache(self, name: str) -> None:
        """Forget what a replica holds: it was restarted."""
        if name in self._states:
            self._states[name].model.clear()

    def _note_others(self, seen: Sequence[_SeenReplica]) -> float:
        """The share of the load that other gateways send, by the reports; a slow mean."""
        own = others = 0
        for each in seen:
            flight = each.state.flight
            own += flight.calls
            if each.load is not None:
                others += sum(flight.other_calls(each.load))
        if own + others:
            self._others += _MEAN_WEIGHT * (others / (own + others) - self._others)
        return self._others

    def _fresh_load(self, candidate: ReplicaCandidate, now: float) -> LoadReport | None:
        load = candidate.load
        return load if load is not None and now - load.at <= self._policy.stale_s else None

    def _state(self, candidate: ReplicaCandidate) -> _ReplicaState:
        state = self._states.pop(candidate.name, None)
        if state is None:
            state = _ReplicaState(candidate.cache_tokens)
            while len(self._states) >= _MAX_REPLICAS:
                del self._states[next(iter(self._states))]
        state.model.resize(candidate.cache_tokens)
        self._states[candidate.name] = state
        return state

    def _costs(
        self, request: RoutingRequest, usable: Sequence[_SeenReplica], guesses: Sequence[int]
    ) -> list[ReplicaCost]:
        """The costs of replicas, each with the links that its model guesses."""
        chain, policy = request.chain, self._policy
        least = policy.min_match_share * chain.tokens
        matches = [
            found if (found := seen.state.matched_tokens(request, links)) >= least else 0
            for seen, links in zip(usable, guesses, strict=True)
        ]
        weight, longest = policy.prefill_weight, max(matches, default=0)
        if longest:
            weight += policy.rare_match_weight * min(
                usable[at].state.model.age(chain, guesses[at])
                for at, matched in enumerate(matches)
                if matched == longest
            )
        return [
            self._cost(request, seen, matched, weight)
            for seen, matched in zip(usable, matches, strict=True)
        ]

    def _cost(
        self, request: RoutingRequest, seen: _SeenReplica, matched: int, weight: float
    ) -> ReplicaCost:
        """The cost of a replica; a second of prefill counts as so many of waiting."""
        policy, chain = self._policy, request.chain
        candidate, state, load = seen
        uncached = chain.tokens - matched
        running, waiting = (0, 0) if load is None else state.flight.other_calls(load)
        rate = candidate.prefill_tokens_per_s or policy.prefill_tokens_per_s
        queue_s = (state.flight.prefill_tokens + waiting * self._mean_uncached) / rate
        prefill_s = weight * uncached / rate
        seconds = (
            queue_s
            + prefill_s
            + policy.decode_s * (running + state.flight.calls)
            + candidate.round_trip_s
        )
        room = state.model.free_tokens(chain.block_tokens)
        if uncached > room:
            seconds += policy.evict_weight * (uncached - room) / rate
        if request.preferred_region and request.preferred_region != candidate.region:
            seconds += policy.other_region_s
        is_full = load is not None and load.kv_usage > policy.max_kv_usage
        return ReplicaCost(candidate.name, matched, uncached, queue_s, prefill_s, seconds, is_full)
