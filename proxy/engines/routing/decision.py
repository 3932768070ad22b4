"""Ranks the replicas of a call by the seconds that each is expected to take; pure arithmetic.

healthy and in an allowed region ─ cost ─ load gate ─ warmest, home ─ exploration ─ order
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from proxy.caches.prefixes import seeded_chance
from proxy.engines.routing.policy import RoutingPolicy
from proxy.engines.routing.prompt_chain import LINK_BYTES, PromptChain
from proxy.engines.routing.replica import ReplicaCandidate

_HOME_SEED: Final = 1
_EXPLORE_SEED: Final = 2
#: A smaller share of its prefill is not worth looking for the home.
_LEAST_CREDIT: Final = 0.01


@dataclass(frozen=True, slots=True, kw_only=True)
class RoutingRequest:
    """A call that needs a replica.

    Attributes:
        chain: Its prompt, hashed with the organisation's salt.
        token_chain: The same in the engine's own tokens and blocks; for replicas whose KV events
            are read.
        conversation: Names its conversation; "" where it has none.
        regions: Where it may be processed; empty for anywhere.
        preferred_region: The gateway's own region; "" where regions are equal.
    """

    chain: PromptChain
    token_chain: PromptChain | None = None
    conversation: str = ""
    regions: frozenset[str] = frozenset()
    preferred_region: str = ""

    def may_use(self, candidate: ReplicaCandidate) -> bool:
        """True if the replica is healthy and in a region where the call may be processed."""
        return candidate.is_healthy and (not self.regions or candidate.region in self.regions)

    def home_key(self, home_tokens: int, common_links: int = 0) -> bytes:
        """The bytes whose rendezvous hash chooses the home: the same in every gateway.

        Without a conversation they are the prompt's first tokens, and more where all begin alike.
        """
        links = self.chain.links
        if self.conversation or not links:
            return self.conversation.encode()
        first = max(1, int(home_tokens / self.chain.block_tokens), common_links + 1)
        return links[min(len(links), first) - 1].to_bytes(LINK_BYTES, "big")


class ReplicaCost(NamedTuple):
    """The seconds that a replica is expected to take, weighted by the policy.

    Attributes:
        matched_tokens: Tokens of the prompt that it is thought to hold.
        uncached_tokens: Tokens that it has to read.
        queue_s: Seconds until it would begin to read.
        prefill_s: Seconds that reading takes.
        seconds: All of it: queue, prefill by its worth, decode load, round trip, region.
        is_full: True if its KV cache has no room for another call.
        ttft_s: Seconds to the first token that a replica of the usual pace would take.
        slowness: Times that it is slower.
        run_s: Seconds that calls run there after the first token; 0 where unknown.
    """

    name: str
    matched_tokens: int
    uncached_tokens: int
    queue_s: float
    prefill_s: float
    seconds: float
    is_full: bool
    ttft_s: float = 0.0
    slowness: float = 1.0
    run_s: float = 0.0


@dataclass(frozen=True, slots=True)
class ReplicaDecision:
    """The replicas in the order in which to try them.

    Attributes:
        order: Their costs, the chosen one first; empty where none may get the call.
        why: A few words for a header and the receipt.
    """

    order: tuple[ReplicaCost, ...]
    why: str


HomeRule = Callable[[ReplicaCost], float]
"""Ranks replicas for a prompt; the first is its home."""


def home_rule(request: RoutingRequest, policy: RoutingPolicy, common_links: int = 0) -> HomeRule:
    """Ranks replicas for a prompt by rendezvous hashing."""
    key = request.home_key(policy.home_tokens, common_links)
    return lambda cost: seeded_chance(_HOME_SEED, key, cost.name.encode())


def credit_home(costs: Sequence[ReplicaCost], home: HomeRule, credit: float) -> list[ReplicaCost]:
    """The costs, less for the home, which other gateways may have warmed for this prompt.

    Args:
        home: Ranks replicas; the first is the home.
        credit: Seconds that the home is forgiven for each of its prefill.
    """
    if not costs or credit < _LEAST_CREDIT:
        return list(costs)
    first = min(costs, key=home)
    credited = first._replace(seconds=first.seconds - credit * first.prefill_s)
    return [credited if cost is first else cost for cost in costs]


def rank_replicas(
    costs: Sequence[ReplicaCost],
    request: RoutingRequest,
    policy: RoutingPolicy,
    home: HomeRule,
) -> ReplicaDecision:
    """The replicas in order, and why the first was chosen."""
    if not costs:
        return ReplicaDecision((), "no replica may serve it")
    gate = min(cost.queue_s for cost in costs) + policy.load_gate_s

    def is_gated(cost: ReplicaCost) -> bool:
        return cost.is_full or cost.queue_s > gate

    order = sorted(costs, key=lambda cost: (is_gated(cost), cost.seconds, cost.name))
    limit = order[0].seconds + policy.tie_s
    gated = is_gated(order[0])
    equal = [cost for cost in order if cost.seconds <= limit and is_gated(cost) == gated]
    if len(equal) > 1:
        equal.sort(key=lambda cost: (-cost.matched_tokens, home(cost)))
        rest = {cost.name for cost in equal}
        order = [*equal, *(cost for cost in order if cost.name not in rest)]
    if _explores(order, request, policy):
        order[:2] = order[1::-1]
        return ReplicaDecision(tuple(order), "exploring the second best")
    return ReplicaDecision(tuple(order), _reason(order, equal))


def _explores(order: Sequence[ReplicaCost], request: RoutingRequest, policy: RoutingPolicy) -> bool:
    """True for a fixed share of prompts, where it does little harm."""
    if len(order) < 2 or not request.chain.links:
        return False
    best, second = order[:2]
    is_cheap = second.seconds - best.seconds < policy.explore_limit_s
    if not is_cheap or second.is_full > best.is_full:
        return False
    last = request.chain.links[-1].to_bytes(LINK_BYTES, "big")
    return seeded_chance(_EXPLORE_SEED, last) < policy.explore_share


def _reason(order: Sequence[ReplicaCost], equal: Sequence[ReplicaCost]) -> str:
    best = order[0]
    warmest = max(order, key=lambda cost: cost.matched_tokens)
    if len(order) == 1:
        return "only replica"
    if warmest.matched_tokens > best.matched_tokens:
        return f"warmest is busy or far: {warmest.name}"
    if best.matched_tokens:
        return f"warm: {best.matched_tokens} of {best.matched_tokens + best.uncached_tokens} tokens"
    return "cold: home" if len(equal) > 1 else "cold: least busy"
