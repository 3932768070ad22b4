"""Warms prompts on replicas that are not busy, one at a time; live calls come first.

::

    a prompt ── order, send ─ is its replica busy with calls? ─► refused
                       send ─ is another prompt read there? ──► the earlier one ends
    a call ──── send ─ is a prompt read there? ───────────────► that ends at once

A replica is busy where a quarter of its slots answer calls. With four slots or less, or an unknown
number, one call is enough, also one that ended a moment ago.
"""

import asyncio
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

import msgspec

from proxy.calls.metering.finished_turn import FinishedTurn
from proxy.calls.ports import Dependencies, ReplicaOrder, ReplicaPort
from proxy.calls.route_choice import ReplicaTicket, RouteChoice
from proxy.errors import CallerError
from proxy.records.call import Call
from slo.usage import Usage

#: Seconds for which a call that has ended counts as one: callers who go on at once would find its
#: replica busy. After as many a refused prompt may be sent again.
QUIET_S: Final = 1.0
#: Share of a replica's slots from which on its calls leave no room for a prompt.
_BUSY_SHARE: Final = 0.25


class ReplicaOccupancy:
    """The live calls of each replica, and the prompt that is warmed there.

    Attributes:
        live: Calls under way, by the replica's name.
        prompts: The event that ends the warming of a prompt, by the replica's name.
    """

    def __init__(self, ticks: Callable[[], float]) -> None:
        self.live: Counter[str] = Counter()
        self.prompts: dict[str, asyncio.Event] = {}
        self._ticks = ticks
        self._ended_at: dict[str, float] = {}

    def is_busy(self, ticket: ReplicaTicket) -> bool:
        """True if a ticket's replica has calls to answer, and no room for a prompt beside them."""
        ended_at = self._ended_at.get(ticket.name)
        is_quiet = ended_at is None or self._ticks() - ended_at >= QUIET_S
        calls = max(self.live[ticket.name], 0 if is_quiet else 1)
        return calls >= max(1, _BUSY_SHARE * ticket.slots)

    def end_call(self, name: str) -> None:
        """Count a live call as over."""
        self._ended_at[name] = self._ticks()
        self.live[name] -= 1
        if not self.live[name]:
            del self.live[name]

    def end_prompt(self, name: str) -> None:
        """End the warming of the prompt at a replica, if there is one."""
        if (event := self.prompts.pop(name, None)) is not None:
            event.set()


@dataclass(slots=True)
class _CountedTicket:
    """A ticket that is counted while its call is at its replica."""

    ticket: ReplicaTicket
    occupancy: ReplicaOccupancy
    prompt: asyncio.Event | None
    is_there: bool = False

    @property
    def name(self) -> str:
        """Name of the replica."""
        return self.ticket.name

    @property
    def why(self) -> str:
        """Reason for the order of the replicas."""
        return self.ticket.why

    @property
    def slots(self) -> int:
        """Calls that the replica takes at once beside those of others; 0 where unknown."""
        return self.ticket.slots

    def send(self) -> None:
        """Note that the call goes there, and end the prompt that is warmed there.

        Raises:
            CallerError: If a prompt's replica has become busy since it was ordered.
        """
        if self.prompt is not None and self.occupancy.is_busy(self.ticket):
            raise _busy_error()
        self.is_there = True
        self.occupancy.end_prompt(self.name)
        if self.prompt is None:
            self.occupancy.live[self.name] += 1
        else:
            self.occupancy.prompts[self.name] = self.prompt
        self.ticket.send()

    def begin_answer(self) -> None:
        """Note that the answer begins."""
        self.ticket.begin_answer()

    def end(
        self, usage: Usage | None, *, is_comparable: bool, turn: FinishedTurn | None = None
    ) -> None:
        """Note that the call is over there."""
        self.ticket.end(usage, is_comparable=is_comparable, turn=turn)
        if not self.is_there:
            return
        self.is_there, occupancy = False, self.occupancy
        if self.prompt is not None:
            if occupancy.prompts.get(self.name) is self.prompt:
                del occupancy.prompts[self.name]
        else:
            occupancy.end_call(self.name)


class CallsFirst:
    """Orders replicas as another port does, and lets live calls go before prompts to warm.

    Args:
        prompt: The event that ends the prompt's warming, where the call warms one.
    """

    def __init__(
        self, port: ReplicaPort, occupancy: ReplicaOccupancy, prompt: asyncio.Event | None = None
    ) -> None:
        self.port = port
        self._occupancy = occupancy
        self._prompt = prompt

    async def order(self, call: Call, choices: tuple[RouteChoice, ...]) -> ReplicaOrder:
        """The order of a model's replicas.

        Raises:
            CallerError: If a prompt is to be warmed at a replica that is busy with calls.
        """
        order = await self.port.order(call, choices)
        ready = tuple(map(self._count, order.ready))
        if self._prompt is not None:
            best = ready[0].replica if ready else None
            if best is not None and self._occupancy.is_busy(best):
                raise _busy_error()
            ready = ready[:1]
        return msgspec.structs.replace(order, ready=ready)

    def _count(self, choice: RouteChoice) -> RouteChoice:
        if choice.replica is None:
            return choice
        ticket = _CountedTicket(choice.replica, self._occupancy, self._prompt)
        return msgspec.structs.replace(choice, replica=ticket)


def _busy_error() -> CallerError:
    return CallerError(
        "The replica answers calls now, so no prompt is warmed there."
        " Send the call itself, or try again later.",
        code="replica_busy",
        status=429,
        retry_after=QUIET_S,
    )


def put_calls_first(
    deps: Dependencies, occupancy: ReplicaOccupancy, prompt: asyncio.Event | None = None
) -> Dependencies:
    """Dependencies with replicas at which live calls go before prompts to warm.

    Args:
        prompt: The event that ends the prompt's warming, where the call warms one.
    """
    port = deps.replicas
    if port is None:
        return deps
    own = port.port if isinstance(port, CallsFirst) else port
    return replace(deps, replicas=CallsFirst(own, occupancy, prompt))
