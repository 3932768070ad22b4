"""Holds calls back while another call writes the cached prefix that they could read.

Works within one process: replicas do not know of each other's calls.
"""

import asyncio
from contextlib import suppress
from typing import Final

import msgspec

from proxy.prefix.in_flight_writes import MAX_WAIT_S, InFlightWrites
from proxy.prefix.planned import Planned

#: Shorter waits are not worth a word.
_MIN_NOTED_WAIT_S: Final = 0.01


class FanOutGate:
    """Holds calls back where that pays, on one event loop."""

    def __init__(self) -> None:
        self._underway = InFlightWrites()
        self._events: dict[int, asyncio.Event] = {}

    async def wait_for_prefix(self, planned: Planned, *, streamed: bool) -> Planned:
        """The call once it may go, and no later than in ``LONGEST`` seconds; it goes at once.

        Then call ``note_ended`` for it, and ``note_begun`` before where its answer begins.
        Where it was held back, its notes say so.

        Args:
            streamed: True if its answer comes in pieces, the first of them early.
        """
        began = now = _now()
        end = began + MAX_WAIT_S
        while now < end and (hold := self._underway.find_wait(planned, now)) is not None:
            door = self._events.setdefault(hold.writer, asyncio.Event())
            with suppress(TimeoutError):
                async with asyncio.timeout(min(hold.seconds, end - now)):
                    await door.wait()
            now = _now()
        planned = self._underway.with_readable_prefix(planned, now)
        self._underway.record_write(planned, now, streamed=streamed)
        if now - began < _MIN_NOTED_WAIT_S:
            return planned
        note = f"held back {now - began:.2f} s to read what another call was writing"
        return msgspec.structs.replace(planned, notes=(*planned.notes, note))

    def note_begun(self, planned: Planned) -> None:
        """Let others go and read what the call wrote, for its answer begins."""
        self._release(self._underway.mark_readable(planned, _now()))

    def note_ended(self, planned: Planned) -> None:
        """Let others go and write what the call did not get to write."""
        self._release(self._underway.forget_write(planned))

    def _release(self, writer: int | None) -> None:
        door = self._events.pop(writer, None) if writer is not None else None
        if door is not None:
            door.set()


def _now() -> float:
    """Seconds of a clock that never goes back."""
    return asyncio.get_running_loop().time()
