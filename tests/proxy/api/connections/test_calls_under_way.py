import asyncio

import pytest

from proxy.api.connections.calls_under_way import CallsUnderWay, call_ended_error
from proxy.calls.deadlines import CallWatchdog, ClientDisconnected, WatchdogTimer
from tests.fakes.call_dependencies import LoopTasks
from tests.fakes.clock import run_in_instant_time


def test_a_key_ends_its_own_call_once_and_no_other():
    calls = CallsUnderWay()
    found: list[bool] = []

    async def work() -> None:
        with (
            calls.track("call_1") as call,
            CallWatchdog(WatchdogTimer(LoopTasks().start)) as watchdog,
        ):
            found.append(calls.end("call_1", ""))
            call.watch(watchdog, "key_1")
            found.extend(
                calls.end(call_id, key)
                for call_id, key in (("call_1", "key_2"), ("call_2", "key_1"), ("call_1", "key_1"))
            )
            found.append(calls.end("call_1", "key_1"))
            await asyncio.sleep(9)

    with pytest.raises(ClientDisconnected):
        run_in_instant_time(work())

    assert found == [False, False, False, True, False]


def test_a_call_is_listed_until_its_end():
    calls = CallsUnderWay()
    with calls.track("call_1") as call:
        assert len(calls) == 1
        assert not call.is_ended
    assert len(calls) == 0
    assert not calls.end("call_1", "key_1")


def test_a_call_that_was_ended_says_so_to_who_still_reads():
    assert (call_ended_error().code, call_ended_error().status) == ("call_ended", 499)
