"""One attempt, from its choice to the first content byte of its answer.

::

    folded → planned → prepared → within its ceiling → held → open → first byte ═ commit point

It keeps no receipt: whoever let it run knows how the call goes on, and so what became of it.
"""

import asyncio
from functools import partial
from typing import Final

import msgspec

from proxy.calls.deadlines import Wait
from proxy.calls.metering import Meter
from proxy.calls.ports import Elsewhere, Folding, Line
from proxy.calls.requirements import unfit
from proxy.calls.retry_policy import GENERATING
from proxy.calls.route_choice import Choice, NotCarried, is_overflow, skipped_header
from proxy.calls.route_health import went
from proxy.calls.settlement import Attempt, crude
from proxy.calls.translation import prepare
from proxy.calls.upstream_answer import Answer
from proxy.errors import InvalidCall, UpstreamError
from proxy.prefix.planned import Planned, Unplanned
from proxy.providers.kinds import WIRES
from proxy.providers.port import Prepared, Reader
from proxy.records.compaction_result import NO_COMPACTION, CompactionResult, passthrough_result
from proxy.upstream.port import REQUEST_ID_HEADER, Exchange, Unsent, request_id

#: The longest error body that is read.
_FAILURE: Final = 64 * 1024
#: Statuses of a request that is wrong in itself; it may be what planning made of it.
_REFUSED: Final = frozenset({400, 413, 422})
#: Statuses that say nothing of a question in a request: those of the key, and of its limits.
_UNASKED: Final = frozenset({401, 429})
_AGAIN: Final = Unplanned("the planned prompt was refused, so it went as it came")
#: Bodies from this size on are prepared on a thread, for that takes milliseconds.
_LARGE: Final = 256 * 1024


class Opening:
    """An attempt at one route.

    Attributes:
        choice: The route, and why.
        attempt: What is known of it for its receipt.
        planned: What planning made of the call, or why it goes as it came.
        answer: Once it began.
        reader: Translates the answer; None passes it on as it comes.
        may_move: Whether it may go to another model where it is too dear here.
        was_sent: Whether anything went to the upstream.
        was_taken: Whether the upstream was at work on it, and so may bill it.
        ttft: Seconds from sending to the first content; None before that.
        heard: What was read of an answer that failed before its content; None where none came.
    """

    __slots__ = (
        "_again", "_began", "_is_planned", "_refused", "_skipped", "_status", "answer", "attempt",
        "choice", "heard", "line", "may_move", "planned", "reader", "ttft", "was_sent", "was_taken",
    )  # fmt: skip

    def __init__(
        self,
        line: Line,
        choice: Choice,
        number: int,
        *,
        again: bool = False,
        refused: CompactionResult | None = None,
        skipped: dict[str, str] | None = None,
    ) -> None:
        """Nothing is done yet.

        Args:
            line: The call.
            choice: Where it goes.
            number: Counts the call's attempts, from 0.
            again: Whether it was refused once planning had changed it, and goes as it came.
            refused: What compaction had made of it when it was refused; it goes without.
            skipped: Models that cannot take the call, and why; more may be added.
        """
        self.line = line
        self.choice = choice
        self.attempt = Attempt(
            call=line.call,
            route=choice.route,
            number=number,
            moved=choice.moved,
            headers={"x-thriftgate-moved": choice.moved} if choice.moved else {},
        )
        self.planned: Planned | Unplanned = _AGAIN
        self.answer: Answer | None = None
        self.reader: Reader | None = None
        self.may_move = True
        self.was_sent = self.was_taken = False
        self.heard: Meter | None = None
        self._again = self._is_planned = again
        self._refused = refused
        self._skipped = {} if skipped is None else skipped
        self._began = 0.0
        self._status = 0
        self.ttft: float | None = None

    async def run(self) -> UpstreamError | Elsewhere | None:
        """Bring it to its commit point: None; or why another route may be tried.

        Raises:
            CallerError: If the call cannot be said to this route's upstream, or does not fit.
            Unready: If nobody can say whether it fits.
            CancelledError: If it was cancelled; nothing is left open.
        """
        planning, folding = self.line.desk.planning, self.line.desk.folding
        if folding is not None and folding.has_part(self.line.call):
            await self._fold(folding)
        if not self._again:
            self.planned = await planning.planned(self.attempt.sent, self.choice.route)
            self._is_planned = True
        prepared = await self._prepared()
        if isinstance(prepared, NotCarried):
            return prepared
        self.reader = prepared.reader
        self.attempt = msgspec.structs.replace(
            self.attempt, notes=prepared.notes + self.attempt.fold.notes, planned=self.planned
        )
        limits = self.line.desk.limits
        if limits is not None:
            asked = msgspec.structs.replace(self.attempt, call=self.attempt.sent)
            admitted = await limits.admit(asked, prepared, self._fits)
            if isinstance(admitted, Elsewhere):
                return admitted
            prepared = admitted.prepared
            self.attempt = msgspec.structs.replace(
                self.attempt,
                headers={**self.attempt.headers, **admitted.headers},
                notes=(*self.attempt.notes, *admitted.notes),
            )
        self._tell_skipped()
        try:
            self.answer = await self._begun(prepared)
        except UpstreamError as failure:
            return failure
        planning.begun(self.planned)
        return None

    @property
    def changed(self) -> Planned | None:
        """What planning made of the caller's prompt; None where it left it as it came."""
        planned = self.planned
        is_changed = isinstance(planned, Planned) and planned.changes(self.attempt.sent.body)
        return planned if is_changed and isinstance(planned, Planned) else None

    def refused(self, failure: UpstreamError) -> Planned | None:
        """What planning made of the prompt, where the upstream may have refused just that.

        A question besides may not be allowed, known or free to every account.
        """
        changed = self.changed
        if changed is None or failure.status in _REFUSED:
            return changed
        is_about_it = 400 <= self._status < 500 and self._status not in _UNASKED
        return changed if changed.question is not None and is_about_it else None

    def misfolded(self, failure: UpstreamError) -> CompactionResult | None:
        """What compaction made of the prompt, where the upstream may have refused just that.

        A prompt that is too long as it was folded is longer as it came.
        """
        fold = self.attempt.fold
        is_other = fold.call(self.line.call).body is not self.line.call.body
        may_be = is_other and failure.status in _REFUSED and not is_overflow(failure)
        return fold if may_be else None

    def close(self, failure: BaseException | None = None) -> None:
        """Let go of all it holds; said once, however it ended.

        Args:
            failure: Why it ended before its commit point; None where it got there.
        """
        if self.answer is not None:
            self.answer.exchange.close()
        if self.was_sent:
            self._left(failure)
        if self._is_planned:
            self.line.desk.planning.ended(self.planned)

    def tell_request_id(self, failure: UpstreamError) -> None:
        """Have a failure tell the caller the provider's id of the request, where it gave one."""
        if named := self.attempt.upstream_request_id:
            failure.headers = {**failure.headers, REQUEST_ID_HEADER: named}

    def _left(self, failure: BaseException | None) -> None:
        """Give the route's place back, with how it did."""
        lanes, route, now = self.line.desk.lanes, self.choice.route, self.line.timeline.now()
        if failure is not None:
            lanes.ended(route, failure, self._began, now)
        lane = lanes.lane(route)
        if lane.limit is None:
            return
        usage = self.answer.meter.usage if self.answer is not None else None
        usage = usage or crude(self.attempt.sent, "")
        lane.leave(self.ttft, usage.prompt_tokens - usage.cache_read, now, ok=went(failure))

    def _fits(self, model: str) -> bool:
        """True if a model can answer the call."""
        found = self.line.desk.catalog.models.get(model)
        if found is None or not self.may_move:
            return False
        why = unfit(self.line.call, found, self.choice.route.upstream.region)
        if why:
            self._skipped[model] = why
        return not why

    @property
    def _is_substitute(self) -> bool:
        """True if the model answers in place of the one that the call names."""
        if not self.choice.moved:
            return False
        own = self.line.desk.catalog.find(self.line.call.model)
        return own is None or own.id != self.choice.model

    async def _fold(self, folding: Folding) -> None:
        """Have the prompt shortened where its feature asks for that; the caller is told."""
        if self._again and self._refused is None:
            return
        if self._refused is None:
            fold = await folding.folded(self.line.call, self.choice.route)
        else:
            fold = await folding.left(
                self.line.call, passthrough_result(self._refused.mode, "refused")
            )
        if fold is NO_COMPACTION:
            return
        headers = dict(self.attempt.headers)
        if fold.header:
            headers["x-thriftgate-compaction"] = fold.header
        self.attempt = msgspec.structs.replace(self.attempt, fold=fold, headers=headers)

    def _tell_skipped(self) -> None:
        """Tell the caller which models cannot take the call."""
        if self._skipped:
            headers = {**self.attempt.headers, **skipped_header(self._skipped)}
            self.attempt = msgspec.structs.replace(self.attempt, headers=headers)

    async def _prepared(self) -> Prepared | NotCarried:
        """The request; for a model in another's place, why it cannot be said to that one.

        Raises:
            InvalidCall: If it cannot be said to the upstream of the model that was asked for.
        """
        call, route, is_substitute = self.attempt.sent, self.choice.route, self._is_substitute
        made = partial(prepare, call, route, self.planned, is_substitute=is_substitute)
        try:
            return made() if len(call.body) < _LARGE else await asyncio.to_thread(made)
        except InvalidCall as error:
            if not is_substitute:
                raise
            return NotCarried(error)

    async def _begun(self, prepared: Prepared) -> Answer:
        """The answer, at its commit point.

        Raises:
            UpstreamError: If it did not get there, or not in time.
        """
        line, route = self.line, self.choice.route
        lanes = line.desk.lanes
        await lanes.lane(route).enter(line.timeline.now())
        self.was_sent = True
        self._began = line.timeline.now()
        answer = await self._opened(prepared)
        now = line.timeline.now()
        self.ttft = now - self._began
        if line.call.streamed:
            lanes.lane(route).ttft.add(self.ttft, now)
        lanes.ended(route, None, self._began, now)
        return answer

    async def _opened(self, prepared: Prepared) -> Answer:
        line, route = self.line, self.choice.route
        wire = WIRES[route.upstream.kind]
        generates = line.call.method == "POST" and line.call.endpoint in GENERATING
        exchange = beginning = answer = None
        line.watch.expect(Wait.FIRST_BYTE, line.desk.patience.first_byte)
        try:
            self.was_taken = True
            with line.timeline.waiting:
                exchange = await line.desk.transport.open(route.upstream, prepared)
            self._note_head(exchange)
            if not self.was_taken:
                body = await self._failure_body(exchange)
                raise wire.failure(exchange.status, exchange.headers, body)
            is_retrieval = line.call.method == "GET"
            beginning = Answer(
                exchange, wire, line.timeline, generates=generates, is_retrieval=is_retrieval
            )
            await beginning.commit(self.reader)
            answer = beginning
        except UpstreamError:
            heard = self.heard = beginning.meter if beginning is not None else None
            self.was_taken = heard is not None and (not heard.broken or heard.usage is not None)
            raise
        except Unsent:
            self.was_taken = False
            raise
        finally:
            if answer is None and exchange is not None:
                exchange.close()
        return answer

    def _note_head(self, exchange: Exchange) -> None:
        """Note what the head of the upstream's answer says."""
        self._status = exchange.status
        self.was_taken = exchange.status < 300
        if named := request_id(exchange.headers):
            self.attempt = msgspec.structs.replace(self.attempt, upstream_request_id=named)

    async def _failure_body(self, exchange: Exchange) -> bytes:
        """The body of an error; b"" if it is too long or breaks off, for its status says enough."""
        try:
            with self.line.timeline.waiting:
                return await exchange.read_all(_FAILURE)
        except UpstreamError:
            return b""
