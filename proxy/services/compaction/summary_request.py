"""The request for notes as a call of its own, made for its conversation's team and key.

Its feature is a separate one, and it takes the whole pipeline: budgets hold it, the ledger keeps
it, and reports show its cost.
"""

from collections.abc import Awaitable, Callable
from typing import Final

import msgspec

from proxy.calls.deadlines import CallWatchdog, WatchdogTimer
from proxy.calls.eligibility.eligibility import CHAT
from proxy.calls.pipeline import serve
from proxy.calls.ports import CallContext, Caller, Dependencies, Head
from proxy.records.call import Call
from proxy.records.compaction_result import summary_feature
from proxy.records.receipt import Receipt
from proxy.records.request_fields import parse_request_fields
from proxy.records.timeline import Timeline

CallServer = Callable[[Call, Caller], Awaitable[None]]
"""Answers a call; raises a ``ProxyError`` where nothing was sent."""

#: Bytes of an answer that are taken.
_MAX_ANSWER_BYTES: Final = 512 * 1024


class SummaryReply:
    """A caller who only listens; one answer, bounded.

    Attributes:
        status: The answer's; 0 before it begins.
        body: Body received; b"" where it was too long.
    """

    def __init__(self, max_bytes: int = _MAX_ANSWER_BYTES) -> None:
        self._bytes_left = max_bytes
        self.status = 0
        self.body = b""

    async def begin(self, head: Head) -> None:
        """Note the status."""
        self.status = head.status

    async def send(self, piece: bytes) -> None:
        """Keep a piece; once it is too much, nothing."""
        self._bytes_left -= len(piece)
        self.body = self.body + piece if self._bytes_left >= 0 else b""

    async def end(self, piece: bytes) -> None:
        """Keep the last piece."""
        await self.send(piece)

    async def send_whole(self, head: Head, body: bytes, _receipt: Receipt) -> None:
        """Keep the whole answer."""
        await self.begin(head)
        await self.send(body)

    def closing_event(self, _receipt: Receipt) -> bytes:
        """Nothing: the ledger has it."""
        return b""

    def note_attempt(self, receipt: Receipt) -> None:
        """Nothing: the ledger has it."""

    async def wait_until_gone(self) -> None:
        """Returns at once; a request for notes has no caller that could leave."""


class _AnswerMessage(msgspec.Struct, frozen=True):
    content: str | None = None


class _Choice(msgspec.Struct, frozen=True):
    message: _AnswerMessage = _AnswerMessage()
    finish_reason: str | None = None


class _Answer(msgspec.Struct, frozen=True):
    choices: tuple[_Choice, ...] = ()


_answer = msgspec.json.Decoder(_Answer).decode


def call_server(deps: Dependencies, ticks: Callable[[], float]) -> CallServer:
    """A server of calls that serves them as the API does.

    Args:
        ticks: Seconds of a clock that goes forward.
    """

    async def serve_call(call: Call, caller: Caller) -> None:
        with CallWatchdog(WatchdogTimer(deps.tasks.start)) as watch:
            await serve(CallContext(call, caller, deps, watch, Timeline(ticks)))

    return serve_call


def request_template(call: Call) -> Call:
    """The fields that a question takes from the call that was compacted: its tenant and feature.

    Of its headers none is taken: they are about that call. Nothing asks for compaction of it.
    """
    return msgspec.structs.replace(
        call,
        method="POST",
        endpoint=CHAT,
        query="",
        headers={"content-type": "application/json"},
        body=b"",
        fields=None,
        feature=summary_feature(call.feature),
        conversation="",
        slots="",
        compaction="off",
        notes=(),
        origin=None,
        is_own=True,
    )


def summary_call(template: Call, body: bytes, call_id: str, now: float) -> Call:
    """The call that asks this.

    Raises:
        CallerError: If it cannot be asked.
    """
    return msgspec.structs.replace(
        template, id=call_id, body=body, fields=parse_request_fields(body), arrived=now
    )


def answer_text(reply: SummaryReply) -> tuple[str, str]:
    """The model's answer and its finish reason; "" for both where there is no readable answer."""
    try:
        choices = _answer(reply.body).choices if reply.status == 200 else ()
    except (msgspec.DecodeError, RecursionError, UnicodeError):
        choices = ()
    if not choices:
        return "", ""
    return choices[0].message.content or "", choices[0].finish_reason or ""
