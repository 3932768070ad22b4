"""The step of an attempt between its commit point and delivery: recalls of the model are answered.

A recall is answered from the messages of this very call. Before the caller has anything of the
answer, whatever goes wrong sends the call again with its unmodified prompt.
"""

import asyncio
import logging
from typing import Any, Final

import msgspec

from compaction.recall.removed_messages import Recall, RemovedMessages
from compaction.recall.tool_index import MAX_RECALL_TOKENS, MAX_ROUNDS, TOOL_NAME
from proxy.calls.attempts.attempt import Attempt
from proxy.calls.attempts.preparing import prepare_round
from proxy.calls.attempts.sending import upstream_answer
from proxy.calls.attempts.steps import AnsweredAttempt
from proxy.calls.deadlines import AwaitedEvent
from proxy.calls.eligibility.eligibility import CHAT, RESPONSES
from proxy.calls.metering.recall_tally import RecallTally
from proxy.calls.metering.settlement import estimate_from_length
from proxy.calls.recalled_answer import RecalledAnswer, RecalledReader, RecallRound
from proxy.calls.upstream_answer import UpstreamAnswer, read_failure, translate_piece
from proxy.errors import CallerError, UpstreamError
from proxy.providers.kinds import WIRES
from proxy.providers.port import PreparedRequest
from proxy.providers.recalls.chat_recalls import CHAT_RECALLS
from proxy.providers.recalls.messages_recalls import MESSAGES_RECALLS
from proxy.providers.recalls.recall_filter import RecallFormat, RecallRequest
from proxy.providers.recalls.responses_recalls import RESPONSES_RECALLS
from proxy.records.call import MESSAGES
from proxy.records.compaction_result import RECALL_FAILED
from proxy.upstream.port import open_resending, was_never_sent

_log = logging.getLogger("thriftgate.compaction")

_IDEMPOTENCY_KEY: Final = "idempotency-key"
#: The recalls of a prompt, by its API.
_FORMATS: Final = {
    CHAT: CHAT_RECALLS,
    MESSAGES: MESSAGES_RECALLS,
    RESPONSES: RESPONSES_RECALLS,
}
#: Bytes of a conversation from which on it takes a millisecond or more to search.
_MIN_THREADED_BODY_BYTES: Final = 16 * 1024


async def recall(attempt: Attempt, step: AnsweredAttempt) -> AnsweredAttempt:
    """Answer the model's recalls up to its first content for the caller, and from then on.

    Raises:
        UpstreamError: If a round failed before that; the answer is closed with the attempt.
    """
    removed, tally = step.info.compaction.removed, step.info.recall
    answer = step.answer
    if removed is None or tally is None or not isinstance(answer, UpstreamAnswer):
        return step
    format_ = _FORMATS[step.info.sent_call.endpoint]
    rounds = _Rounds(attempt, step, (removed, format_), tally)
    recall_filter = format_.filter_type(TOOL_NAME, streamed=answer.is_stream)
    recalled = RecalledAnswer(answer, step.request.reader, rounds, recall_filter)
    reader = RecalledReader(recalled, step.request.caller_reader)
    request = msgspec.structs.replace(step.request, reader=reader)
    rounds.step = attempt.reach(msgspec.structs.replace(step, answer=recalled, request=request))
    await recalled.commit()
    if recalled.is_whole:
        recalled.first_piece = translate_piece(reader, recalled.first_piece) + reader.end()
    attempt.context.timeline.mark_first_content()
    return rounds.step


class _Rounds:
    """The rounds of one attempt after its first."""

    def __init__(
        self,
        attempt: Attempt,
        step: AnsweredAttempt,
        recalled: tuple[RemovedMessages, RecallFormat],
        tally: RecallTally,
    ) -> None:
        self.step = step
        self._attempt = attempt
        self._removed, self._format = recalled
        self._tally = tally
        self._appended: list[tuple[RecallRequest, list[str]]] = []

    @property
    def is_accepted(self) -> bool:
        """True if the upstream is at work on the round under way, and so may bill it."""
        return self.step.was_accepted

    async def open(
        self, request: RecallRequest, finished: UpstreamAnswer, *, has_delivered: bool
    ) -> RecallRound | None:
        """As ``RecallRounds.open``."""
        is_last = self._tally.rounds >= MAX_ROUNDS
        recalls = [] if is_last else await self._recalls(request)
        self._count(finished, recalls)
        if not recalls:
            return _no_round(has_delivered=has_delivered)
        if not has_delivered:
            self._attempt.context.timeline.ttft = None
        self._appended.append((request, [recalled.text for recalled in recalls]))
        try:
            prepared = await prepare_round(self._attempt, self.step, self._append)
        except (CallerError, ValueError, KeyError):
            return _no_round(has_delivered=has_delivered)
        prepared = _with_own_key(prepared, self._tally.rounds)
        return RecallRound(await self._begin(prepared), prepared.reader)

    def _reach(self, **changes: Any) -> None:  # noqa: ANN401
        """Note what changed of the step."""
        self.step = self._attempt.reach(msgspec.structs.replace(self.step, **changes))

    async def _recalls(self, request: RecallRequest) -> list[Recall]:
        """The answers to a round's recalls, on a thread for a long conversation; none on a bug."""
        call = self.step.info.asked_call
        try:
            if len(call.body) < _MIN_THREADED_BODY_BYTES:
                return self._look_up(request)
            return await asyncio.to_thread(self._look_up, request)
        except Exception:  # noqa: BLE001 - an optimiser's mistake must not cost the call
            _log.exception("A recall could not be answered on call %s", call.id)
            return []

    def _look_up(self, request: RecallRequest) -> list[Recall]:
        """The answers to a round's recalls, within what is left of the tokens."""
        answers: list[Recall] = []
        tokens_left = MAX_RECALL_TOKENS - self._tally.tokens
        for call in request.calls:
            answer = self._removed.answer(call.arguments, tokens_left)
            tokens_left -= answer.tokens
            answers.append(answer)
        return answers

    def _count(self, finished: UpstreamAnswer, recalls: list[Recall]) -> None:
        """Count a round that recalled; what its upstream did not report is estimated."""
        meter, info = finished.meter, self.step.info
        usage = None if meter.has_implausible_usage else meter.usage
        counted = usage or estimate_from_length(info.sent_call, meter.delivered_text(), info.route)
        tokens = sum(recalled.tokens for recalled in recalls)
        self._tally.add_round(counted, tokens, is_estimated=usage is None)
        self._reach(was_accepted=False)

    def _append(self, body: bytes) -> bytes:
        """A body with what was said and recalled in the rounds so far."""
        for request, answers in self._appended:
            body = self._format.append(body, request, answers)
        return body

    async def _begin(self, prepared: PreparedRequest) -> UpstreamAnswer:
        """The answer of the next round, at its first content.

        Raises:
            UpstreamError: If it did not get there.
        """
        attempt = self._attempt
        context, upstream = attempt.context, attempt.choice.route.upstream
        context.watchdog.set_deadline(
            AwaitedEvent.FIRST_BYTE, context.deps.retry_policy.first_byte_s
        )
        try:
            with context.timeline.waiting:
                exchange = await open_resending(context.deps.transport, upstream, prepared)
        except UpstreamError as error:
            self._reach(was_accepted=error.is_billed)
            raise
        except asyncio.CancelledError as error:
            self._reach(was_accepted=not was_never_sent(error))
            raise
        if exchange.status >= 300:
            raise await read_failure(exchange, WIRES[upstream.kind], context.timeline)
        self._reach(was_accepted=True)
        answer = upstream_answer(attempt, exchange, self.step.info)
        try:
            await answer.commit(prepared.reader)
        except BaseException as error:
            if isinstance(error, UpstreamError):
                self._reach(failed_meter=answer.meter)
            exchange.close()
            raise
        return answer


def _with_own_key(prepared: PreparedRequest, number: int) -> PreparedRequest:
    """The request with an idempotency key of its round, where its caller gave one for the call."""
    key = prepared.headers.get(_IDEMPOTENCY_KEY)
    if key is None:
        return prepared
    headers = {**prepared.headers, _IDEMPOTENCY_KEY: f"{key}-{number}"}
    return msgspec.structs.replace(prepared, headers=headers)


def _no_round(*, has_delivered: bool) -> RecallRound | None:
    """None, which ends the answer, where the caller has some of it.

    Raises:
        UpstreamError: If the caller has nothing yet: the prompt is sent again, unmodified.
    """
    if has_delivered:
        return None
    raise UpstreamError(
        "The model's recalls could not be answered.",
        status=422,
        code=RECALL_FAILED,
        retryable=False,
    )
