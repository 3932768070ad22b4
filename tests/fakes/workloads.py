"""Workloads: sessions of calls, and when each call is made at a given rate.

A session is one conversation's calls in order. A workload says how its sessions overlap; ``timed``
lays them out so that all of them together make so many calls a minute.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from math import ceil
from typing import Any, overload

import orjson

from tests.fakes.handbook import dice

Json = dict[str, Any]
#: Seconds from one call of a conversation to its next, at least; an agent's step takes about that.
SHORTEST_GAP_S = 2.0
#: The same where sessions overlap: a person reads, a tool runs.
USUAL_GAP_S = 20.0
#: Sessions that overlap at least.
_FEWEST_AT_ONCE = 6
#: Seconds between two calls of one burst.
_BURST_STEP_S = 0.05


@dataclass(frozen=True, kw_only=True)
class SessionTurn:
    """One call and the answer that its caller saw; ``reply`` is null where none was recorded."""

    body: Json
    reply: Json | None = None


@dataclass(frozen=True, kw_only=True)
class Session:
    """One conversation.

    Attributes:
        feature: What ``x-thriftgate-feature`` says; "" for no header.
    """

    name: str
    turns: Sequence[SessionTurn]
    feature: str = ""


class Sessions(Sequence[Session]):
    """Sessions that are made when they are first asked for.

    Args:
        count: How many there are.
        make: Makes one of a number, always the same.
    """

    def __init__(self, count: int, make: Callable[[int], Session]) -> None:
        self._count = count
        self._make = make
        self._made: dict[int, Session] = {}

    def __len__(self) -> int:
        return self._count

    @overload
    def __getitem__(self, index: int) -> Session: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Session]: ...
    def __getitem__(self, index: int | slice) -> Session | Sequence[Session]:
        if isinstance(index, slice):
            return [self[position] for position in range(*index.indices(self._count))]
        if not 0 <= index < self._count:
            raise IndexError(index)
        if index not in self._made:
            self._made[index] = self._make(index)
        return self._made[index]


def change_sessions(them: Sequence[Session], change: Callable[[Session], Session]) -> Sessions:
    """The same sessions, each changed."""
    return Sessions(len(them), lambda index: change(them[index]))


@dataclass(frozen=True, kw_only=True)
class Pace:
    """Spreads a workload's calls over its sessions.

    Attributes:
        at_once: Sessions open at once; 0 for as many as give each the usual gap, 1 for as few as
            can be.
        burst: Calls made together; then nobody calls until the rate is met again.
        pause_s: Seconds without any call after each ``pause_every`` calls.
    """

    at_once: int = 0
    burst: int = 1
    pause_s: float = 0.0
    pause_every: int = 20

    def sessions_at_once(self, rate: float) -> int:
        """Sessions open at once where all of them make ``rate`` calls a minute."""
        fewest = ceil(rate / 60 * SHORTEST_GAP_S)
        if self.at_once:
            return max(self.at_once, fewest)
        return max(_FEWEST_AT_ONCE, ceil(rate / 60 * USUAL_GAP_S))


ONE_BY_ONE = Pace(at_once=1)
OVERLAPPING = Pace()


@dataclass(frozen=True, kw_only=True)
class Workload:
    """A list of sessions to send.

    Attributes:
        name: Unlike any other workload's.
        sessions: In the order in which they begin.
        dressed: Adds what only callers of one cache regime say, such as their own marks.
    """

    name: str
    sessions: Sequence[Session]
    pace: Pace = OVERLAPPING
    dressed: Callable[[Json, str], Json] | None = None

    @property
    def calls(self) -> int:
        """Calls of all sessions."""
        return sum(len(session.turns) for session in self.sessions)


@dataclass(frozen=True, kw_only=True)
class TimedCall:
    """A call and when it is made, in seconds since the first."""

    at: float
    session: Session
    turn: SessionTurn

    def body(self, workload: Workload, model: str, regime: str) -> bytes:
        """The bytes that a caller of this model sends."""
        body = {**self.turn.body, "model": model}
        return orjson.dumps(workload.dressed(body, regime) if workload.dressed else body)


def timed_calls(workload: Workload, rate: float, limit: int | None = None) -> list[TimedCall]:
    """The first ``limit`` calls, in order, at ``rate`` calls a minute in all.

    A session's gap is about the number of open sessions ÷ rate, and never under two seconds; so a
    workload of few sessions is slower than asked for.
    """
    pace = workload.pace
    timed: list[TimedCall] = []
    steps = _steps(workload, rate)
    for number, (second, session, turn) in zip(range(limit or workload.calls), steps, strict=False):
        together = number // pace.burst * pace.burst
        start = timed[together].at if together < number else second + _pauses(pace, number)
        step = (number - together) * _BURST_STEP_S
        timed.append(TimedCall(at=start + step, session=session, turn=turn))
    return timed


def _pauses(pace: Pace, number: int) -> float:
    return pace.pause_s * (number // pace.pause_every)


def _steps(workload: Workload, rate: float) -> Iterator[tuple[float, Session, SessionTurn]]:
    """Each call and when it is made, before bursts and pauses."""
    roll = dice("steps", workload.name, rate)
    at_once = min(workload.pace.sessions_at_once(rate), len(workload.sessions))
    gap = max(SHORTEST_GAP_S, at_once * 60 / rate)
    waiting = iter(workload.sessions)
    open_: list[tuple[float, int, Session, int]] = []
    for number, session in zip(range(at_once), waiting, strict=False):
        heappush(open_, (gap * number / at_once, number, session, 0))
    started = at_once
    while open_:
        second, number, session, turn = heappop(open_)
        yield second, session, session.turns[turn]
        later = second + gap * roll.uniform(0.7, 1.3)
        if turn + 1 < len(session.turns):
            heappush(open_, (later, number, session, turn + 1))
        elif (following := next(waiting, None)) is not None:
            heappush(open_, (later, started, following, 0))
            started += 1
