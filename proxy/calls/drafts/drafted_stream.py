"""The stream of a call that has a draft: the draft's events, and then the answer, byte for byte.

::

    head ─ draft ─ draft ─┬─ first content of the answer ─ answer …
                          └─ the answer fails ─ error event

The head is sent with the draft's first words, so what is known only later stands in no header.
Nothing of the draft follows the first byte of the answer.
"""

import asyncio
from collections.abc import Callable

from proxy.calls.ports import Caller, Head
from proxy.errors import ProxyError, UpstreamError
from proxy.providers.draft_events import draft_event, draft_text
from proxy.providers.stream_endings import error_event
from proxy.records.call import Call
from proxy.records.receipt import Receipt

#: Header of a stream that begins with a draft: the model that drafts.
DRAFT_HEADER = "x-thriftgate-draft"
#: Seconds that the answer's second piece waits until the draft is priced, for the closing account.
_MAX_PRICING_WAIT_S = 0.05


class DraftedStream:
    """One caller's stream, to which the draft and the answer write; it is the answer's caller.

    Attributes:
        has_begun: True if anything was sent.
        has_answer: True once the answer began, or its place was taken by an error.
    """

    def __init__(self, caller: Caller, call: Call, model: str) -> None:
        """Write to this caller.

        Args:
            model: The public name of the model that drafts.
        """
        self._caller = caller
        self._call = call
        self._model = model
        self._lock = asyncio.Lock()
        self._end_draft: Callable[[], asyncio.Task[None]] | None = None
        self._ending: asyncio.Task[None] | None = None
        self._pieces = 0
        self.has_begun = False
        self.has_answer = False

    def follow(self, end_draft: Callable[[], asyncio.Task[None]]) -> None:
        """Have the draft ended once the answer begins; its task is over once it is priced."""
        self._end_draft = end_draft

    async def add_draft(self, text: str, *, is_last: bool = False) -> None:
        """Send a piece of the draft, unless the answer has begun."""
        async with self._lock:
            if self.has_answer:
                return
            if not self.has_begun:
                headers = {"content-type": "text/event-stream", DRAFT_HEADER: self._model}
                await self._caller.begin(Head(200, headers, "", ()))
                self.has_begun = True
            event = draft_event(self._call, self._model, text, is_last=is_last)
            await self._caller.send(event)

    async def end_with_error(self, error: ProxyError) -> bool:
        """End with an error a stream whose draft is all that was sent; False for any other."""
        if not self.has_begun or self.has_answer:
            return False
        await self._take_over()
        await self._caller.end(error_event(self._call.endpoint, error))
        return True

    async def begin(self, head: Head) -> None:
        """Begin the answer; its head is sent where no draft was."""
        await self._take_over()
        if not self.has_begun:
            self.has_begun = True
            await self._caller.begin(head)

    async def send(self, piece: bytes) -> None:
        """Send a piece of the answer."""
        self._pieces += 1
        if self._pieces == 2 and self._ending is not None:
            await asyncio.wait({self._ending}, timeout=_MAX_PRICING_WAIT_S)
        await self._caller.send(piece)

    async def end(self, piece: bytes) -> None:
        """Send the last piece, which may be empty."""
        await self._caller.end(piece)

    async def send_whole(self, head: Head, body: bytes, receipt: Receipt) -> None:
        """Send an answer that is no stream; after a draft there is no form for it but an error."""
        await self._take_over()
        if not self.has_begun:
            await self._caller.send_whole(head, body, receipt)
            return
        error = error_event(self._call.endpoint, _no_stream())
        await self._caller.end(error)

    def closing_event(self, receipt: Receipt) -> bytes:
        """The event that ends a stream with its cost; b"" where the caller did not ask."""
        return self._caller.closing_event(receipt)

    def note_attempt(self, receipt: Receipt) -> None:
        """Note another attempt of the call, whose cost is part of the call's."""
        self._caller.note_attempt(receipt)

    async def wait_until_gone(self) -> None:
        """Return once the caller has left."""
        await self._caller.wait_until_gone()

    async def _take_over(self) -> None:
        """Let nothing of the draft follow; what is being sent of it is sent first."""
        self.has_answer = True
        async with self._lock:
            if self._end_draft is not None:
                self._ending = self._end_draft()


class DraftCaller:
    """The draft's caller: of its answer it takes the text."""

    def __init__(self, stream: DraftedStream, endpoint: str) -> None:
        self._stream = stream
        self._endpoint = endpoint
        self._has_text = False

    async def begin(self, head: Head) -> None:
        """Nothing: the stream begins with the first text."""

    async def send(self, piece: bytes) -> None:
        """Show the text of a run of events."""
        if text := draft_text(self._endpoint, piece):
            self._has_text = True
            await self._stream.add_draft(text)

    async def end(self, piece: bytes) -> None:
        """Show the rest of the text, and that it is all."""
        text = draft_text(self._endpoint, piece)
        if text or self._has_text:
            await self._stream.add_draft(text, is_last=True)

    async def send_whole(self, head: Head, body: bytes, receipt: Receipt) -> None:
        """Nothing: what comes all at once is no draft."""

    def closing_event(self, receipt: Receipt) -> bytes:
        """Nothing: the stream ends with the answer."""
        return b""

    def note_attempt(self, receipt: Receipt) -> None:
        """Note the draft's cost, which is part of the call's."""
        self._stream.note_attempt(receipt)

    async def wait_until_gone(self) -> None:
        """Return once the caller has left."""
        await self._stream.wait_until_gone()


def _no_stream() -> UpstreamError:
    return UpstreamError(
        "The upstream's answer was no stream, and a draft had begun one. Ask again without"
        " x-thriftgate-draft.",
        status=502,
        code="answer_not_streamed",
        retryable=True,
    )
