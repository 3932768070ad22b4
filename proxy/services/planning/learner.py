"""Learns from calls on a thread of its own, in batches.

Waking a thread for every call costs the event loop more than most lessons take, so it waits a
moment for more.
"""

import logging
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Final

_log = logging.getLogger("thriftgate.planning")

#: Seconds that lessons are gathered.
_GATHER_S: Final = 0.01
#: Lessons that may wait; beyond it, calls are not learned from.
_MAX_WAITING: Final = 1_024

Lesson = Callable[[], None]


class BackgroundLearner:
    """Works through lessons one after the other, in the order in which they come.

    Args:
        waiting: Most that may wait.
    """

    def __init__(self, waiting: int = _MAX_WAITING) -> None:
        self._bound = waiting
        self._waiting: deque[Lesson] = deque()
        self._is_at_work = False
        self._lock = threading.Lock()
        self._over = threading.Event()
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="lessons")

    def submit(self, lesson: Lesson) -> None:
        """Learn from this soon; never raises, never waits."""
        with self._lock:
            if self._over.is_set() or len(self._waiting) >= self._bound:
                return
            self._waiting.append(lesson)
            if not self._is_at_work:
                self._begin()

    def close(self) -> None:
        """Stop learning; what waits is dropped."""
        with self._lock:
            self._over.set()
            self._waiting.clear()
        self._thread.shutdown(wait=False)

    def _begin(self) -> None:
        try:
            work = self._thread.submit(self._work)
        except RuntimeError as error:  # there is no thread to be had just now
            _log.warning("Calls are not learned from for now: %s", error)
            return
        self._is_at_work = True
        work.add_done_callback(self._work_off)

    def _work(self) -> None:
        self._over.wait(_GATHER_S)
        while (lesson := self._next()) is not None:
            lesson()

    def _next(self) -> Lesson | None:
        """The lesson that waits longest; None once there is none."""
        with self._lock:
            return self._waiting.popleft() if self._waiting else None

    def _work_off(self, work: Future[None]) -> None:
        """Go on behind a lesson that failed, and with what came meanwhile."""
        if (error := work.exception()) is not None:
            _log.error("A call could not be learned from", exc_info=error)
        with self._lock:
            self._is_at_work = False
            if self._waiting:
                self._begin()
