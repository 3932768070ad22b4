"""One attempt, from its route to the first content byte of its answer.

::

    convert → compact → plan → translate → reserve → send → commit

It writes no receipt: only the code that runs it knows how the call goes on, and so its outcome.
"""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Final, TypeVar

import msgspec

from proxy.calls.attempts.abandoned_attempts import note_sent
from proxy.calls.deadlines import AwaitedEvent
from proxy.calls.eligibility.requirements import missing_capability
from proxy.calls.eligibility.retry_policy import BILLED_ENDPOINTS
from proxy.calls.metering.finished_turn import finished_turn
from proxy.calls.metering.metering import Meter
from proxy.calls.metering.plausible_usage import usage_reader
from proxy.calls.metering.settlement import AttemptInfo, estimate_from_length
from proxy.calls.ports import CallContext, CheaperRoute, CompactionPort
from proxy.calls.route_choice import (
    ReplicaTicket,
    RouteChoice,
    choice_headers,
    is_overflow,
    replica_text,
    skipped_header,
    untranslatable_call,
)
from proxy.calls.route_health import route_succeeded
from proxy.calls.scheduling import call_hints
from proxy.calls.translation.converted_calls import CONVERTED_ENDPOINTS, convert_call
from proxy.calls.translation.translation import needs_thread, prepare
from proxy.calls.upstream_answer import ExpectedAnswer, UpstreamAnswer, read_failure
from proxy.errors import CallerError, UpstreamError
from proxy.prefix.planned import Passthrough, Planned
from proxy.providers.kinds import WIRES
from proxy.providers.port import PreparedRequest, Reader
from proxy.records.compaction_result import NO_COMPACTION, CompactionResult, passthrough_result
from proxy.upstream.port import UpstreamExchange, request_id, was_never_sent

T = TypeVar("T")
#: Statuses of a request that is wrong in itself; it may be what planning made of it.
_REFUSED_STATUSES: Final = frozenset({400, 413, 422})
_RESENT_UNMODIFIED: Final = Passthrough("the planned prompt was refused, so it was sent unmodified")


class Attempt:
    """An attempt at one route.

    Attributes:
        choice: The route, and why.
        info: Facts about it for its receipt.
        planned: The plan, or why the prompt is sent unmodified.
        answer: Once it began.
        reader: Translates the answer; None passes it on as it comes.
        may_switch_model: True if it may go to another model where it is too dear here.
        was_sent: True if anything went to the upstream.
        was_accepted: True if the upstream was at work on it, and so may bill it.
        ttft: Seconds from sending to the first content; None before that.
        failed_meter: Meter of an answer that failed early; None where none came.
    """

    __slots__ = (
        "_is_planned", "_is_resent", "_refused_compaction", "_sent_at", "_skipped", "_status",
        "answer", "choice", "context", "failed_meter", "info", "may_switch_model", "planned",
        "reader", "ttft", "was_accepted", "was_sent",
    )  # fmt: skip

    def __init__(
        self,
        context: CallContext,
        choice: RouteChoice,
        number: int,
        *,
        is_resent: bool = False,
        refused_compaction: CompactionResult | None = None,
        skipped: dict[str, str] | None = None,
    ) -> None:
        """Nothing is done yet.

        Args:
            choice: Route that it takes.
            number: Counts the call's attempts, from 0.
            is_resent: True if it was refused with a plan, and is now sent unmodified.
            refused_compaction: Its compaction when it was refused; it goes without.
            skipped: Models that cannot take the call, and why; more may be added.
        """
        self.context = context
        self.choice = choice
        replica = replica_text(choice)
        self.info = AttemptInfo(
            call=context.call,
            route=choice.route,
            number=number,
            reroute_reason=choice.reroute_reason,
            headers=choice_headers(choice, replica),
            replica=replica,
        )
        self.planned: Planned | Passthrough = _RESENT_UNMODIFIED
        self.answer: UpstreamAnswer | None = None
        self.reader: Reader | None = None
        self.may_switch_model = True
        self.was_sent = self.was_accepted = False
        self.failed_meter: Meter | None = None
        self._is_resent = self._is_planned = is_resent
        self._refused_compaction = refused_compaction
        self._skipped = {} if skipped is None else skipped
        self._sent_at = 0.0
        self.ttft: float | None = None

    async def convert(self) -> UpstreamError | None:
        """Say the call in the API of the route's upstream; or why a substitute cannot take it.

        Raises:
            CallerError: If it cannot be said to the upstream of the model that was asked for.
        """
        call = self.context.call
        if call.endpoint not in CONVERTED_ENDPOINTS:
            return None
        say = partial(convert_call, call, self.choice.route)
        translated = await self._run_translation(say)
        if isinstance(translated, UpstreamError):
            return translated
        self.info = msgspec.structs.replace(self.info, translated=translated)
        return None

    async def compact(self) -> None:
        """Have the prompt compacted where its feature or its caller asks for that."""
        compaction = self.context.deps.compaction
        if compaction is not None and compaction.has_part(self.context.call):
            await self._compact(compaction)

    async def plan(self) -> None:
        """Have the prompt arranged for the route's cache, unless that was refused before."""
        if not self._is_resent:
            planning = self.context.deps.planning
            self.planned = await planning.plan(self.info.sent_call, self.choice.route)
            self._is_planned = True

    async def translate(self) -> PreparedRequest | UpstreamError:
        """The request for the route's upstream; or why a substitute model cannot take it.

        Raises:
            CallerError: If it cannot be said to the upstream of the model that was asked for.
        """
        prepared = await self._run_translation(self._preparation())
        if isinstance(prepared, UpstreamError):
            return prepared
        if self.info.translated is not None:
            prepared = self.info.translated.with_reader(prepared)
        self.reader = prepared.reader
        self.info = msgspec.structs.replace(
            self.info, notes=prepared.notes + self.info.compaction.notes, planned=self.planned
        )
        return prepared

    async def reserve(self, prepared: PreparedRequest) -> PreparedRequest | CheaperRoute:
        """The request within its ceilings, budgets reserved; or the model on which it fits.

        Raises:
            CallerError: If it fits nowhere.
            Unready: If it is unknown whether it fits.
        """
        limits = self.context.deps.limits
        if limits is not None:
            sent_info = msgspec.structs.replace(self.info, call=self.info.sent_call)
            admitted = await limits.admit(sent_info, prepared, self._can_serve)
            if isinstance(admitted, CheaperRoute):
                return admitted
            prepared = admitted.prepared
            self.info = msgspec.structs.replace(
                self.info,
                headers={**self.info.headers, **admitted.headers},
                notes=(*self.info.notes, *admitted.notes),
            )
        if self._skipped:
            headers = {**self.info.headers, **skipped_header(self._skipped)}
            self.info = msgspec.structs.replace(self.info, headers=headers)
        return prepared

    async def send(self, prepared: PreparedRequest) -> UpstreamAnswer:
        """Send the request; the answer once its head has come.

        Raises:
            UpstreamError: If there is none, or it is an error.
            CallerError: If the call must not go to its replica any more; nothing was sent.
        """
        context, route = self.context, self.choice.route
        health, now = context.deps.route_health.health_of(route), context.timeline.now()
        if not health.try_acquire(now):
            await health.acquire(now)
        self.was_sent = True
        self._sent_at = context.timeline.now()
        if self.choice.replica is not None:
            self.choice.replica.send()
        is_paid = context.call.method == "POST"
        costs = context.deps.replica_costs
        use = costs.begin(route.upstream, self._sent_at) if is_paid else None
        self.info = msgspec.structs.replace(self.info, sent_at=self._sent_at, replica_use=use)
        context.watchdog.set_deadline(
            AwaitedEvent.FIRST_BYTE, context.deps.retry_policy.first_byte_s
        )
        self.was_accepted = True
        note_sent(context, self.info)
        try:
            with context.timeline.waiting:
                exchange = await context.deps.transport.open(route.upstream, prepared)
        except UpstreamError as error:
            self.was_accepted = error.is_billed
            raise
        except asyncio.CancelledError as error:
            self.was_accepted = not was_never_sent(error)
            raise
        self._note_head(exchange)
        if not self.was_accepted:
            raise await read_failure(exchange, WIRES[route.upstream.kind], context.timeline)
        call = context.call
        return UpstreamAnswer(
            exchange,
            WIRES[route.upstream.kind],
            context.timeline,
            generates=call.method == "POST" and call.endpoint in BILLED_ENDPOINTS,
            is_retrieval=call.method == "GET",
            expected=ExpectedAnswer(
                call.is_streaming,
                has_text=call.endpoint != "embeddings",
                read_usage=usage_reader(WIRES[route.upstream.kind], self.info.sent_call, route),
            ),
        )

    async def commit(self, answer: UpstreamAnswer) -> None:
        """Read the answer to its first content: from here on, no other route is tried.

        Raises:
            UpstreamError: If it did not get there; the answer is closed.
        """
        try:
            await answer.commit(self.reader)
        except BaseException as error:
            if isinstance(error, UpstreamError):
                meter = self.failed_meter = answer.meter
                self.was_accepted = not meter.is_broken or meter.usage is not None
            answer.exchange.close()
            raise
        self.answer = answer
        context, route = self.context, self.choice.route
        health, now = context.deps.route_health, context.timeline.now()
        self.ttft = now - self._sent_at
        if context.call.is_streaming:
            health.health_of(route).ttft.record(self.ttft, now)
        health.record_outcome(route, None, self._sent_at, now)
        if self.choice.replica is not None:
            self.choice.replica.begin_answer()
        context.deps.planning.note_answer_started(self.planned)

    @property
    def changed_plan(self) -> Planned | None:
        """The plan that changed the caller's prompt; None where it is unmodified."""
        planned = self.planned
        is_changed = isinstance(planned, Planned) and planned.body is not self.info.sent_call.body
        return planned if is_changed and isinstance(planned, Planned) else None

    def refused_plan(self, failure: UpstreamError) -> Planned | None:
        """The plan, where the upstream may have refused what it changed."""
        return self.changed_plan if failure.status in _REFUSED_STATUSES else None

    def refused_compaction(self, failure: UpstreamError) -> CompactionResult | None:
        """The compaction, where the upstream may have refused what it changed.

        A prompt that is too long compacted is longer unmodified.
        """
        result = self.info.compaction
        requested = self.info.asked_call
        is_other = result.call(requested).body is not requested.body
        may_be = is_other and failure.status in _REFUSED_STATUSES and not is_overflow(failure)
        return result if may_be else None

    def close(self, failure: BaseException | None = None) -> None:
        """Release all it holds; called once, however it ended.

        Args:
            failure: Exception that ended it before its commit point; None where it got there.
        """
        if self.answer is not None:
            self.answer.exchange.close()
        if self.was_sent:
            if self.choice.replica is not None:
                self._leave_replica(self.choice.replica)
            self._leave_route(failure)
        if self._is_planned:
            self.context.deps.planning.note_attempt_ended(self.planned)

    def _leave_replica(self, replica: ReplicaTicket) -> None:
        """Tell the replica's router that the call is over, with the engine's own usage."""
        meter = self.answer.meter if self.answer is not None else None
        usage = meter.usage if meter is not None and not meter.has_implausible_usage else None
        own = self.info.sent_call is self.info.asked_call and self.changed_plan is None
        turn = finished_turn(self.info, meter)
        replica.end(usage, is_comparable=own, turn=turn)

    def _leave_route(self, failure: BaseException | None) -> None:
        """Give the route's place back, with how it did."""
        registry, route = self.context.deps.route_health, self.choice.route
        now = self.context.timeline.now()
        if failure is not None:
            registry.record_outcome(route, failure, self._sent_at, now)
        health = registry.health_of(route)
        if health.limit is None:
            return
        usage = self.answer.meter.usage if self.answer is not None else None
        usage = usage or estimate_from_length(self.info.sent_call, "", route)
        health.release(
            self.ttft, usage.prompt_tokens - usage.cache_read, now, ok=route_succeeded(failure)
        )

    def _can_serve(self, model: str) -> bool:
        """True if a model can answer the call."""
        candidate = self.context.deps.catalog.models.get(model)
        if candidate is None or not self.may_switch_model:
            return False
        why = missing_capability(self.context.call, candidate, self.choice.route.upstream.region)
        if why:
            self._skipped[model] = why
        return not why

    @property
    def _is_substitute(self) -> bool:
        """True if the model answers in place of the one that the call names."""
        if not self.choice.reroute_reason:
            return False
        own = self.context.deps.catalog.find(self.context.call.model)
        return own is None or own.id != self.choice.model

    async def _compact(self, compaction: CompactionPort) -> None:
        """Have the prompt compacted where its feature asks for that; a header tells the caller."""
        if self._is_resent and self._refused_compaction is None:
            return
        if self._refused_compaction is None:
            result = await compaction.compact(self.info.asked_call, self.choice.route)
        else:
            result = await compaction.track_unmodified(
                self.info.asked_call, passthrough_result(self._refused_compaction.mode, "refused")
            )
        if result is NO_COMPACTION:
            return
        headers = dict(self.info.headers)
        if result.header:
            headers["x-thriftgate-compaction"] = result.header
        self.info = msgspec.structs.replace(self.info, compaction=result, headers=headers)

    def _preparation(self) -> Callable[[], PreparedRequest]:
        """Makes the request, as planned."""
        call, route, is_substitute = self.info.sent_call, self.choice.route, self._is_substitute
        hints = call_hints(self.context, call, route)
        translates = self.info.translated is not None and self.info.translated.adapts
        return partial(
            prepare,
            call,
            route,
            self.planned,
            is_substitute=is_substitute or self.choice.is_alias or translates,
            reasoning=self.choice.reasoning if translates else "",
            hints=hints,
        )

    async def _run_translation(self, work: Callable[[], T]) -> T | UpstreamError:
        """A translation of the call, made on a thread where it is long; or why there is none."""
        is_long = needs_thread(self.context.call, self.choice.route)
        try:
            return await asyncio.to_thread(work) if is_long else work()
        except CallerError as error:
            if self.info.translated is not None:
                error = self.info.translated.translate_error(error)
            if not self._is_substitute:
                raise error from None
            return untranslatable_call(error)

    def _note_head(self, exchange: UpstreamExchange) -> None:
        """Note what the head of the upstream's answer says."""
        self.was_accepted = exchange.status < 300
        if named := request_id(exchange.headers):
            self.info = msgspec.structs.replace(self.info, upstream_request_id=named)
