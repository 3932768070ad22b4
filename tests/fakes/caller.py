"""A caller that remembers what it got, and may leave or stop reading."""

import asyncio
from collections.abc import Callable

from proxy.calls.ports import Head
from proxy.records.receipt import Receipt


class FakeCaller:
    def __init__(
        self,
        *,
        leaves_after: float | None = None,
        observe: Callable[[], object] = lambda: None,
        trailer: bytes = b"",
        reads: int | None = None,
    ) -> None:
        """Take an answer.

        Args:
            leaves_after: Seconds until the caller hangs up; None for never.
            observe: Asked whenever bytes arrive; what it says is in ``observed``.
            trailer: What the caller wants to hear before the end of a stream.
            reads: How many pieces it takes before it stops reading; None for all.
        """
        self._leaves_after = leaves_after
        self._seen = observe
        self._trailer = trailer
        self._reads = reads
        self.head: Head | None = None
        self.pieces: list[bytes] = []
        self.observed: list[object] = []
        self.receipt: Receipt | None = None
        self.attempts: list[Receipt] = []
        self.is_ended = False
        self.last_piece = b""

    @property
    def body(self) -> bytes:
        return b"".join(self.pieces)

    async def begin(self, head: Head) -> None:
        assert self.head is None
        self.head = head

    async def send(self, piece: bytes) -> None:
        assert self.head is not None
        await self._take(piece)

    async def end(self, piece: bytes) -> None:
        assert not self.is_ended
        self.last_piece = piece
        await self._take(piece)
        self.is_ended = True

    async def send_whole(self, head: Head, body: bytes, receipt: Receipt) -> None:
        await self.begin(head)
        self.receipt = receipt
        await self.end(body)

    def closing_event(self, receipt: Receipt) -> bytes:
        self.receipt = receipt
        return self._trailer

    def note_attempt(self, receipt: Receipt) -> None:
        self.attempts.append(receipt)

    async def wait_until_gone(self) -> None:
        if self._leaves_after is None:
            await asyncio.get_running_loop().create_future()
        await asyncio.sleep(self._leaves_after or 0.0)

    async def _take(self, piece: bytes) -> None:
        if self._reads is not None and len(self.pieces) >= self._reads:
            await asyncio.get_running_loop().create_future()
        if piece:
            self.observed.append(self._seen())
            self.pieces.append(piece)
        await asyncio.sleep(0)
