"""An answer in flight that equal calls share: recorded as it comes, read by each from its start.

::

    pipeline of the first call ─ RecordingCaller ─ Flight ─┬─ FlightReader ─ the first call's caller
                                                           ├─ FlightReader ─ one that came meanwhile
                                                           └─ …

Each reader goes at its own pace: a slow caller, also the first one, holds up no other until a whole
bound of bytes waits for it. The first call goes on as long as anybody reads.
"""

import asyncio
from typing import Final

import msgspec

from proxy.calls.ports import Caller, Head
from proxy.fast_path.answer_cache.cache_request import CacheRequest
from proxy.records.receipt import Outcome, Receipt

#: Longest answer that is kept, and most bytes that wait for the slowest reader.
MAX_ANSWER_BYTES: Final = 2**20


class Run(msgspec.Struct, frozen=True):
    """Bytes of a stream that a reader has not sent yet.

    Attributes:
        before: Those before the account of the call.
        after: Those behind it; None where it comes later.
        is_last: True if nothing follows.
    """

    before: bytes
    after: bytes | None
    is_last: bool


class Flight:
    """An answer under way.

    Attributes:
        request: The first call.
        head: Status and headers, once it began.
        whole: Its body, where it is no stream, once it came.
        receipt: The first call's receipt, once its upstream's part ended well or in an error.
        is_ended: True once nothing more comes.
        is_mixed: True if it goes on from what another attempt left.
        deserted: Set once nobody reads it any more.
    """

    __slots__ = (
        "_changed", "_dropped", "_failed", "_pieces", "_readers", "_room", "_size", "closing_piece",
        "deserted", "head", "is_ended", "is_mixed", "is_outgrown", "key", "max_bytes", "receipt",
        "request", "whole",
    )  # fmt: skip

    def __init__(
        self, key: str, max_bytes: int = MAX_ANSWER_BYTES, request: CacheRequest | None = None
    ) -> None:
        self.key = key
        self.request = request
        self.max_bytes = max_bytes
        self.head: Head | None = None
        self.whole: bytes | None = None
        self.receipt: Receipt | None = None
        self.closing_piece: int | None = None
        self.is_ended = self.is_mixed = self.is_outgrown = self._failed = False
        self.deserted = asyncio.Event()
        self._pieces: list[bytes] = []
        self._dropped = 0
        self._size = 0
        self._readers: set[FlightReader] = set()
        self._changed, self._room = asyncio.Event(), asyncio.Event()

    @property
    def is_joinable(self) -> bool:
        """True if a caller can still get all of it."""
        return not (self._failed or self.is_outgrown or self.deserted.is_set())

    def join(self) -> "FlightReader":
        """A reader of all of it."""
        reader = FlightReader(self)
        self._readers.add(reader)
        return reader

    def begin(self, head: Head, whole: bytes | None = None) -> None:
        """Note that it has begun; with its whole body, where it is no stream."""
        self.head, self.whole = head, whole
        self.is_ended = whole is not None
        self.is_outgrown = whole is not None and len(whole) > self.max_bytes
        self._wake(self._changed)

    def add(self, piece: bytes, *, is_last: bool = False) -> None:
        """Record a piece of a stream."""
        self._pieces.append(piece)
        self._size += len(piece)
        self.is_ended = is_last
        self._wake(self._changed)

    def close_account(self, receipt: Receipt) -> None:
        """Note the first call's receipt: the account of each call goes before the next piece."""
        self.receipt = receipt
        self.closing_piece = self._dropped + len(self._pieces)

    def fail(self) -> None:
        """Note that nothing more comes; whoever has nothing of it yet goes on alone."""
        self._failed = not self.is_ended
        self.is_ended = True
        self._wake(self._changed)

    async def wait_for_room(self) -> None:
        """Wait until no reader has more than the bound before it; an outgrown flight keeps less."""
        while self._size > self.max_bytes and not self.is_ended:
            self.is_outgrown = True
            self._drop_read_pieces()
            if self._size <= self.max_bytes:
                return
            await self._room.wait()

    async def wait_for_change(self) -> None:
        """Wait for the next piece, or the end."""
        await self._changed.wait()

    def leave(self, reader: "FlightReader") -> None:
        """Note that a reader reads no more."""
        self._readers.discard(reader)
        self.note_progress()
        if not self._readers:
            self.deserted.set()

    def note_progress(self) -> None:
        """Note that a reader went on."""
        if self.is_outgrown:
            self._wake(self._room)

    def run_from(self, position: int) -> Run:
        """All that came from a piece on.

        Args:
            position: Its number, of which no piece was dropped.
        """
        start, closing = position - self._dropped, self.closing_piece
        if closing is None or closing < position or closing >= self._dropped + len(self._pieces):
            return Run(b"".join(self._pieces[start:]), None, self.is_ended)
        at = closing - self._dropped
        before, after = b"".join(self._pieces[start:at]), b"".join(self._pieces[at:])
        return Run(before, after, self.is_ended)

    @property
    def piece_count(self) -> int:
        """Number of pieces so far."""
        return self._dropped + len(self._pieces)

    @property
    def has_failed(self) -> bool:
        """True if it ended without its end."""
        return self._failed

    def recorded_body(self) -> tuple[bytes, int] | None:
        """All of it, and where a call's account goes in a stream, else -1; None if not kept.

        What is too long is not kept, nor what did not end well, nor what several upstreams said.
        """
        receipt = self.receipt
        if receipt is None or receipt.outcome is not Outcome.ANSWERED or receipt.status != 200:
            return None
        if self.is_mixed or self.is_outgrown or self._failed or not self.is_ended:
            return None
        if self.whole is not None:
            return self.whole, -1
        closing = self.closing_piece or 0
        return b"".join(self._pieces), sum(map(len, self._pieces[:closing]))

    def _drop_read_pieces(self) -> None:
        """Forget the pieces that every reader has sent."""
        least = min((reader.position for reader in self._readers), default=self.piece_count)
        dropped = self._pieces[: least - self._dropped]
        del self._pieces[: least - self._dropped]
        self._dropped = least
        self._size -= sum(map(len, dropped))

    @staticmethod
    def _wake(event: asyncio.Event) -> None:
        """Wake all who wait now, and nobody who will."""
        event.set()
        event.clear()


class FlightReader:
    """One caller's place in a flight.

    Attributes:
        position: Number of the piece that it sends next.
    """

    __slots__ = ("flight", "position")

    def __init__(self, flight: Flight) -> None:
        self.flight = flight
        self.position = 0

    async def head(self) -> Head | None:
        """The head, once the answer has begun; None where it never will."""
        flight = self.flight
        while flight.head is None and not flight.has_failed:
            await flight.wait_for_change()
        return flight.head

    async def next_run(self) -> Run:
        """All that came since the last run; waits for more."""
        flight = self.flight
        while self.position == flight.piece_count and not flight.is_ended:
            await flight.wait_for_change()
        run = flight.run_from(self.position)
        self.position = flight.piece_count
        flight.note_progress()
        return run

    def leave(self) -> None:
        """Read no more."""
        self.flight.leave(self)


class RecordingCaller:
    """The caller of a call whose answer is shared: it records what the pipeline sends.

    The first call's own caller is one of the readers.
    """

    __slots__ = ("_flight", "_own", "_reader")

    def __init__(self, own: Caller, flight: Flight, reader: FlightReader) -> None:
        self._own = own
        self._flight = flight
        self._reader = reader

    async def begin(self, head: Head) -> None:
        """Record the head of an answer that follows in pieces."""
        self._flight.begin(head)

    async def send(self, piece: bytes) -> None:
        """Record a piece; waits while the slowest reader has too much before it."""
        self._flight.add(piece)
        await self._flight.wait_for_room()

    async def end(self, piece: bytes) -> None:
        """Record the last piece."""
        self._flight.add(piece, is_last=True)

    async def send_whole(self, head: Head, body: bytes, receipt: Receipt) -> None:
        """Record an answer that is complete."""
        self._flight.receipt = receipt
        self._flight.begin(head, body)

    def closing_event(self, receipt: Receipt) -> bytes:
        """Nothing: each reader writes its own call's."""
        self._flight.close_account(receipt)
        return b""

    def note_attempt(self, receipt: Receipt) -> None:
        """Note another attempt of the first call."""
        if receipt.outcome is Outcome.BROKEN and not receipt.final:
            self._flight.is_mixed = True
        self._own.note_attempt(receipt)

    async def wait_until_gone(self) -> None:
        """Return once the caller has left, or reads no more, and nobody else reads the answer.

        Of an answer that has ended, nothing is saved by a caller that reads no more.
        """
        deserted, flight = self._flight.deserted, self._flight
        gone = asyncio.ensure_future(self._own.wait_until_gone())
        stopped = asyncio.ensure_future(deserted.wait())
        try:
            await asyncio.wait({gone, stopped}, return_when=asyncio.FIRST_COMPLETED)
            if gone.done() or flight.is_ended:
                await gone
            self._reader.leave()
            await deserted.wait()
        finally:
            gone.cancel()
            stopped.cancel()
