"""Replicas with finite caches in simulated time: what a choice of replica does to each call.

A replica reads one prompt at a time, in order; it decodes up to ``slots`` calls at once, which
slow reading down and each other. Its cache holds blocks, the least recently used go first, tails
before heads. Blocks are looked up and stored when reading begins, as vLLM does.
"""

from collections import OrderedDict, deque
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush
from typing import Any, Protocol


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaCall:
    """A prompt in blocks, each of which stands for itself and all before it."""

    blocks: tuple[bytes, ...]
    tokens: int
    output: int
    pause: float = 0.0
    conversation: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatedSession:
    """Calls that follow each other, each so many seconds after the answer before."""

    start: float
    calls: tuple[ReplicaCall, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaRules:
    """Numbers of a replica: about a model of 8 billion weights on one large GPU."""

    cache_tokens: int
    prefill_tokens_per_s: float = 10_000.0
    token_s: float = 0.015
    slots: int = 64


class BlockCache:
    """The blocks of one replica."""

    def __init__(self, blocks: int) -> None:
        self._most = blocks
        self._held: OrderedDict[Hashable, None] = OrderedDict()

    def read(self, blocks: Sequence[Hashable]) -> int:
        """Blocks of the longest prefix that is held; all are held afterwards."""
        held = self._held
        hits = next((index for index, block in enumerate(blocks) if block not in held), len(blocks))
        held.update(dict.fromkeys(blocks[hits:]))
        deque(map(held.move_to_end, reversed(blocks)), maxlen=0)
        while len(held) > self._most:
            held.popitem(last=False)
        return hits

    def clear(self) -> None:
        """Lose all of it, as at a restart."""
        self._held.clear()


@dataclass(slots=True)
class SimulatedReplica:
    """One replica's state."""

    cache: BlockCache
    queue: deque[Any] = field(default_factory=deque)
    is_reading: bool = False
    running: int = 0
    calls: int = 0
    work_s: float = 0.0


class PlacementPolicy(Protocol):
    """Chooses a replica for each call; what it returns with it comes back with the call."""

    def place(
        self, call: ReplicaCall, replicas: list[SimulatedReplica], now: float
    ) -> tuple[int, Any]: ...

    def begin_answer(self, token: Any, now: float, cached: int) -> None: ...

    def end(self, token: Any, now: float) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulationResult:
    """Cache hits, delays and balance over all calls.

    Attributes:
        hit_rate: Tokens read from caches, of all tokens of prompts.
        p50: Seconds to the first token, the median.
        p90: The same, of nine in ten.
        balance: Work of the busiest replica over the mean.
    """

    hit_rate: float
    p50: float
    p90: float
    balance: float


@dataclass(slots=True)
class _Flight:
    """A call on its way."""

    session: SimulatedSession
    number: int
    replica: SimulatedReplica
    since: float
    token: Any
    cached: int = 0

    @property
    def call(self) -> ReplicaCall:
        return self.session.calls[self.number]


class Simulation:
    """Plays sessions on replicas."""

    def __init__(
        self, policy: PlacementPolicy, replicas: int, rules: ReplicaRules, block: int
    ) -> None:
        self._policy = policy
        self._rules = rules
        self._block = block
        blocks = rules.cache_tokens // block
        self.replicas = [SimulatedReplica(BlockCache(blocks)) for _ in range(replicas)]
        self._events: list[tuple[float, int, Callable[[float], None]]] = []
        self._count = 0
        self._waits: list[float] = []
        self._cached = 0
        self._tokens = 0

    def share_cache(self) -> None:
        """Give all replicas one cache with the room of all."""
        shared = BlockCache(len(self.replicas) * self._rules.cache_tokens // self._block)
        for replica in self.replicas:
            replica.cache = shared

    def at(self, when: float, happen: Callable[[float], None]) -> None:
        """Let this happen then."""
        self._count += 1
        heappush(self._events, (when, self._count, happen))

    def play(self, sessions: Sequence[SimulatedSession]) -> SimulationResult:
        """Play all sessions to their end."""
        for session in sessions:
            self._arrive_at(session.start, session, 0)
        while self._events:
            now, _, happen = heappop(self._events)
            happen(now)
        waits = sorted(self._waits)
        work = [replica.work_s for replica in self.replicas]
        return SimulationResult(
            hit_rate=self._cached / self._tokens,
            p50=waits[len(waits) // 2],
            p90=waits[len(waits) * 9 // 10],
            balance=max(work) * len(work) / sum(work),
        )

    def _arrive_at(self, when: float, session: SimulatedSession, number: int) -> None:
        self.at(when, lambda now: self._arrive(session, number, now))

    def _arrive(self, session: SimulatedSession, number: int, now: float) -> None:
        at, token = self._policy.place(session.calls[number], self.replicas, now)
        replica = self.replicas[at]
        replica.calls += 1
        replica.queue.append(_Flight(session, number, replica, now, token))
        self._read_next(replica, now)

    def _read_next(self, replica: SimulatedReplica, now: float) -> None:
        if replica.is_reading or not replica.queue or replica.running >= self._rules.slots:
            return
        flight = replica.queue.popleft()
        call, rules = flight.call, self._rules
        hits = replica.cache.read(call.blocks)
        flight.cached = min(hits * self._block, call.tokens - 1)
        uncached_s = (call.tokens - flight.cached) / rules.prefill_tokens_per_s
        replica.is_reading = True
        replica.work_s += uncached_s
        slowed = 1 - 0.5 * replica.running / rules.slots
        self.at(now + uncached_s / slowed + 0.01, lambda then: self._answer(flight, then))

    def _answer(self, flight: _Flight, now: float) -> None:
        replica, call, rules = flight.replica, flight.call, self._rules
        replica.is_reading = False
        self._waits.append(now - flight.since)
        self._cached += flight.cached
        self._tokens += call.tokens
        self._policy.begin_answer(flight.token, now, flight.cached)
        replica.running += 1
        replica.work_s += call.output * rules.token_s / rules.slots
        took = call.output * rules.token_s * (1 + replica.running / rules.slots)
        self.at(now + took, lambda then: self._end(flight, then))
        self._read_next(replica, now)

    def _end(self, flight: _Flight, now: float) -> None:
        replica, after = flight.replica, flight.number + 1
        replica.running -= 1
        replica.calls -= 1
        self._policy.end(flight.token, now)
        if after < len(flight.session.calls):
            self._arrive_at(now + flight.session.calls[after].pause, flight.session, after)
        self._read_next(replica, now)
