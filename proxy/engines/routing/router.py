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
    home_rule,
    rank_replicas,
)
from proxy.engines.routing.kv_events import KvEventIndex
from proxy.engines.routing.policy import DEFAULT_POLICY, RoutingPolicy
from proxy.engines.routing.prefix_worth import PrefixWorth, RecentPrompts, prefix_worth
from proxy.engines.routing.prompt_chain import PromptChain
from proxy.engines.routing.replica import CallsInFlight, LoadReport, ReplicaCandidate
from proxy.engines.routing.replica_pace import LEAST_TTFT_S, FleetPace, ReplicaPace, fleet_pace

#: Replicas remembered; those that were candidates least recently are forgotten.
_MAX_REPLICAS: Final = 256
#: Weight of the newest call in slow means.
_MEAN_WEIGHT: Final = 0.02


@dataclass(slots=True)
class ReuseCounters:
    """Tokens of the calls that were sent, by how much of them was, or could be, reused.

    Attributes:
        available: Tokens that one cache with the room of all replicas would have had.
        captured: Tokens that the chosen replicas were thought to hold.
        delivered: Tokens that the engines read from their caches, as they report.
    """

    calls: int = 0
    prompt_tokens: int = 0
    available: int = 0
    captured: int = 0
    delivered: int = 0


class _ReplicaState:
    def __init__(self, cache_tokens: int) -> None:
        self.model = CacheModel(cache_tokens)
        self.flight = CallsInFlight()
        self.pace = ReplicaPace()
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
    """A call on its way to a replica; counts as load there until its end.

    Args:
        is_streaming: False if its first token comes with its last.
    """

    def __init__(
        self,
        state: _ReplicaState,
        cost: ReplicaCost,
        total: ReuseCounters,
        now: float,
        *,
        is_streaming: bool,
    ) -> None:
        self._state = state
        self._cost = cost
        self._reuse = total, state.reuse
        self._sent_at = now
        self._is_streaming = is_streaming
        self._began_at: float | None = None
        self._is_over = False
        self.used_at = 0
        expected_s = (LEAST_TTFT_S + self._predicted_s) * cost.slowness
        state.flight.begin(self, cost.uncached_tokens, now + expected_s)

    @property
    def _predicted_s(self) -> float:
        """Seconds to its first bytes that a replica of the usual pace would take."""
        return self._cost.ttft_s + (0.0 if self._is_streaming else self._cost.run_s)

    def begin_answer(self, now: float) -> None:
        """The first token has come: the prompt is read."""
        if self._began_at is not None:
            return
        self._began_at, state = now, self._state
        state.flight.note_read(self, self._cost.uncached_tokens)
        observed_s = now - self._sent_at
        if self._is_streaming or self._cost.run_s:
            state.pace.note_first_token(observed_s, self._predicted_s, now)
        if not self._is_streaming:
            state.pace.note_run(max(0.0, observed_s - self._cost.ttft_s))

    def end(
        self, now: float, cached_tokens: int | None = None, *, is_comparable: bool = True
    ) -> None:
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
        self._state.flight.note_read(self, self._cost.uncached_tokens)
        self._state.flight.calls -= 1
        if self._is_streaming and self._began_at is not None:
            self._state.pace.note_run(now - self._began_at)
        if cached_tokens is not None:
            for reuse in self._reuse:
                reuse.delivered += cached_tokens
            if is_comparable:
                self._state.model.learn(self._cost.matched_tokens, self.used_at, cached_tokens)


class ReplicaRouter:
    """Chooses replicas by cost, and keeps a bounded guess of what each one's cache holds."""

    def __init__(self, policy: RoutingPolicy = DEFAULT_POLICY) -> None:
        self.reuse = ReuseCounters()
        self._policy = policy
        self._states: dict[str, _ReplicaState] = {}
        self._all_room = CacheModel(0)
        self._mean_uncached = 1_000.0
        self._others = 0.0
        self._recent = RecentPrompts()

    def __len__(self) -> int:
        return len(self._states)

    def decide(
        self, request: RoutingRequest, candidates: Sequence[ReplicaCandidate], now: float
    ) -> ReplicaDecision:
        """The replicas that may serve the call, the best first."""
        seen = [
            _SeenReplica(candidate, self._state(candidate), self._fresh_load(candidate, now))
            for candidate in candidates
        ]
        others_share = self._note_others(seen)
        usable = [replica for replica in seen if request.may_use(replica.candidate)]
        guesses, links = [], 0
        for replica in usable:
            # Replicas often hold the same beginning: the last one's match is tried first.
            links = replica.state.model.matched_links(request.chain, links)
            guesses.append(links)
        matches = [
            seen.state.matched_tokens(request, links)
            for seen, links in zip(usable, guesses, strict=True)
        ]
        worth = prefix_worth(request.chain, matches, self._recent, self._policy)
        costs = self._costs(request, usable, matches, worth, now)
        home = home_rule(request, self._policy, worth.common_links)
        costs = credit_home(costs, home, self._policy.home_credit * others_share)
        self._all_room.resize(sum(candidate.cache_tokens for candidate in candidates))
        return rank_replicas(costs, request, self._policy, home)

    def send(
        self, request: RoutingRequest, cost: ReplicaCost, now: float, *, is_streaming: bool = True
    ) -> RoutedCall:
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
        call = RoutedCall(state, cost, self.reuse, now, is_streaming=is_streaming)
        call.used_at = state.model.used_at(chain, state.model.matched_links(chain))
        state.model.touch(chain)
        self._recent.note(chain)
        return call

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
        own = foreign = 0
        for replica in seen:
            own += replica.state.flight.calls
            if replica.load is not None:
                foreign += sum(replica.load.other_calls())
        if own + foreign:
            self._others += _MEAN_WEIGHT * (foreign / (own + foreign) - self._others)
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
        self,
        request: RoutingRequest,
        usable: Sequence[_SeenReplica],
        matches: Sequence[int],
        worth: PrefixWorth,
        now: float,
    ) -> list[ReplicaCost]:
        """The costs of replicas, each with the tokens that it holds of the prompt."""
        fleet = fleet_pace((seen.state.pace for seen in usable), now)
        new_tokens = request.chain.tokens - max(matches, default=0)
        to_read = {
            held: new_tokens + worth.missing_tokens(held, new_tokens) for held in set(matches)
        }
        return [
            self._cost(request, seen, (held, to_read[held]), fleet, now)
            for seen, held in zip(usable, matches, strict=True)
        ]

    def _cost(
        self,
        request: RoutingRequest,
        seen: _SeenReplica,
        tokens: tuple[int, float],
        fleet: FleetPace,
        now: float,
    ) -> ReplicaCost:
        """The cost of a replica: its time to the first token, and what decode is slowed.

        Args:
            tokens: Tokens of the prompt that it holds, and those it has to read by their worth.
        """
        policy, chain = self._policy, request.chain
        candidate, state, load = seen
        matched, weighted = tokens
        uncached = chain.tokens - matched
        rate = candidate.prefill_tokens_per_s or policy.prefill_tokens_per_s
        run_s = state.pace.run_s or fleet.run_s
        wait_s, slowed_s = self._load_seconds(seen, run_s or policy.run_s, rate)
        ratio = state.pace.ratio(now) / fleet.ratio
        slowness = ratio if ratio > policy.slow_ratio else 1.0
        queue_s = max(wait_s * slowness, state.flight.overdue_s(now))
        seconds = queue_s + slowness * weighted / rate + (slowness - 1) * LEAST_TTFT_S + slowed_s
        seconds += candidate.round_trip_s
        room = state.model.free_tokens(chain.block_tokens)
        if uncached > room:
            seconds += policy.evict_weight * (uncached - room) / rate
        if request.preferred_region and request.preferred_region != candidate.region:
            seconds += policy.other_region_s
        return ReplicaCost(
            name=candidate.name,
            matched_tokens=matched,
            uncached_tokens=uncached,
            queue_s=queue_s,
            prefill_s=slowness * uncached / rate,
            seconds=seconds,
            is_full=load is not None and load.kv_usage > policy.max_kv_usage,
            ttft_s=wait_s + uncached / rate,
            slowness=slowness,
            run_s=run_s,
        )

    def _load_seconds(self, seen: _SeenReplica, run_s: float, rate: float) -> tuple[float, float]:
        """Seconds until a replica would begin to read, and those by which its batch slows decode.

        Args:
            rate: Prompt tokens that it reads in a second.
        """
        flight, slots = seen.state.flight, seen.candidate.slots or self._policy.slots
        running, waiting = (0, 0) if seen.load is None else seen.load.other_calls()
        calls = running + waiting + flight.calls
        wait_s = (flight.prefill_tokens + waiting * self._mean_uncached) / rate
        wait_s += max(0, calls + 1 - slots) * run_s / slots
        return wait_s, self._policy.decode_share * run_s * calls / slots
