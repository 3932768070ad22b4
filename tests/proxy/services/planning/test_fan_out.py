import asyncio

import pytest

from proxy.prefix.planned import Planned
from proxy.services.planning.fan_out import FanOutGate
from tests.fakes.clock import run_in_instant_time, ticks
from tests.fakes.planned_calls import marked_call


async def trained_gate() -> FanOutGate:
    """One that knows that a first byte takes a second."""
    gate = FanOutGate()
    before = await gate.wait_for_prefix(marked_call("before", ("others", 10_000)), streamed=True)
    await asyncio.sleep(1.0)
    gate.note_begun(before)
    gate.note_ended(before)
    return gate


async def gone(fanout: FanOutGate, call: Planned, began: float) -> tuple[Planned, float]:
    """The call that goes, and when it does."""
    planned = await fanout.wait_for_prefix(call, streamed=True)
    return planned, ticks() - began


async def start_waiting_calls(
    many: int,
) -> tuple[FanOutGate, Planned, list[asyncio.Task[tuple[Planned, float]]]]:
    """One call that writes, and so many that wait for it."""
    fanout, began = await trained_gate(), ticks()
    first = await fanout.wait_for_prefix(marked_call("first"), streamed=True)
    waiting = [
        asyncio.ensure_future(gone(fanout, marked_call(f"{number}"), began))
        for number in range(many)
    ]
    return fanout, first, waiting


def test_twenty_calls_wait_for_the_one_that_writes_and_go_with_its_first_byte():
    async def work() -> list[tuple[Planned, float]]:
        fanout, first, waiting = await start_waiting_calls(19)
        await asyncio.sleep(0.8)
        fanout.note_begun(first)
        return [(first, 0.0), *await asyncio.gather(*waiting)]

    first, *waiting = run_in_instant_time(work())
    assert first[0].notes == ()
    assert {round(when, 3) for _, when in waiting} == {0.8}
    assert {call.notes for call, _ in waiting} == {
        ("held back 0.80 s to read what another call was writing",)
    }


@pytest.mark.parametrize(("held_s", "notes"), [(0.009, 0), (0.011, 1)])
def test_a_call_held_back_for_a_hundredth_of_a_second_says_so(held_s: float, notes: int):
    async def work() -> Planned:
        fanout, first, waiting = await start_waiting_calls(1)
        await asyncio.sleep(held_s)
        fanout.note_begun(first)
        return (await waiting[0])[0]

    assert len(run_in_instant_time(work()).notes) == notes


def test_where_the_writer_fails_one_writes_in_its_place_and_the_others_go_on_waiting():
    async def work() -> list[float]:
        fanout, first, waiting = await start_waiting_calls(3)
        await asyncio.sleep(0.5)
        fanout.note_ended(first)
        await asyncio.sleep(0.1)
        (second,) = (task for task in waiting if task.done())
        await asyncio.sleep(0.6)
        fanout.note_begun(second.result()[0])
        return sorted([(await task)[1] for task in waiting])

    assert run_in_instant_time(work()) == pytest.approx([0.5, 1.2, 1.2])


def test_no_call_waits_endlessly_for_a_silent_upstream():
    async def work() -> float:
        fanout, began = await trained_gate(), ticks()
        await fanout.wait_for_prefix(marked_call("first"), streamed=True)
        return (await gone(fanout, marked_call("second"), began))[1]

    assert run_in_instant_time(work()) == pytest.approx(2.0)


def test_no_call_is_held_back_beyond_the_longest_wait_when_writers_fail_in_turn():
    async def fails(fanout: FanOutGate, number: int, began: float) -> float:
        call, when = await gone(fanout, marked_call(f"{number}"), began)
        await asyncio.sleep(0.9)
        fanout.note_ended(call)
        return when

    async def work() -> list[float]:
        fanout, began = await trained_gate(), ticks()
        return await asyncio.gather(*(fails(fanout, number, began) for number in range(20)))

    went = run_in_instant_time(work())
    assert went[:6] == pytest.approx([0.0, 0.9, 1.8, 2.7, 3.6, 4.5])
    assert set(went[6:]) == {5.0}


def test_a_call_that_leaves_while_it_waits_writes_nothing_and_is_not_waited_for():
    async def work() -> float:
        fanout, began = await trained_gate(), ticks()
        first = await fanout.wait_for_prefix(marked_call("first"), streamed=True)
        leaves = asyncio.ensure_future(gone(fanout, marked_call("second"), began))
        await asyncio.sleep(0.2)
        leaves.cancel()
        with pytest.raises(asyncio.CancelledError):
            await leaves
        fanout.note_ended(first)
        return (await gone(fanout, marked_call("third"), began))[1]

    assert run_in_instant_time(work()) == pytest.approx(0.2)


def test_a_call_that_need_not_wait_comes_back_as_it_is():
    async def work() -> bool:
        call = marked_call("first")
        return await (await trained_gate()).wait_for_prefix(call, streamed=True) is call

    assert run_in_instant_time(work())
