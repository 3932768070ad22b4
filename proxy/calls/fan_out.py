"""Calls held back while another writes the prefix they could read.

Within one process: replicas do not know of each other's calls.
"""

import asyncio
from contextlib import suppress
from typing import Final

import msgspec

from proxy.prefix.fan_out import LONGEST
from proxy.prefix.in_flight_writes import Underway
from proxy.prefix.planned import Planned

#: Shorter waits are not worth a word.
_NOTED: Final = 0.01


class Fanout:
    """Holds calls back where that pays, on one event loop."""

    def __init__(self) -> None:
        self._underway = Underway()
        self._doors: dict[int, asyncio.Event] = {}

    async def held(self, planned: Planned, *, streamed: bool) -> Planned:
        """The call once it may go, and no later than in ``LONGEST`` seconds; it goes at once.

        Whoever gets it has to say ``ended`` of it, and ``begun`` before where its answer begins.
        Where it was held back, its notes say so.

        Args:
            planned: The call.
            streamed: Whether its answer comes in pieces, the first of them early.
        """
        began = now = _now()
        end = began + LONGEST
        while now < end and (hold := self._underway.hold(planned, now)) is not None:
            door = self._doors.setdefault(hold.writer, asyncio.Event())
            with suppress(TimeoutError):
                async with asyncio.timeout(min(hold.seconds, end - now)):
                    await door.wait()
            now = _now()
        self._underway.sent(planned, now, streamed=streamed)
        if now - began < _NOTED:
            return planned
        note = f"held back {now - began:.2f} s to read what another call was writing"
        return msgspec.structs.replace(planned, notes=(*planned.notes, note))

    def begun(self, planned: Planned) -> None:
        """Let others go and read what the call wrote, for its answer begins."""
        self._open(self._underway.begun(planned, _now()))

    def ended(self, planned: Planned) -> None:
        """Let others go and write what the call did not get to write."""
        self._open(self._underway.ended(planned))

    def _open(self, writer: int | None) -> None:
        door = self._doors.pop(writer, None) if writer is not None else None
        if door is not None:
            door.set()


def _now() -> float:
    """Seconds of a clock that never goes back."""
    return asyncio.get_running_loop().time()
