"""A simulated route: a line of calls before so many places.

A call takes its place for the time that its prompt takes, and then for that of its answer.
"""

import heapq
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random

from slo.concurrency import ConcurrencyLimit

FIXED, PER_THOUSAND = 0.3, 0.05
ENDLESS = 10**9


def alone(tokens: int) -> float:
    return FIXED + PER_THOUSAND * tokens / 1000


def same(_: Random) -> int:
    return 1000


def mixed_size(random: Random) -> int:
    """200 to 100 000 tokens, each order of magnitude as often."""
    return int(200 * 500 ** random.random())


@dataclass
class SimulatedRoute:
    """Calls that arrive at random at a route of so many places, and what became of them.

    Attributes:
        limit: Admits them.
        rate: Calls a second.
        places: Calls that the route takes at once, by the time.
        tokens: Length of a prompt.
        answer: Seconds that an answer takes, on average.
        noise: Sigma of the logarithm of the time that a prompt takes.
        slow: Factor of that time, by the time.
        line: Most calls that wait at the route.
        seed: Of their luck.
        done: When each call ended, and how many times as long as alone it took to begin.
        limits: The limit at each whole second.
        refused: How many calls the limit refused.
        failed: How many the route did, whose line was full.
    """

    limit: ConcurrencyLimit
    rate: float
    places: Callable[[float], int]
    tokens: Callable[[Random], int] = same
    answer: float = 0.0
    noise: float = 0.3
    slow: Callable[[float], float] = lambda _: 1.0
    line: int = ENDLESS
    seed: int = 1
    done: list[tuple[float, float]] = field(default_factory=list)
    limits: list[int] = field(default_factory=list)
    refused: int = 0
    failed: int = 0

    def __post_init__(self) -> None:
        self.random = Random(self.seed)  # noqa: S311 - repeatable, not secret
        self._line: deque[tuple[float, int]] = deque()
        self._inside: list[tuple[float, float, int]] = []

    def run(self, seconds: float) -> None:
        arrives = 0.0
        while arrives < seconds:
            while self._inside and self._inside[0][0] <= arrives:
                self._leave(*heapq.heappop(self._inside))
            while len(self.limits) <= arrives:
                self.limits.append(self.limit.limit)
            if not self.limit.try_acquire(arrives):
                self.refused += 1
            elif len(self._line) == self.line:
                self.failed += 1
                self.limit.release(None, 0, ok=False, now=arrives)
            else:
                self._line.append((arrives, self.tokens(self.random)))
                self._enter(arrives)
            arrives += self.random.expovariate(self.rate)

    def _enter(self, now: float) -> None:
        while self._line and len(self._inside) < self.places(now):
            came, tokens = self._line.popleft()
            blur = self.random.lognormvariate(-(self.noise**2) / 2, self.noise)
            begins = alone(tokens) * self.slow(now) * blur
            answers = self.random.expovariate(1 / self.answer) if self.answer else 0.0
            ttft = now + begins - came
            heapq.heappush(self._inside, (now + begins + answers, ttft, tokens))

    def _leave(self, now: float, ttft: float, tokens: int) -> None:
        self.limit.release(ttft, tokens, ok=True, now=now)
        self.done.append((now, ttft / alone(tokens)))
        self._enter(now)

    def throughput(self, begin: float, end: float) -> float:
        return sum(begin <= second < end for second, _ in self.done) / (end - begin)

    def p95(self, begin: float, end: float) -> float:
        slow = sorted(slowness for second, slowness in self.done if begin <= second < end)
        return slow[int(len(slow) * 0.95)]

    def median_limit(self, begin: int, end: int) -> int:
        return sorted(self.limits[begin:end])[(end - begin) // 2]
