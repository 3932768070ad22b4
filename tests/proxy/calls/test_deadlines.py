import asyncio
import gc
import weakref

import pytest

from proxy.calls.deadlines import (
    AwaitedEvent,
    CallWatchdog,
    ClientDisconnected,
    TaskStarter,
    WatchdogTimer,
    _UpstreamTimeout,
)
from proxy.errors import CallerError
from tests.fakes.call_dependencies import LoopTasks
from tests.fakes.clock import run_in_instant_time, ticks

pytestmark = pytest.mark.instant_time


class LeavingCaller:
    """A caller that leaves after so many seconds; counts how often it was listened to."""

    def __init__(self, after: float = 1e6) -> None:
        self._after = after
        self.heard = 0

    async def __call__(self) -> None:
        self.heard += 1
        await asyncio.sleep(self._after)


def caller_watchdog(gone: LeavingCaller, start: TaskStarter) -> CallWatchdog:
    watch = CallWatchdog(WatchdogTimer(start))
    watch.watch_caller(gone)
    return watch


async def wait_under_watch(gone: LeavingCaller, wait: AwaitedEvent, seconds: float) -> None:
    """A call that takes a hundred seconds, all of them in this wait."""
    with caller_watchdog(gone, LoopTasks().start) as watch:
        watch.set_deadline(wait, seconds)
        await asyncio.sleep(100)


def pending_timers() -> int:
    """Number of timers and callbacks the loop still has."""
    loop = asyncio.get_running_loop()
    timers = loop._scheduled  # type: ignore[attr-defined]
    return sum(not timer.cancelled() for timer in timers)


def test_a_caller_that_is_listened_to_already_is_listened_to_by_the_newest_wait():
    async def wait_for_newest(first: LeavingCaller, newest: LeavingCaller) -> None:
        with caller_watchdog(first, LoopTasks().start) as watch:
            await asyncio.sleep(1.0)
            assert first.heard
            watch.watch_caller(newest)
            await asyncio.sleep(100)

    async def work() -> float:
        began = ticks()
        with pytest.raises(ClientDisconnected):
            await wait_for_newest(LeavingCaller(5.0), LeavingCaller(20.0))
        return ticks() - began

    assert run_in_instant_time(work()) == pytest.approx(21.0)


def test_a_call_that_was_watched_is_freed_without_the_garbage_collector():
    async def work() -> bool:
        gone = LeavingCaller()
        freed = weakref.ref(gone)
        with caller_watchdog(gone, lambda work: asyncio.get_running_loop().create_task(work())):
            await asyncio.sleep(10)
        assert gone.heard
        del gone
        await asyncio.sleep(1)
        return freed() is None

    gc.disable()
    try:
        assert run_in_instant_time(work())
    finally:
        gc.enable()


async def test_an_instant_call_is_not_watched_at_all():
    gone = LeavingCaller()
    with caller_watchdog(gone, LoopTasks().start) as watch:
        watch.set_deadline(AwaitedEvent.FIRST_BYTE, 5)
    await asyncio.sleep(0.1)
    assert pending_timers() == 0

    assert gone.heard == 0


def test_new_calls_have_one_timer_together_and_each_is_watched_in_its_time():
    async def listening_delay(watches: WatchdogTimer, begins: float, lasts: float) -> float:
        """Return when the caller is listened to, in seconds from the start; 0 for never."""
        heard = [0.0]
        before = ticks()

        async def gone() -> None:
            heard.append(ticks() - before)
            await asyncio.sleep(1e6)

        await asyncio.sleep(begins)
        with CallWatchdog(watches) as watch:
            watch.watch_caller(gone)
            await asyncio.sleep(0)
            assert pending_timers() <= 2 + 1  # the sleeps of the others, and one timer
            await asyncio.sleep(lasts)
        return heard[-1]

    async def work() -> list[float]:
        watches = WatchdogTimer(LoopTasks().start)
        calls = [(0.0, 1.0), (0.04, 0.02), (0.06, 1.0)]
        heard = await asyncio.gather(*(listening_delay(watches, *call) for call in calls))
        assert pending_timers() == 0
        return heard

    assert run_in_instant_time(work()) == [pytest.approx(0.1), 0.0, pytest.approx(0.16)]


async def test_a_watch_that_cannot_begin_leaves_the_others_theirs():
    def full(_work: object) -> asyncio.Task[None]:
        raise RuntimeError("the group is shutting down")

    async def wait_for_first_byte(watches: WatchdogTimer, gone: LeavingCaller | None) -> None:
        with CallWatchdog(watches) as watch:
            if gone is not None:
                watch.watch_caller(gone)
            watch.set_deadline(AwaitedEvent.FIRST_BYTE, 5)
            await asyncio.sleep(10)

    watches = WatchdogTimer(full)
    asyncio.get_running_loop().set_exception_handler(lambda *_: None)
    calls = (wait_for_first_byte(watches, LeavingCaller()), wait_for_first_byte(watches, None))
    unwatched, watched = await asyncio.gather(*calls, return_exceptions=True)
    assert unwatched is None
    assert isinstance(watched, _UpstreamTimeout)


@pytest.mark.parametrize(
    ("wait", "reason"),
    [
        (AwaitedEvent.BODY, CallerError),
        (AwaitedEvent.FIRST_BYTE, _UpstreamTimeout),
        (AwaitedEvent.NEXT_BYTE, _UpstreamTimeout),
        (AwaitedEvent.CALLER, ClientDisconnected),
    ],
)
async def test_a_wait_that_lasts_too_long_ends_with_its_reason(wait, reason):
    before = ticks()
    with pytest.raises(reason):
        await wait_under_watch(LeavingCaller(), wait, 5)
    assert ticks() - before == pytest.approx(5.0)
    await asyncio.sleep(0)
    assert asyncio.current_task().cancelling() == 0  # type: ignore[union-attr]


async def test_a_new_wait_replaces_the_one_before():
    with caller_watchdog(LeavingCaller(), LoopTasks().start) as watch:
        for _ in range(5):
            watch.set_deadline(AwaitedEvent.NEXT_BYTE, 3)
            await asyncio.sleep(2)


async def test_deadline_does_not_pass_while_the_call_rests():
    with caller_watchdog(LeavingCaller(), LoopTasks().start) as watch:
        watch.set_deadline(AwaitedEvent.NEXT_BYTE, 3)
        watch.clear_deadline()
        await asyncio.sleep(60)
        watch.set_deadline(AwaitedEvent.NEXT_BYTE, 3)
        with pytest.raises(asyncio.CancelledError):
            await asyncio.sleep(60)
        assert isinstance(watch.take_cancel_reason(), _UpstreamTimeout)


async def test_a_caller_that_leaves_ends_the_call():
    with pytest.raises(ClientDisconnected):
        await wait_under_watch(LeavingCaller(4), AwaitedEvent.FIRST_BYTE, 50)


async def test_a_call_that_is_ended_ends_as_if_its_caller_had_left():
    async def end_itself() -> None:
        with caller_watchdog(LeavingCaller(), LoopTasks().start) as watch:
            watch.end_call()
            await asyncio.sleep(100)

    with pytest.raises(ClientDisconnected):
        await end_itself()


async def test_a_call_that_was_told_may_go_on_and_is_watched_again():
    reasons: list[type] = []
    with caller_watchdog(LeavingCaller(), LoopTasks().start) as watch:
        for _ in range(2):
            watch.set_deadline(AwaitedEvent.FIRST_BYTE, 5)
            try:
                await asyncio.sleep(100)
            except asyncio.CancelledError:
                reasons.append(type(watch.take_cancel_reason()))
        assert watch.take_cancel_reason() is None
        await asyncio.sleep(100)

    assert reasons == [_UpstreamTimeout, _UpstreamTimeout]


async def test_no_listener_outlives_a_call():
    tasks = LoopTasks()
    with caller_watchdog(LeavingCaller(), tasks.start):
        await asyncio.sleep(1)
    await asyncio.sleep(0)
    (listener,) = tasks._tasks

    assert listener.cancelled()


async def test_no_timer_outlives_a_call_whose_caller_left():
    with caller_watchdog(LeavingCaller(4), LoopTasks().start) as watch:
        watch.set_deadline(AwaitedEvent.FIRST_BYTE, 50)
        with pytest.raises(asyncio.CancelledError):
            await asyncio.sleep(100)
        assert isinstance(watch.take_cancel_reason(), ClientDisconnected)
    await asyncio.sleep(0)
    assert pending_timers() == 0


async def test_a_cancellation_by_others_is_not_taken_back():
    task = asyncio.ensure_future(wait_under_watch(LeavingCaller(), AwaitedEvent.FIRST_BYTE, 50))
    await asyncio.sleep(4)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_a_stop_that_comes_with_a_hang_up_is_a_stop():
    async def work(watches: list[CallWatchdog]) -> None:
        with caller_watchdog(LeavingCaller(), LoopTasks().start) as watch:
            watches.append(watch)
            await asyncio.sleep(100)

    watches: list[CallWatchdog] = []
    task = asyncio.ensure_future(work(watches))
    await asyncio.sleep(1)
    watches[0]._cancel(ClientDisconnected())
    watches[0]._cancel(_UpstreamTimeout(AwaitedEvent.CALLER))
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


def test_a_lateness_says_what_was_waited_for():
    assert "no first content byte" in _UpstreamTimeout(AwaitedEvent.FIRST_BYTE).message
    assert "no next content byte" in _UpstreamTimeout(AwaitedEvent.NEXT_BYTE).message
