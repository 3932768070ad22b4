"""The worker pool of compaction: a slow prompt delays its own team, and hardly any other.

::

    team ── its own thread, or the other while that one is stuck ──▶ runs, within its time
         └─ too many of its calls wait, or one of them is stuck ──▶ busy

A thread cannot be stopped. Work that exceeds its time goes on without a waiting call, and the
team's calls are sent unmodified until it ends.
"""

import asyncio
import threading
import zlib
from collections import Counter
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from time import monotonic
from typing import Final, TypeVar

from compaction.memory import CompactionMemory
from compaction.reading.message import CannotCompactError

T = TypeVar("T")

_WORKERS: Final = 2
#: Calls of a team, and of all, that may wait or run.
_MAX_JOBS_PER_TEAM: Final = 8
_MAX_JOBS: Final = 64


class _Worker:
    """A worker thread with its memory; nothing that is sent depends on which one is used.

    Attributes:
        began: Since when, by a clock that goes forward; None while it rests.
    """

    def __init__(self) -> None:
        self.memory = CompactionMemory()
        self.lock = threading.Lock()
        self.executor = ThreadPoolExecutor(max_workers=1, thread_name_prefix="compaction")
        self.team = ""
        self.began: float | None = None

    def run(self, team: str, work: Callable[[CompactionMemory], T]) -> T:
        with self.lock:
            self.team, self.began = team, monotonic()
            try:
                return work(self.memory)
            finally:
                self.began = None

    def is_stuck(self, within: float) -> bool:
        """True if it works on one call for longer than that."""
        began = self.began
        return began is not None and monotonic() - began > within


class WorkerPool:
    """All of one process.

    Args:
        deadline_s: Seconds that a call may take, waiting included.
    """

    def __init__(self, deadline_s: float) -> None:
        self._deadline_s = deadline_s
        self._pool = tuple(_Worker() for _ in range(_WORKERS))
        self._guard = threading.Lock()
        self._held: Counter[str] = Counter()

    async def run(self, team: str, work: Callable[[CompactionMemory], T], *, is_quick: bool) -> T:
        """Runs the work on a worker of the team and returns its result.

        Args:
            work: Function to run; its argument is the memory of its thread.
            is_quick: True if it is short enough to be done at once, if its thread rests.

        Raises:
            CannotCompactError: If too many wait.
            TimeoutError: If it does not come to anything in time.
        """
        worker = self._worker_for(team)
        if is_quick and worker.lock.acquire(blocking=False):
            try:
                return work(worker.memory)
            finally:
                worker.lock.release()
        self._acquire_place(team)
        try:
            job = worker.executor.submit(worker.run, team, work)
        except RuntimeError:
            self._release_place(team)
            raise
        job.add_done_callback(partial(self._release_place, team))
        try:
            async with asyncio.timeout(self._deadline_s):
                return await asyncio.wrap_future(job)
        finally:
            job.cancel()

    def close(self) -> None:
        """Begin nothing more; what waits is dropped."""
        for lane in self._pool:
            lane.executor.shutdown(wait=False, cancel_futures=True)

    def _worker_for(self, team: str) -> _Worker:
        """The team's own, unless that is stuck and another is not."""
        own = zlib.crc32(team.encode()) % _WORKERS
        lanes = (*self._pool[own:], *self._pool[:own])
        return next((lane for lane in lanes if not lane.is_stuck(self._deadline_s)), lanes[0])

    def _acquire_place(self, team: str) -> None:
        stuck = any(lane.team == team and lane.is_stuck(self._deadline_s) for lane in self._pool)
        with self._guard:
            if stuck or self._held[team] >= _MAX_JOBS_PER_TEAM or self._held.total() >= _MAX_JOBS:
                raise CannotCompactError("busy")
            self._held[team] += 1

    def _release_place(self, team: str, _job: Future[object] | None = None) -> None:
        with self._guard:
            self._held[team] -= 1
            if not self._held[team]:
                del self._held[team]
