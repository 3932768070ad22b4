"""Background tasks of a running gateway: they end with it, and a failure of one stops no other."""

import asyncio
import logging
import traceback
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

_log = logging.getLogger("thriftgate")

#: Seconds after which a task that was cancelled is cancelled once more.
_CANCEL_AGAIN_AFTER_S = 1.0
#: Seconds after which an endless task that failed begins again.
_RESTART_DELAY_S = 2.0


class BackgroundTasks:
    """Background tasks that end with the gateway; one that fails is logged and harms no other."""

    def __init__(self, group: asyncio.TaskGroup) -> None:
        self._group = group

    def start(self, work: Callable[[], Coroutine[Any, Any, None]]) -> asyncio.Task[None]:
        """Start a task in the group."""
        return self._group.create_task(_run_logged(work))

    def keep(self, work: Callable[[], Coroutine[Any, Any, None]]) -> asyncio.Task[None]:
        """Start an endless task: where it fails, it begins again after a rest."""
        return self._group.create_task(_run_for_ever(work))

    def end(self, *tasks: asyncio.Task[None]) -> None:
        """Cancel tasks of the group until they have ended; returns at once.

        One cancellation may be lost in a library that takes it for its own timeout.
        """
        self._group.create_task(_cancel_until_ended(tasks))


async def _cancel_until_ended(tasks: Sequence[asyncio.Task[None]]) -> None:
    while pending := {task for task in tasks if not task.done()}:
        for task in pending:
            task.cancel()
        await asyncio.wait(pending, timeout=_CANCEL_AGAIN_AFTER_S)


async def _run_logged(work: Callable[[], Coroutine[Any, Any, None]]) -> None:
    await _is_done(work, set())


async def _run_for_ever(work: Callable[[], Coroutine[Any, Any, None]]) -> None:
    logged_kinds: set[str] = set()
    while True:
        if await _is_done(work, logged_kinds):
            return
        await asyncio.sleep(_RESTART_DELAY_S)


async def _is_done(work: Callable[[], Coroutine[Any, Any, None]], logged_kinds: set[str]) -> bool:
    """True if the work came to its end; a failure is logged, once for each kind."""
    try:
        await work()
    except Exception as error:  # noqa: BLE001 - the background runner: logged, harming no other
        kind = _kind(error)
        if kind not in logged_kinds:
            logged_kinds.add(kind)
            _log.exception("A background task failed")
        return False
    return True


def _kind(error: Exception) -> str:
    """Identifies errors of the same mistake: their type, and where they arose."""
    while isinstance(error, ExceptionGroup):
        error = error.exceptions[0]
    last = traceback.extract_tb(error.__traceback__)[-1]
    return f"{type(error).__qualname__} {last.filename}:{last.lineno}"
