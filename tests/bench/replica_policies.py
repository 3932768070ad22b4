"""Policies that place calls on simulated replicas: the usual ones, and the gateway's router."""

from collections.abc import Sequence
from itertools import count, takewhile
from random import Random
from typing import Any

from proxy.engines.routing.decision import RoutingRequest
from proxy.engines.routing.policy import DEFAULT_POLICY, RoutingPolicy
from proxy.engines.routing.prompt_chain import LINK_BYTES, PromptChain
from proxy.engines.routing.replica import LoadReport, ReplicaCandidate
from proxy.engines.routing.router import ReplicaRouter, RoutedCall
from tests.bench.replica_simulation import ReplicaCall, SimulatedReplica

#: Seconds between two readings of an engine's metrics.
_POLL_S = 1.0
_Replicas = list[SimulatedReplica]


class _Uninformed:
    """A policy that needs to hear nothing."""

    def begin_answer(self, token: Any, now: float, cached: int) -> None:
        """Nothing to note."""

    def end(self, token: Any, now: float) -> None:
        """Nothing to note."""


class RoundRobin(_Uninformed):
    """One after the other."""

    def __init__(self) -> None:
        self._next = -1

    def place(self, call: ReplicaCall, replicas: _Replicas, now: float) -> tuple[int, None]:
        """The next replica."""
        self._next = (self._next + 1) % len(replicas)
        return self._next, None


class RandomReplica(_Uninformed):
    """Any; another draw makes other choices."""

    def __init__(self, draw: int = 0) -> None:
        self._random = Random(3 + draw)  # noqa: S311 - the same choices each time

    def place(self, call: ReplicaCall, replicas: _Replicas, now: float) -> tuple[int, None]:
        """Any replica."""
        return self._random.randrange(len(replicas)), None


class LeastLoaded(RandomReplica):
    """The fewest calls under way; any of several."""

    def place(self, call: ReplicaCall, replicas: _Replicas, now: float) -> tuple[int, None]:
        """A replica with the fewest calls."""
        least = min(replica.calls for replica in replicas)
        return self._random.choice([n for n, r in enumerate(replicas) if r.calls == least]), None


class LongestMatch(_Uninformed):
    """The simplest rule by prefix: where 30 % or more of it was sent, whatever the load."""

    def __init__(self) -> None:
        self._sent: dict[bytes, int] = {}

    def place(self, call: ReplicaCall, replicas: _Replicas, now: float) -> tuple[int, None]:
        """The replica that last got the longest prefix of this; else the least loaded."""
        replicas_by_block = list(
            takewhile(lambda index: index is not None, map(self._sent.get, call.blocks))
        )
        chosen = min(range(len(replicas)), key=lambda index: replicas[index].calls)
        if len(replicas_by_block) > 0.3 * len(call.blocks) and replicas_by_block[-1] is not None:
            chosen = replicas_by_block[-1]
        self._sent.update(dict.fromkeys(call.blocks, chosen))
        return chosen, None


class GatewayRouter:
    """The gateway's router, or several gateways by turns that know nothing of each other.

    Another draw names the replicas otherwise, which changes the homes alone.
    """

    def __init__(
        self,
        rules: RoutingPolicy = DEFAULT_POLICY,
        *,
        cache_tokens: int,
        block: int,
        gateways: int = 1,
        is_learning: bool = True,
        draw: int = 0,
    ) -> None:
        self.routers = [ReplicaRouter(rules) for _ in range(gateways)]
        self._cache_tokens = cache_tokens
        self._block = block
        self._learns = is_learning
        self._draw = draw
        self._turn = 0
        self._candidates: list[list[ReplicaCandidate]] = [[] for _ in range(gateways)]

    def place(
        self, call: ReplicaCall, replicas: _Replicas, now: float
    ) -> tuple[int, tuple[RoutedCall, list[int]]]:
        """The first of the router's order."""
        self._turn += 1
        gateway = self._turn % len(self.routers)
        router = self.routers[gateway]
        per_link = max(1, 256 // self._block)
        links = tuple(
            int.from_bytes(block[:LINK_BYTES], "big")
            for block in call.blocks[per_link - 1 :: per_link]
        )
        chain = PromptChain(links, self._block * per_link, call.tokens)
        request = RoutingRequest(chain=chain, conversation=call.conversation)
        best = router.decide(request, self._read_load(gateway, replicas, now), now).order[0]
        return int(best.name) % len(replicas), (router.send(request, best, now), [])

    def begin_answer(self, token: tuple[RoutedCall, list[int]], now: float, cached: int) -> None:
        """Pass it on, and keep what the engine would report at the end."""
        token[0].begin_answer(now)
        token[1].append(cached)

    def end(self, token: tuple[RoutedCall, list[int]], now: float) -> None:
        """Pass on what was cached."""
        routed, cached = token
        routed.end(now, cached[0] if self._learns else None)

    def _read_load(
        self, gateway: int, replicas: Sequence[SimulatedReplica], now: float
    ) -> list[ReplicaCandidate]:
        """The replicas with their metrics, read anew where they are a poll old."""
        candidates, router = self._candidates[gateway], self.routers[gateway]
        first = self._draw * len(replicas)
        load = candidates[0].load if candidates else None
        if load is None or now - load.at >= _POLL_S:
            candidates[:] = [
                ReplicaCandidate(
                    name=name,
                    cache_tokens=self._cache_tokens,
                    load=LoadReport(
                        at=now,
                        running=replica.running,
                        waiting=replica.calls - replica.running,
                        own=router.calls_in_flight(name),
                    ),
                )
                for name, replica in zip(map(str, count(first)), replicas, strict=False)
            ]
        return candidates
