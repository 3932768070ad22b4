"""Replicas at which live calls go before prompts to warm."""

import asyncio
from dataclasses import replace

import pytest

from proxy.api.prefill_replicas import QUIET_S, CallsFirst, ReplicaOccupancy, put_calls_first
from proxy.calls.ports import ReplicaOrder
from proxy.calls.route_choice import RouteChoice
from proxy.errors import CallerError
from proxy.records.receipt import Outcome
from proxy.records.timeline import Timeline
from tests.fakes.call_dependencies import NoPlanning, call, fake_dependencies, route, serve_call
from tests.fakes.caller import FakeCaller
from tests.fakes.upstream import FakeTransport


class NotedTicket:
    def __init__(self, name: str, slots: int = 0) -> None:
        self.name, self.why, self.slots = name, "warm", slots
        self.notes: list[str] = []

    def send(self) -> None:
        self.notes.append("send")

    def begin_answer(self) -> None:
        self.notes.append("begin")

    def end(self, usage, *, is_comparable, turn=None) -> None:
        self.notes.append("end")


class FixedOrder:
    """Replicas in one order, each time with new tickets."""

    def __init__(self, names: str = "ab", slots: int = 0) -> None:
        self.names, self.slots = names, slots
        self.tickets: list[NotedTicket] = []

    async def order(self, call, choices):
        self.tickets = [NotedTicket(name, self.slots) for name in self.names]
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


@pytest.mark.parametrize(("slots", "is_busy"), [(0, True), (1, True), (4, True), (5, False)])
def test_a_prompt_waits_until_a_replica_of_few_slots_is_quiet(slots, is_busy):
    now = [5.0]
    occupancy = ReplicaOccupancy(lambda: now[0])
    choice = ordered_choices(FixedOrder(), occupancy)[0]
    choice.replica.send()
    end(choice)

    assert occupancy.is_busy(NotedTicket("a", slots)) == is_busy
    assert not occupancy.is_busy(NotedTicket("b", slots))
    now[0] += QUIET_S
    assert not occupancy.is_busy(NotedTicket("a", slots))


def test_a_prompt_gives_way_to_a_call_that_was_sent_since_it_was_ordered():
    port, occupancy, prompt = FixedOrder("a"), ReplicaOccupancy(lambda: 0.0), asyncio.Event()
    warming = ordered_choices(port, occupancy, prompt)[0]
    noted = port.tickets[0]
    ordered_choices(port, occupancy)[0].replica.send()

    with pytest.raises(CallerError) as refused:
        warming.replica.send()
    end(warming)

    assert (refused.value.code, refused.value.status) == ("replica_busy", 429)
    assert (noted.notes, dict(occupancy.live), occupancy.prompts) == (["end"], {"a": 1}, {})


class PlanningBesideACall(NoPlanning):
    """Planning during which another call is sent to its replica."""

    def __init__(self, live: RouteChoice) -> None:
        super().__init__()
        self._live = live

    async def plan(self, call, route):
        assert self._live.replica is not None
        self._live.replica.send()
        return await super().plan(call, route)


def test_a_prompt_beside_whose_planning_a_call_is_sent_is_refused_and_never_sent():
    occupancy, prompt, transport = ReplicaOccupancy(lambda: 0.0), asyncio.Event(), FakeTransport([])
    port = FixedOrder("a")
    live = ordered_choices(port, occupancy)[0]
    served = route("a")
    served = replace(served, upstream=replace(served.upstream, engine="house"))
    deps, ledger = fake_dependencies(transport, served)
    deps = replace(deps, replicas=port, planning=PlanningBesideACall(live))
    deps = put_calls_first(deps, occupancy, prompt)
    body = b'{"model": "m", "messages": [{"role": "user", "content": "Tell"}]}'

    with pytest.raises(CallerError) as refused:
        asyncio.run(serve_call(call(body), FakeCaller(), deps, Timeline(lambda: 0.0)))

    assert (refused.value.code, prompt.is_set(), transport.sent) == ("replica_busy", False, [])
    assert [(receipt.outcome, receipt.final) for receipt in ledger.receipts] == [
        (Outcome.REFUSED, True)
    ]
    assert dict(occupancy.live) == {"a": 1}


def test_a_prompt_is_warmed_beside_calls_while_less_than_a_quarter_of_the_slots_answer_any():
    occupancy, prompt, port = ReplicaOccupancy(lambda: 0.0), asyncio.Event(), FixedOrder("a", 8)
    calls = [ordered_choices(port, occupancy)[0] for _ in range(2)]
    calls[0].replica.send()

    ordered_choices(port, occupancy, prompt)[0].replica.send()
    assert occupancy.prompts == {"a": prompt}
    calls[1].replica.send()

    assert prompt.is_set()
    with pytest.raises(CallerError):
        ordered_choices(port, occupancy, asyncio.Event())
    end(calls[1])
    assert ordered_choices(port, occupancy, asyncio.Event())


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
