"""Replicas at which live calls go before prompts to warm."""

import asyncio

import pytest

from proxy.api.prefill_replicas import QUIET_S, CallsFirst, ReplicaOccupancy
from proxy.calls.ports import ReplicaOrder
from proxy.calls.route_choice import RouteChoice
from proxy.errors import CallerError
from tests.fakes.call_dependencies import call, route


class NotedTicket:
    def __init__(self, name: str) -> None:
        self.name, self.why = name, "warm"
        self.notes: list[str] = []

    def send(self) -> None:
        self.notes.append("send")

    def begin_answer(self) -> None:
        self.notes.append("begin")

    def end(self, usage, *, is_comparable, turn=None) -> None:
        self.notes.append("end")


class FixedOrder:
    """Replicas in one order, each time with new tickets."""

    def __init__(self, names: str = "ab") -> None:
        self.names = names
        self.tickets: list[NotedTicket] = []

    async def order(self, call, choices):
        self.tickets = [NotedTicket(name) for name in self.names]
        return ReplicaOrder(
            ready=tuple(RouteChoice(route(t.name), "m", replica=t) for t in self.tickets)
        )


def ordered_choices(port: FixedOrder, occupancy: ReplicaOccupancy, prompt=None):
    return asyncio.run(CallsFirst(port, occupancy, prompt).order(call(b"{}"), ())).ready


def end(choice: RouteChoice) -> None:
    assert choice.replica is not None
    choice.replica.end(None, is_comparable=False)


def test_a_call_passes_all_notes_on_and_counts_while_it_is_there():
    port, occupancy = FixedOrder(), ReplicaOccupancy(lambda: 0.0)
    choices = ordered_choices(port, occupancy)

    choices[0].replica.send()
    choices[0].replica.begin_answer()
    assert dict(occupancy.live) == {"a": 1}
    for choice in choices:
        end(choice)
        end(choice)

    assert dict(occupancy.live) == {}
    assert port.tickets[0].notes == ["send", "begin", "end", "end"]
    assert (choices[1].replica.name, choices[1].replica.why) == ("b", "warm")


def test_a_prompt_is_refused_where_its_replica_answers_a_call():
    occupancy = ReplicaOccupancy(lambda: 0.0)
    ordered_choices(FixedOrder(), occupancy)[0].replica.send()

    with pytest.raises(CallerError) as refused:
        ordered_choices(FixedOrder(), occupancy, asyncio.Event())

    assert (refused.value.code, refused.value.status) == ("replica_busy", 429)
    assert len(ordered_choices(FixedOrder("ba"), occupancy, asyncio.Event())) == 1


def test_a_prompt_waits_until_its_replica_is_quiet():
    now = [5.0]
    occupancy = ReplicaOccupancy(lambda: now[0])
    choice = ordered_choices(FixedOrder(), occupancy)[0]
    choice.replica.send()
    end(choice)

    assert occupancy.is_busy("a")
    assert not occupancy.is_busy("b")
    now[0] += QUIET_S
    assert not occupancy.is_busy("a")


def test_a_call_ends_the_prompt_that_is_warmed_at_its_replica_and_no_other():
    occupancy, here, there = ReplicaOccupancy(lambda: 0.0), asyncio.Event(), asyncio.Event()
    ordered_choices(FixedOrder("a"), occupancy, here)[0].replica.send()
    ordered_choices(FixedOrder("b"), occupancy, there)[0].replica.send()

    ordered_choices(FixedOrder("a"), occupancy)[0].replica.send()

    assert (here.is_set(), there.is_set()) == (True, False)


def test_one_prompt_is_warmed_at_a_replica_the_newest():
    occupancy, earlier, later = ReplicaOccupancy(lambda: 0.0), asyncio.Event(), asyncio.Event()
    first = ordered_choices(FixedOrder("a"), occupancy, earlier)[0]
    first.replica.send()
    second = ordered_choices(FixedOrder("a"), occupancy, later)[0]
    second.replica.send()
    end(first)

    assert (earlier.is_set(), later.is_set()) == (True, False)
    assert occupancy.prompts == {"a": later}
    end(second)
    assert occupancy.prompts == {}
