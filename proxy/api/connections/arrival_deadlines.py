"""Deadlines on a caller's connection for its next step: to send a request, or to read an answer.

::

    connected ─▶ HEADERS ─▶ BODY ─▶ ANSWER ─▶ IDLE ─▶ HEADERS …

Each connection has one timer, which checks the phase when it fires. A request that arrives at once,
as most do, sets none.
"""

import asyncio
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, Protocol

_NEVER_S: Final = float("inf")


class ArrivalPhase(StrEnum):
    """The caller's next move on a connection."""

    HEADERS = "headers"
    BODY = "body"
    ANSWER = "answer"
    IDLE = "idle"


@dataclass(frozen=True, slots=True, kw_only=True)
class ArrivalTimeouts:
    """Seconds that a caller has, phase by phase.

    Attributes:
        headers: For a request's complete headers, from its first byte or from connecting.
        body_window: In each of which the body has to arrive at ``body_min_rate`` on average.
        body_min_rate: Bytes a second.
        unread: For taking any of an answer that waits to be sent.
    """

    headers: float = 10.0
    body_window: float = 10.0
    body_min_rate: float = 1024.0
    unread: float = 300.0


class DeadlineConnection(Protocol):
    """A connection whose caller is held to deadlines."""

    @property
    def is_held(self) -> bool:
        """True if the gateway itself keeps the caller from sending."""
        ...

    @property
    def unsent_bytes(self) -> int:
        """Bytes of answers that the caller has not taken yet."""
        ...

    def cut_off(self, phase: ArrivalPhase) -> None:
        """Close the connection: the caller's time in this phase is over."""
        ...


class ArrivalDeadlines:
    """Watches one connection from its beginning."""

    __slots__ = (
        "_connection", "_ends", "_idle", "_loop", "_received", "_rings", "_timeouts", "_timer",
        "_unsent", "_unsent_since", "phase",
    )  # fmt: skip

    def __init__(
        self,
        connection: DeadlineConnection,
        loop: asyncio.AbstractEventLoop,
        timeouts: ArrivalTimeouts,
        idle: float,
    ) -> None:
        """Expect the headers of the first request.

        Args:
            connection: The connection; it is cut off where its caller is late.
            idle: Seconds that a connection without a request is kept.
        """
        self._connection = connection
        self._loop = loop
        self._timeouts = timeouts
        self._idle = idle
        self._received = self._unsent = 0
        self._unsent_since = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self._rings = _NEVER_S
        self.phase = ArrivalPhase.HEADERS
        self._ends = loop.time() + timeouts.headers
        self.arm()

    def expect_headers(self) -> None:
        """Expect the rest of a request's headers; the first request's are expected already."""
        if self.phase is not ArrivalPhase.HEADERS:
            self.phase = ArrivalPhase.HEADERS
            self._ends = self._loop.time() + self._timeouts.headers

    def expect_body(self) -> None:
        """Expect the body of the request whose headers came."""
        self.phase = ArrivalPhase.BODY
        self._received = 0
        self._ends = self._loop.time() + self._timeouts.body_window

    def count_bytes(self, size: int) -> None:
        """Count bytes of a body."""
        self._received += size

    def expect_answer_taken(self) -> None:
        """Expect nothing but that the caller takes its answer."""
        self.phase = ArrivalPhase.ANSWER
        self._ends = _NEVER_S

    def expect_next_request(self) -> None:
        """Expect another request, for as long as a connection is kept."""
        self.phase = ArrivalPhase.IDLE
        self._ends = self._loop.time() + self._idle
        self.arm()

    def arm(self) -> None:
        """See that the timer rings in time for the phase."""
        if self._timer is not None:
            if self._rings <= self._ends:  # and within the time for an unread answer
                return
            self._timer.cancel()
        rings = min(self._ends, self._loop.time() + self._timeouts.unread)
        self._rings = rings
        self._timer = self._loop.call_at(rings, self._check)

    def stop(self) -> None:
        """End the watch: the connection is lost."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _check(self) -> None:
        self._timer = None
        if self._is_unread():
            self._connection.cut_off(ArrivalPhase.ANSWER)
            return
        if self._loop.time() >= self._ends and not self._is_prolonged():
            phase = self.phase
            self.expect_answer_taken()  # what is closed may have something to send yet
            self._connection.cut_off(phase)
        self.arm()

    def _is_prolonged(self) -> bool:
        """Begin the phase's time anew, where the caller is not to blame or sent enough."""
        timeouts = self._timeouts
        window = timeouts.headers if self.phase is ArrivalPhase.HEADERS else timeouts.body_window
        needed = timeouts.body_min_rate * timeouts.body_window
        is_enough = self.phase is ArrivalPhase.BODY and self._received >= needed
        if self.phase is ArrivalPhase.IDLE or not (is_enough or self._connection.is_held):
            return False
        self._received = 0
        self._ends = self._loop.time() + window
        return True

    def _is_unread(self) -> bool:
        """True if the caller has taken nothing of an answer for too long."""
        now, unsent = self._loop.time(), self._connection.unsent_bytes
        if not unsent or unsent != self._unsent:
            self._unsent, self._unsent_since = unsent, now
            return False
        return now - self._unsent_since >= self._timeouts.unread
