"""Reports built in the background: one request starts one, later ones wait for it and get it.

::

    request ─ take ─▶ none yet: begin it, if few run ─┐
                      it runs ────────────────────────┴─ wait a moment ─▶ the report, or "pending"
                      it ended ─▶ the report, for some minutes; or its failure, once

Each process builds its own reports; one that another process has is built again.
"""

import asyncio
from collections.abc import Callable, Coroutine, Hashable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from proxy.calls.ports import BackgroundTaskGroup
from proxy.errors import ProxyError, Unready

#: Reports that are made at once, of all people; of the same teams one.
MAX_RUNNING: Final = 2
#: Reports that are kept, and those of the same teams; the oldest goes first.
MAX_KEPT: Final = 8
MAX_KEPT_PER_OWNER: Final = 2
#: Seconds that a report is kept.
KEEP_S: Final = 600.0


@dataclass(frozen=True, slots=True)
class PendingReport:
    """A report that is not there yet.

    Attributes:
        seconds: Seconds since it was begun.
        is_waiting: True if it has not begun, because others are being made.
    """

    seconds: float
    is_waiting: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportOrder:
    """An order for a report.

    Attributes:
        key: All that tells the report from others, the teams that it is of included.
        owner: The teams that its requester may see.
        make: Makes it; its failures are those of requests.
    """

    key: Hashable
    owner: Hashable
    make: Callable[[], Coroutine[Any, Any, bytes]]


@dataclass(frozen=True, slots=True)
class _Job:
    order: ReportOrder
    begun: float
    ended: asyncio.Event
    outcome: list[bytes | ProxyError]


class BackgroundReports:
    """The reports of this process that are being made or were, by their keys."""

    def __init__(self, tasks: BackgroundTaskGroup) -> None:
        self._tasks = tasks
        self._jobs: dict[Hashable, _Job] = {}
        self._running: dict[Hashable, asyncio.Task[None]] = {}

    def __contains__(self, key: Hashable) -> bool:
        """True if the report is being made, or is kept."""
        return key in self._jobs

    async def take(self, order: ReportOrder, wait_s: float) -> bytes | PendingReport:
        """The report, once it is made; it goes on where it takes longer than ``wait_s``.

        Raises:
            ProxyError: The reason for which it could not be made; ordered again, it is made anew.
        """
        job = self._jobs.get(order.key) or self._begin(order)
        if job is None:
            return PendingReport(0.0, is_waiting=True)
        with suppress(TimeoutError):
            async with asyncio.timeout(wait_s):
                await job.ended.wait()
        if not job.ended.is_set():
            return PendingReport(asyncio.get_running_loop().time() - job.begun)
        (outcome,) = job.outcome
        if isinstance(outcome, bytes):
            return outcome
        self._forget(job)
        raise outcome

    def stop(self) -> None:
        """Cancel what is being made."""
        self._tasks.end(*self._running.values())

    def _begin(self, order: ReportOrder) -> _Job | None:
        """Begins a report; None where it has to wait for others."""
        owners = [self._jobs[key].order.owner for key in self._running]
        if len(owners) >= MAX_RUNNING or order.owner in owners:
            return None
        self._drop_oldest(order.owner)
        job = _Job(order, asyncio.get_running_loop().time(), asyncio.Event(), [])
        self._jobs[order.key] = job
        self._running[order.key] = self._tasks.start(partial(self._run, job))
        return job

    async def _run(self, job: _Job) -> None:
        outcome: bytes | ProxyError = Unready(
            "The report was not made to its end; ask for it again.", code="report_stopped"
        )
        try:
            outcome = await job.order.make()
        except ProxyError as error:
            outcome = error
        finally:
            job.outcome.append(outcome)
            job.ended.set()
            del self._running[job.order.key]
            asyncio.get_running_loop().call_later(KEEP_S, self._forget, job)

    def _drop_oldest(self, owner: Hashable) -> None:
        """Makes room for one more of these teams' reports."""
        finished_jobs = [job for job in self._jobs.values() if job.ended.is_set()]
        own = [job for job in finished_jobs if job.order.owner == owner]
        dropped = own[: max(len(own) - MAX_KEPT_PER_OWNER + 1, 0)]
        rest = [job for job in finished_jobs if job not in dropped]
        for job in (*dropped, *rest[: max(len(rest) - MAX_KEPT + 1, 0)]):
            self._forget(job)

    def _forget(self, job: _Job) -> None:
        if self._jobs.get(job.order.key) is job:
            del self._jobs[job.order.key]
