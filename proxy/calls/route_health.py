"""Tracks the health of routes, and the budgets of retries and hedges.

A route's health is a breaker, and where its upstream asks for that a limit of calls in flight
that follows how fast it answers. Retries and hedges have one budget for the process.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Iterable
from contextlib import suppress
from typing import Final

from proxy.calls.route_choice import RouteChoice
from proxy.catalog.entries import Route
from proxy.errors import ProxyError, UpstreamError
from slo.breaker import BreakerState, CircuitBreaker, order_routes
from slo.budgets.attempt_budgets import HedgeBudget, RecentTtft, RetryBudget
from slo.concurrency import ConcurrencyLimit

_log = logging.getLogger("thriftgate.upstreams")

#: Seconds a call waits for its turn on a route that is full, and calls that do.
_MAX_TURN_WAIT_S: Final = 2.0
_MAX_QUEUED_CALLS: Final = 1000
#: Statuses of failures that the call itself is at fault for.
_CALLER_FAULT_STATUSES: Final = frozenset({400, 404, 413, 422})


class RouteHealth:
    """One route's health.

    Attributes:
        limit: Limit of calls in flight; None where there is none yet.
        ttft: Seconds until the first token of its latest streams.
    """

    __slots__ = ("_queue", "breaker", "limit", "ttft")

    def __init__(self, *, adapts: bool) -> None:
        self.breaker = CircuitBreaker()
        self.limit = ConcurrencyLimit() if adapts else None
        self.ttft = RecentTtft()
        self._queue: deque[asyncio.Future[None]] = deque()

    def try_acquire(self, now: float) -> bool:
        """Take a place where the route has no limit; False where ``acquire`` has to be awaited."""
        if self.limit is not None:
            return False
        self.breaker.admits(now)  # sent here regardless, it is counted all the same
        return True

    async def acquire(self, now: float) -> None:
        """Take a place, waiting for one for a short while where the route is full.

        Raises:
            UpstreamError: There is none.
        """
        is_admitted = self.breaker.admits(now)  # sent here regardless, it is counted all the same
        if self.limit is None or self.limit.try_acquire(now):
            return
        try:
            await self._wait_for_turn(now)
        except BaseException:
            if is_admitted:
                self.breaker.record_outcome(now, ok=None, began=now)
            raise

    async def _wait_for_turn(self, now: float) -> None:
        """Wait for a place that another call leaves."""
        if len(self._queue) >= _MAX_QUEUED_CALLS:
            raise _route_full()
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._queue.append(turn)
        try:
            async with asyncio.timeout(_MAX_TURN_WAIT_S):
                await turn
        except BaseException as error:
            if turn.done() and not turn.cancelled():  # its place was given to it all the same
                self.release(None, 0, now, ok=None)
            with suppress(ValueError):
                self._queue.remove(turn)
            if isinstance(error, TimeoutError):
                raise _route_full() from None
            raise

    def release(self, ttft: float | None, uncached: int, now: float, *, ok: bool | None) -> None:
        """Give the place back, with how it went.

        Args:
            ttft: Seconds from sending to the first content; None for none.
            uncached: Prompt tokens that no cache knew.
            ok: True if the route did its part; None where the call says nothing of it.
        """
        if self.limit is None:
            return
        self.limit.release(ttft, uncached, ok=ok is not False, now=now)
        while self._queue:
            if self._queue[0].done():  # it waits no more
                self._queue.popleft()
            elif self.limit.try_acquire(now):
                self._queue.popleft().set_result(None)
            else:
                return


class RouteHealthRegistry:
    """The lanes of all routes, and the budgets of what is sent twice.

    Attributes:
        hedges: Budget of second attempts while the first is late.
        probes: Budget of second attempts that show whether a silent route begins again.
    """

    def __init__(self) -> None:
        self._by_route: dict[str, RouteHealth] = {}
        self.retries = RetryBudget()
        self.hedges = HedgeBudget()
        self.probes = HedgeBudget()

    def record_call(self, nanos: int | None, now: float) -> None:
        """Count a call that has ended towards the budgets of second attempts.

        Args:
            nanos: Cost in nano-dollars; None where that is unknown.
        """
        self.hedges.record_call(nanos, now)
        self.probes.record_call(nanos, now)

    def health_of(self, route: Route) -> RouteHealth:
        """The route's; routes are the catalog's, so that there are no more lanes than these."""
        return self._by_route.get(route.name) or self._by_route.setdefault(
            route.name, RouteHealth(adapts=route.upstream.adapts)
        )

    def is_failing(self, route: Route, now: float) -> bool:
        """True if the route's breaker is open; an unused one has none."""
        health = self._by_route.get(route.name)
        return health is not None and health.breaker.state(now) is BreakerState.OPEN

    def sort_failing_last(
        self, choices: tuple[RouteChoice, ...], now: float
    ) -> tuple[RouteChoice, ...]:
        """The choices with those last whose routes fail just now, else in their order."""
        if len(choices) == 1:
            return choices
        pairs = [(choice, self.health_of(choice.route).breaker) for choice in choices]
        if all(breaker.state(now) is BreakerState.CLOSED for _, breaker in pairs):
            return choices
        ready = order_routes(pairs, now)
        return (*ready, *(choice for choice in choices if choice not in ready))

    def record_outcome(
        self, route: Route, failure: BaseException | None, began: float, now: float
    ) -> None:
        """Count how an attempt ended that was sent; None for one that was answered."""
        breaker = self.health_of(route).breaker
        before = breaker.ejections
        breaker.record_outcome(now, ok=route_succeeded(failure), began=began)
        _log_ejection(route, breaker, before, now)

    def record_answer_end(
        self, route: Route, reason: ProxyError | None, began: float, now: float
    ) -> None:
        """Count how an answer ended that had begun.

        Args:
            reason: Error that cut it short; None if it was not.
            began: Time at which it had begun.
        """
        if reason is not None and not isinstance(reason, UpstreamError):
            return
        breaker = self.health_of(route).breaker
        before = breaker.ejections
        breaker.record_end(now, ok=reason is None, began=began)
        _log_ejection(route, breaker, before, now)

    def states(self) -> Iterable[tuple[str, RouteHealth]]:
        """Each route's health, by the route's name."""
        return self._by_route.items()


def route_succeeded(failure: BaseException | None) -> bool | None:
    """True if the route did its part; None where the failure says nothing of it."""
    if failure is None:
        return True
    if not isinstance(failure, UpstreamError) or failure.was_stale:
        return None
    if failure.retryable or not 400 <= failure.status < 500:
        return False
    return True if failure.status in _CALLER_FAULT_STATUSES else None


def _log_ejection(route: Route, breaker: CircuitBreaker, before: int, now: float) -> None:
    """Say in the log that a route's breaker opened, where it did."""
    if breaker.ejections > before:
        _log.warning(
            "Route %s fails; any other route of its model goes first for %.0f s",
            route.name,
            breaker.seconds_until_admission(now),
        )


def _route_full() -> UpstreamError:
    return UpstreamError(
        "The route to this model is full just now. Try again shortly.",
        status=429,
        code="route_full",
        retryable=True,
        retry_after=_MAX_TURN_WAIT_S,
    )
