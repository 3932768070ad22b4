"""Ends a call's waiting when a deadline passes or the caller leaves.

One timer and one listener per call, both begun only when the call turns out not to be instant, so
that a short call pays for neither: until then one timer serves all calls. What ends is the call's
own task: it is cancelled, and ``told`` turns that cancellation into the reason.
"""

import asyncio
from collections.abc import Callable, Coroutine
from enum import StrEnum
from typing import Any, Final, Self

from proxy.errors import InvalidCall, ProxyError, UpstreamError

#: Seconds a call may take before anything watches it.
_INSTANT: Final = 0.1
#: Seconds after which a watch looks again, if nothing is to be seen before.
_LONGEST: Final = 1.0

Start = Callable[[Callable[[], Coroutine[Any, Any, None]]], asyncio.Task[None]]


class HungUp(ProxyError):
    """The caller left before its answer was complete; nobody is there to be told."""

    status = 499
    leaves_upstream_running = True

    def __init__(self) -> None:
        super().__init__("The caller closed the connection.", code="caller_hung_up")


class Late(UpstreamError):
    """The upstream was cut off because it took too long; what it did until then is billed."""

    leaves_upstream_running = True

    def __init__(self, wait: "Wait") -> None:
        super().__init__(
            f"The upstream took too long: no {wait}. Try again, or ask for a faster model.",
            status=504,
            code="upstream_timeout",
            retryable=True,
        )


class Interrupted(ProxyError):
    """The gateway itself ended the call: the process was told to stop, or we made a mistake."""

    leaves_upstream_running = True

    def __init__(self) -> None:
        super().__init__("The gateway was interrupted.", code="gateway_interrupted")


class Wait(StrEnum):
    """What a call is waiting for, or the gateway for the call."""

    BODY = "rest of its body"
    FIRST_BYTE = "first content byte"
    NEXT_BYTE = "next content byte"
    CALLER = "caller"


class Watches:
    """The watches of one loop; those that are new have one timer together.

    Attributes:
        start: Starts a background task in the group that shutdown waits for.
        new: Those that wait for the timer, in order, and when it rings for them.
    """

    __slots__ = ("_rings_on", "new", "start")

    def __init__(self, start: Start) -> None:
        self.start = start
        self.new: dict[Watch, float] = {}
        self._rings_on: asyncio.AbstractEventLoop | None = None

    def begin(self, watch: "Watch", loop: asyncio.AbstractEventLoop) -> None:
        """Let the watch look once its call is no longer instant."""
        self.new[watch] = loop.time() + _INSTANT
        if self._rings_on is not loop:
            self._rings_on = loop
            loop.call_later(_INSTANT, self._ring, loop)

    def _ring(self, loop: asyncio.AbstractEventLoop) -> None:
        now = loop.time()
        try:
            for watch in [each for each, due in self.new.items() if due <= now]:
                watch.look()
        finally:
            if not self.new:
                self._rings_on = None
            else:
                loop.call_later(next(iter(self.new.values())) - now, self._ring, loop)


class Watch:
    """Watches one call; use it as a context manager around the call's task."""

    __slots__ = ("_deadline", "_gone", "_listener", "_loop", "_over", "_task", "_timer", "_watches")

    def __init__(self, watches: Watches) -> None:
        """Watch the running task."""
        task = asyncio.current_task()
        assert task is not None  # noqa: S101 - a coroutine always runs in one
        self._task = task
        self._loop = task.get_loop()
        self._gone: Callable[[], Coroutine[Any, Any, None]] | None = None
        self._watches = watches
        self._deadline: tuple[float, Wait] | None = None
        self._listener: asyncio.Task[None] | None = None
        self._over: ProxyError | None = None
        self._timer: asyncio.TimerHandle | None = None

    def __enter__(self) -> Self:
        self._watches.begin(self, self._loop)
        return self

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        over = self.told() if isinstance(error, asyncio.CancelledError) else None
        self._watches.new.pop(self, None)
        if self._timer is not None:
            self._timer.cancel()
        if self._listener is not None:
            self._listener.cancel()
        if over is not None:
            raise over from None

    def listen(self, gone: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """From now on notice when the caller leaves; ``gone`` returns once it has."""
        self._gone = gone

    def expect(self, wait: Wait, seconds: float) -> None:
        """Begin a wait that may last this long; the one before is over."""
        self._deadline = (self._loop.time() + seconds, wait)

    def rest(self) -> None:
        """The wait is over, and none begins that needs a deadline."""
        self._deadline = None

    def told(self) -> ProxyError | None:
        """Why this watch cancelled the task, taking the cancellation back.

        Afterwards the task may go on, and is watched again. None if somebody else cancelled it too
        or alone: then it has to end.
        """
        over, self._over = self._over, None
        if over is None or self._task.uncancel() > 0:
            return None
        self.rest()
        self._look_in(_LONGEST)
        return over

    def look(self) -> None:
        """Look at caller and deadline now, and again when it could have passed."""
        self._watches.new.pop(self, None)
        if self._listener is None and self._gone is not None:
            self._listener = self._watches.start(self._listened)
        left = _LONGEST
        if self._deadline is not None:
            left = min(left, self._deadline[0] - self._loop.time())
        if self._deadline is not None and left <= 0:
            self._end(_late(self._deadline[1]))
        else:
            self._look_in(left)

    def _look_in(self, seconds: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.call_later(seconds, self.look)

    async def _listened(self) -> None:
        if self._gone is not None:
            await self._gone()
            self._end(HungUp())

    def _end(self, reason: ProxyError) -> None:
        if self._over is None:
            self._over = reason
            self._task.cancel()


class Unwatched:
    """What stands in a watch's place for one of several attempts at once: their race is watched."""

    def expect(self, wait: Wait, seconds: float) -> None:
        """Let the wait last as long as it does."""

    def rest(self) -> None:
        """Go on as before."""

    def told(self) -> None:
        """Nothing: whoever cancelled the attempt knows why."""
        return


def _late(wait: Wait) -> ProxyError:
    if wait is Wait.BODY:
        return InvalidCall("The body did not arrive in time.", code="body_timeout")
    return HungUp() if wait is Wait.CALLER else Late(wait)
