"""Opens the store at start, and waits for as long as its database is away."""

import asyncio
import logging
import threading
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Final, TypeVar

from proxy.store.errors import StoreError

T = TypeVar("T")

_log = logging.getLogger("thriftgate.store")
_SILENCE_S: Final = 2.0
_SILENT: Final = "its tables are being made or migrated, or it is slow to answer"


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryDelays:
    """Seconds between two attempts to open the store.

    Attributes:
        first: After the first attempt; each further one doubles it.
        longest: The most it grows to.
        silence: Seconds after which an attempt without a result counts as an outage.
    """

    first: float = 0.5
    longest: float = 5.0
    silence: float = _SILENCE_S


async def open_when_available(
    open_once: Callable[[], T],
    on_wait: Callable[[], object],
    delays: RetryDelays = RetryDelays(),
    *,
    meanwhile: str = "Calls get 503",
) -> T:
    """The opened store; an attempt that fails because the database is away is repeated.

    Args:
        open_once: Opens the store; it blocks, in a thread that does not hold up the process's end.
        on_wait: Called once, when the store is not open at once.
        meanwhile: Log text about calls until the database is available.

    Raises:
        StoreError: The database answers, and waiting does not help.
        OSError: The folder cannot be written.
        ValueError: The URL names no database that can be used.
    """
    began = asyncio.get_running_loop().time()
    attempt, delay, is_waiting = run_in_daemon_thread(open_once), delays.first, False
    try:
        await asyncio.wait({attempt}, timeout=delays.silence)
        if not attempt.done():
            is_waiting = _log_outage(_SILENT, on_wait, meanwhile)
        while (why := await _outage(attempt)) is not None:
            is_waiting = is_waiting or _log_outage(why, on_wait, meanwhile)
            await asyncio.sleep(delay)
            attempt, delay = run_in_daemon_thread(open_once), min(delay * 2, delays.longest)
    finally:
        attempt.cancel()
    if is_waiting:
        took = asyncio.get_running_loop().time() - began
        _log.warning("The database is available after %.1f s: calls are answered", took)
    return attempt.result()


async def is_available(check: Callable[[], object], silence: float = _SILENCE_S) -> bool:
    """True if the database can be used now; False if it is away or does not answer in time.

    Args:
        check: Tries it; it blocks, and what it does may go on after this has returned.
        silence: Seconds after which no answer counts as an outage.

    Raises:
        Exception: As ``check`` does, where waiting does not help.
    """
    attempt = run_in_daemon_thread(check)
    await asyncio.wait({attempt}, timeout=silence)
    if not attempt.done():
        attempt.cancel()
        return False
    return await _outage(attempt) is None


def _log_outage(why: str, on_wait: Callable[[], object], meanwhile: str) -> bool:
    """Log what becomes of calls until the database is available; True."""
    _log.warning("The database is not available yet: %s. %s until it is", why, meanwhile)
    on_wait()
    return True


async def _outage(attempt: asyncio.Future[T]) -> str | None:
    """Reason for the outage, once the attempt has ended; None if the store is open."""
    try:
        await attempt
    except StoreError as error:
        if not error.is_outage:
            raise
        return str(error)
    return None


def run_in_daemon_thread(work: Callable[[], T]) -> asyncio.Future[T]:
    """The result of work that is started in a daemon thread.

    An executor's threads are waited for when the process ends, and an attempt to connect lasts for
    seconds.
    """
    outcome: Future[T] = Future()
    outcome.set_running_or_notify_cancel()

    def run() -> None:
        try:
            outcome.set_result(work())
        except BaseException as error:  # noqa: BLE001 - raised where the result is awaited
            outcome.set_exception(error)

    threading.Thread(target=run, name="blocking work", daemon=True).start()
    return asyncio.wrap_future(outcome)
