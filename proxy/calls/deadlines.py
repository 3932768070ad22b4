"""Ends a call's waiting when a deadline passes or the caller leaves.

One timer and one listener per call, both begun only when the call turns out not to be instant, so
that a short call pays for neither: until then one timer serves all calls. What ends is the call's
own task: it is cancelled, and ``take_cancel_reason`` turns that cancellation into the reason.
"""

import asyncio
from collections.abc import Callable, Coroutine
from enum import StrEnum
from typing import Any, Final, Self

from proxy.errors import CallerError, ProxyError, UpstreamError

#: Seconds a call may take before anything watches it.
_UNWATCHED_S: Final = 0.1
#: Seconds after which a watch looks again, if nothing is to be seen before.
_CHECK_INTERVAL_S: Final = 1.0

TaskStarter = Callable[[Callable[[], Coroutine[Any, Any, None]]], asyncio.Task[None]]


class ClientDisconnected(ProxyError):
    """The caller left before its answer was complete."""

    status = 499
    leaves_upstream_running = True

    def __init__(self) -> None:
        super().__init__("The caller closed the connection.", code="caller_hung_up")


class _UpstreamTimeout(UpstreamError):
    """The upstream was cut off because it took too long; what it did until then is billed."""

    leaves_upstream_running = True

    def __init__(self, wait: "AwaitedEvent") -> None:
        super().__init__(
            f"The upstream took too long: no {wait}. Try again, or ask for a faster model.",
            status=504,
            code="upstream_timeout",
            retryable=True,
        )


def gateway_interrupted() -> ProxyError:
    """The error of a call that the gateway itself ended: at shutdown, or by a fault of its own."""
    error = ProxyError("The gateway was interrupted.", code="gateway_interrupted")
    error.leaves_upstream_running = True
    return error


class AwaitedEvent(StrEnum):
    """The event that a call, or the gateway for it, waits for."""

    BODY = "rest of its body"
    FIRST_BYTE = "first content byte"
    NEXT_BYTE = "next content byte"
    CALLER = "caller"


class WatchdogTimer:
    """The watches of one loop; those that are new have one timer together.

    Attributes:
        start_task: Starts a background task in the group that shutdown waits for.
        pending: Those that wait for the timer, in order, and when it rings for them.
    """

    __slots__ = ("_timer_loop", "pending", "start_task")

    def __init__(self, start: TaskStarter) -> None:
        self.start_task = start
        self.pending: dict[CallWatchdog, float] = {}
        self._timer_loop: asyncio.AbstractEventLoop | None = None

    def add(self, watch: "CallWatchdog", loop: asyncio.AbstractEventLoop) -> None:
        """Let the watch look once its call is no longer instant."""
        self.pending[watch] = loop.time() + _UNWATCHED_S
        if self._timer_loop is not loop:
            self._timer_loop = loop
            loop.call_later(_UNWATCHED_S, self._check_due, loop)

    def _check_due(self, loop: asyncio.AbstractEventLoop) -> None:
        now = loop.time()
        try:
            for watch in [
                pending_watch for pending_watch, due in self.pending.items() if due <= now
            ]:
                watch.check()
        finally:
            if not self.pending:
                self._timer_loop = None
            else:
                loop.call_later(next(iter(self.pending.values())) - now, self._check_due, loop)


class CallWatchdog:
    """Watches one call; use it as a context manager around the call's task."""

    __slots__ = (
        "_deadline",
        "_listener",
        "_loop",
        "_reason",
        "_shared_timer",
        "_task",
        "_timer",
        "_wait_until_gone",
    )

    def __init__(self, shared_timer: WatchdogTimer) -> None:
        """Watch the running task."""
        task = asyncio.current_task()
        assert task is not None  # noqa: S101 - a coroutine always runs in one
        self._task = task
        self._loop = task.get_loop()
        self._wait_until_gone: Callable[[], Coroutine[Any, Any, None]] | None = None
        self._shared_timer = shared_timer
        self._deadline: tuple[float, AwaitedEvent] | None = None
        self._listener: asyncio.Task[None] | None = None
        self._reason: ProxyError | None = None
        self._timer: asyncio.TimerHandle | None = None

    def __enter__(self) -> Self:
        self._shared_timer.add(self, self._loop)
        return self

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        over = self.take_cancel_reason() if isinstance(error, asyncio.CancelledError) else None
        self._shared_timer.pending.pop(self, None)
        if self._timer is not None:
            self._timer.cancel()
        if self._listener is not None:
            self._listener.cancel()
        # A cancelled task keeps its frames, which hold this watch: no cycle may hold the call.
        self._timer = self._listener = self._wait_until_gone = None
        if over is not None:
            raise over from None

    def watch_caller(self, wait_until_gone: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """From now on notice when the caller leaves; ``wait_until_gone`` returns once it has."""
        self._wait_until_gone = wait_until_gone
        if self._listener is not None:
            self._listener.cancel()
            self._listener = self._shared_timer.start_task(self._await_disconnect)

    def ignore_caller(self) -> None:
        """From now on the call goes on without its caller, and without a deadline."""
        self.clear_deadline()
        self._wait_until_gone = None
        if self._listener is not None:
            self._listener.cancel()
            self._listener = None

    def set_deadline(self, wait: AwaitedEvent, seconds: float) -> None:
        """Begin a wait that may last this long; the one before is over."""
        self._deadline = (self._loop.time() + seconds, wait)

    def end_call(self) -> None:
        """End the call as if its caller had left now."""
        self._cancel(ClientDisconnected())

    def clear_deadline(self) -> None:
        """The wait is over, and none begins that needs a deadline."""
        self._deadline = None

    def take_cancel_reason(self) -> ProxyError | None:
        """Return the reason that this watch cancelled the task, and take the cancellation back.

        Afterwards the task may go on, and is watched again. None if somebody else cancelled it too
        or alone: then it has to end.
        """
        over, self._reason = self._reason, None
        if over is None or self._task.uncancel() > 0:
            return None
        self.clear_deadline()
        self._check_in(_CHECK_INTERVAL_S)
        return over

    def check(self) -> None:
        """Look at caller and deadline now, and again when it could have passed."""
        self._shared_timer.pending.pop(self, None)
        if self._listener is None and self._wait_until_gone is not None:
            self._listener = self._shared_timer.start_task(self._await_disconnect)
        left = _CHECK_INTERVAL_S
        if self._deadline is not None:
            left = min(left, self._deadline[0] - self._loop.time())
        if self._deadline is not None and left <= 0:
            self._cancel(_timeout_error(self._deadline[1]))
        else:
            self._check_in(left)

    def _check_in(self, seconds: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.call_later(seconds, self.check)

    async def _await_disconnect(self) -> None:
        if self._wait_until_gone is not None:
            await self._wait_until_gone()
            self._cancel(ClientDisconnected())

    def _cancel(self, reason: ProxyError) -> None:
        if self._reason is None:
            self._reason = reason
            self._task.cancel()


class NoWatchdog:
    """Stands in for the watchdog of concurrent attempts, which are watched together."""

    def set_deadline(self, wait: AwaitedEvent, seconds: float) -> None:
        """Let the wait last as long as it does."""

    def clear_deadline(self) -> None:
        """Go on as before."""

    def take_cancel_reason(self) -> ProxyError | None:
        """Nothing: the canceller of the attempt knows why."""
        return None


def _timeout_error(wait: AwaitedEvent) -> ProxyError:
    if wait is AwaitedEvent.BODY:
        return CallerError("The body did not arrive in time.", code="body_timeout")
    return ClientDisconnected() if wait is AwaitedEvent.CALLER else _UpstreamTimeout(wait)
