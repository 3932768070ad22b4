"""Answers a call from the cache where it can, else lets equal calls share the answer it gets.

::

    call ─┬─ may not be cached ──────────────────────────────── pipeline
          ├─ an answer is kept ───────────────────────── hit
          ├─ an equal call is under way ─┬─ it answers ─ shared
          │                              └─ it fails ─── the next one in line goes itself
          └─ none of these ─ pipeline, recorded ─ kept

A call waits for two equal calls at most that got no answer; then it goes alone.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import nullcontext, suppress
from functools import partial
from typing import Final, TypeVar

import msgspec

from proxy.calls.answer_cache_port import AnswerCachePort, CacheResult
from proxy.calls.attempts.failed_attempts import record_unsent
from proxy.calls.deadlines import CallWatchdog
from proxy.calls.metering.settlement import AttemptInfo
from proxy.calls.ports import CallContext, Head
from proxy.calls.route_choice import RoutingDecision
from proxy.calls.shared_answers.flight import (
    MAX_ANSWER_BYTES,
    Flight,
    FlightReader,
    RecordingCaller,
)
from proxy.calls.shared_answers.shared_delivery import (
    CACHE_HEADER,
    FlightDelivery,
    deliver_recorded,
    follow,
    media_header,
)
from proxy.catalog.entries import Route
from proxy.fast_path.answer_cache.cache_request import CacheRequest
from proxy.fast_path.answer_cache.cached_answer import CachedAnswer
from proxy.records.receipt import Receipt, ServedBy

_log = logging.getLogger("thriftgate.answers")
T = TypeVar("T")

#: Equal calls without an answer for which a call waits, before it goes alone.
_MAX_FAILED_LEADERS: Final = 2
#: Bytes of answers under way that are recorded, and the least that each may have.
_MAX_RECORDED_BYTES: Final = 64 * 2**20
_MIN_RECORDED_BYTES: Final = 16 * 2**10
#: Seconds that the first call's caller gets to take the rest, once the call was cut off.
_CUT_OFF_WAIT_S: Final = 1.0

ServeUpstream = Callable[[CallContext], Awaitable[None]]
"""Answers a call from one of its routes."""


async def serve_shared(
    context: CallContext,
    decision: RoutingDecision,
    answers: AnswerCachePort,
    serve_upstream: ServeUpstream,
) -> None:
    """Answer a call of a feature whose answers may be given again.

    Raises:
        ProxyError: As ``pipeline.serve``.
    """
    call = context.call
    cache = _GuardedCache(context, answers)
    request = await cache.ask(answers.read(call, _requested_routes(context, decision)))
    if request is None:
        await serve_upstream(context)
        return
    sharing = _SharedCall(context, decision, cache, request)
    for _ in range(_MAX_FAILED_LEADERS):
        if await sharing.answer():
            return
        if not sharing.has_followed:
            break
    if decision.choices[0].served_by is ServedBy.SMALL:
        # What is proved of a small model counts each of its answers once.
        await serve_upstream(context)
        return
    await sharing.lead(serve_upstream)


class _SharedCall:
    """A call that may be answered by an answer to an equal one.

    Attributes:
        has_followed: True if it waited for an equal call, which got no answer.
    """

    def __init__(
        self,
        context: CallContext,
        decision: RoutingDecision,
        cache: "_GuardedCache",
        request: CacheRequest,
    ) -> None:
        self._context = context
        self._decision = decision
        self._cache = cache
        self._answers = cache.answers
        self._request = request
        self.has_followed = False

    async def answer(self) -> bool:
        """Answer the call without sending it; False where it has to be sent."""
        self.has_followed = False
        if self._request.control.no_cache:
            return False
        if await self._answer_from_memory():
            return True
        if self.has_followed:
            return False
        answer = await self._cache.ask(self._answers.fetch(self._request))
        if answer is not None:
            await self._give(answer)
            return True
        return await self._answer_from_memory()  # it may have come meanwhile

    async def lead(self, serve_upstream: ServeUpstream) -> None:
        """Send the call, and have its answer shared and kept.

        Raises:
            ProxyError: As ``pipeline.serve``.
        """
        answers, request, context = self._answers, self._request, self._context
        self._cache.count(CacheResult.MISS)
        flight = Flight(request.flight_key, recording_bound(len(answers.flights)), request)
        reader = flight.join()
        if self._joinable_flight() is None:
            answers.flights[flight.key] = flight
        recording = RecordingCaller(context.caller, flight, reader)
        watchdog = context.watchdog if isinstance(context.watchdog, CallWatchdog) else None
        if watchdog is not None:
            watchdog.watch_caller(recording.wait_until_gone)
        own = context.deps.tasks.start(partial(self._deliver_own, reader))
        try:
            await serve_upstream(msgspec.structs.replace(context, caller=recording))
            if watchdog is not None:
                watchdog.ignore_caller()  # who has the last byte may leave before it is kept
            await self._keep(flight)
        except BaseException:
            flight.fail()
            self._remove(flight)
            await asyncio.wait({own}, timeout=_CUT_OFF_WAIT_S)
            own.cancel()
            raise
        self._remove(flight)
        if watchdog is not None:
            watchdog.watch_caller(recording.wait_until_gone)
        await self._wait_for_own(own)

    async def _answer_from_memory(self) -> bool:
        """Answer the call by what this process has; False where it has nothing."""
        answer = self._cache.look_up(partial(self._answers.find, self._request))
        if answer is not None:
            await self._give(answer)
            return True
        flight = self._joinable_flight()
        if flight is None:
            return False
        self.has_followed = True
        if not await follow(self._context, flight.join(), self._decision.choices[0]):
            return False
        saved = flight.receipt.cost_nanos if flight.receipt is not None else None
        self._cache.count(CacheResult.SHARED, saved)
        return True

    async def _give(self, answer: CachedAnswer) -> None:
        self._cache.count(CacheResult.HIT, answer.cost_nanos)
        await deliver_recorded(self._context, answer, self._decision.choices[0])

    async def _deliver_own(self, reader: FlightReader) -> None:
        """Give the first call's caller its answer; it may stop reading without harm to others."""
        flight, caller = reader.flight, self._context.caller
        stall_s = self._context.deps.retry_policy.stall_s

        def receipt() -> Receipt | None:
            return flight.receipt

        try:
            head = await reader.head()
            if head is not None:
                headers = {**head.headers, CACHE_HEADER: f"miss; key={self._request.key}"}
                own_head = Head(head.status, headers, head.model, head.notes)
                delivery = FlightDelivery(reader, caller, receipt, nullcontext(), stall_s)
                await delivery.deliver(own_head, b"")
        except TimeoutError:
            return
        finally:
            reader.leave()

    async def _wait_for_own(self, own: asyncio.Task[None]) -> None:
        """Wait until the first call's caller has its answer, or left.

        Raises:
            CancelledError: It left, or we stop.
        """
        try:
            await asyncio.wait({own})
        finally:
            own.cancel()

    async def _keep(self, flight: Flight) -> None:
        """Keep the answer, if it came to its end, and from the model that was asked for."""
        recorded, receipt, head = flight.recorded_body(), flight.receipt, flight.head
        if recorded is None or receipt is None or head is None or receipt.reroute_reason:
            return
        body, closing_at = recorded
        call, request = self._context.call, self._request
        answer = CachedAnswer(
            team=call.key.team,
            feature=call.feature,
            key=request.key,
            started=call.arrived,
            status=head.status,
            media=media_header(head.headers)["content-type"],
            model=head.model,
            notes=head.notes,
            body=body,
            closing_at=closing_at,
            cost_nanos=receipt.cost_nanos,
            call_id=call.id,
            tags=request.tags,
        )
        try:
            await self._answers.keep(request, answer)
        except Exception:  # noqa: BLE001 - it costs no call its answer
            _log.exception("The answer to call %s is not kept.", call.id)

    def _joinable_flight(self) -> Flight | None:
        """The answer that an equal call is getting; None where there is none to join."""
        flight = self._answers.flights.get(self._request.flight_key)
        if not isinstance(flight, Flight) or not flight.is_joinable:
            return None
        first = flight.request
        if first is None:
            return flight
        return (
            flight
            if self._cache.look_up(partial(self._answers.is_purged, first)) is False
            else None
        )

    def _remove(self, flight: Flight) -> None:
        """Let equal calls share this answer no longer."""
        flights = self._answers.flights
        if flights.get(flight.key) is flight:
            del flights[flight.key]


class _GuardedCache:
    """The cache as one call asks it: where it fails, the call goes upstream.

    Attributes:
        answers: The cache itself.
    """

    def __init__(self, context: CallContext, answers: AnswerCachePort) -> None:
        self._context = context
        self.answers = answers

    async def ask(self, question: Awaitable[T | None]) -> T | None:
        """The answer to a question that may take a while; None where the cache fails.

        Raises:
            ProxyError: The call ended meanwhile; its receipt is kept.
            CancelledError: The same.
        """
        try:
            return await question
        except asyncio.CancelledError as cancelled:
            info = AttemptInfo(call=self._context.call)
            raise record_unsent(self._context, info, cancelled) from None
        except Exception:  # noqa: BLE001 - an optimiser's mistake must not cost the call
            self._note_failure()
            return None

    def look_up(self, question: Callable[[], T]) -> T | None:
        """The answer to a question; None where the cache fails."""
        try:
            return question()
        except Exception:  # noqa: BLE001 - as above
            self._note_failure()
            return None

    def count(self, result: CacheResult, saved_nanos: int | None = None) -> None:
        """Count the call."""
        self.look_up(partial(self.answers.count, self._context.call, result, saved_nanos))

    def _note_failure(self) -> None:
        _log.exception("Call %s goes past the cache of answers.", self._context.call.id)
        with suppress(Exception):
            self.answers.count(self._context.call, CacheResult.FAILED, None)


def recording_bound(flights: int) -> int:
    """Bytes that one more answer under way may take, beside so many others."""
    share = _MAX_RECORDED_BYTES // (flights + 1)
    return max(min(share, MAX_ANSWER_BYTES), _MIN_RECORDED_BYTES)


def _requested_routes(context: CallContext, decision: RoutingDecision) -> tuple[Route, ...]:
    """The routes of the model that a call asks for, wherever it is sent just now."""
    model = context.deps.catalog.find(context.call.model) if context.call.model else None
    if model is not None:
        return model.routes
    return tuple(choice.route for choice in decision.choices)
