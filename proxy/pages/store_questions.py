"""Questions of pages to the store: few at once and each with a deadline, so calls never wait.

::

    readers ─ build(readers, question) ─ view ─ finish(view) ─▶ JSON, HTML, or the view itself

A view is read and encoded in a process of its own, so that it costs the gateway's no more than
passing its bytes on. That process has no use for the web framework, which this must not import.
"""

import asyncio
import threading
from collections import defaultdict
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar

from pydantic import TypeAdapter

from dashboards import pages
from proxy.errors import Unready
from proxy.store.errors import StoreError
from proxy.store.sql.views.readers import Readers

if TYPE_CHECKING:  # the process that reads for pages begins sooner without it
    from proxy.store.store import Store

Q = TypeVar("Q")
V = TypeVar("V")
T = TypeVar("T")

#: Seconds that a part of a page has; all of them are asked for at once.
PART_TIMEOUT_S: Final = 3.0
#: Threads of the store that pages keep busy at most.
_MAX_THREADS: Final = 2
#: By the kind of view; there are few.
_ADAPTERS: Final[dict[type[Any], TypeAdapter[Any]]] = {}


class _QuestionAbandoned(Exception):
    """Nobody waits any more for a question that had no thread yet."""


class StoreAsker(Protocol):
    """Asks a store off the event loop."""

    async def answer(self, kind: str, question: Callable[[], T], share: float = 1.0) -> T:
        """The question's result."""
        ...


class StoreQuestions:
    """Asks the store off the event loop: one question of a kind, few at once, and for so long.

    One instance serves all pages of a process, so that they keep few threads busy together.
    """

    def __init__(self, store: "Store", timeout_s: float = PART_TIMEOUT_S) -> None:
        self._store = store
        self._timeout_s = timeout_s
        self._threads = asyncio.Semaphore(_MAX_THREADS)
        self._kinds: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)

    async def __call__(self, kind: str, question: Callable[[], T], share: float = 1.0) -> T | None:
        """The result of a question that may block; None where it cannot be had just now.

        Args:
            kind: Of what; one of few.
            share: Part of its patience that is left, from 0 to 1.
        """
        try:
            return await self.answer(kind, question, share)
        except Unready:
            return None

    async def answer(self, kind: str, question: Callable[[], T], share: float = 1.0) -> T:
        """The question's result, for what cannot do without; the arguments are those above.

        Raises:
            Unready: It cannot be had just now. A change may have been made nevertheless.
        """
        try:
            async with asyncio.timeout(self._timeout_s * share):
                return await self._run(question, await self._acquire_turn(kind))
        except (StoreError, TimeoutError) as error:
            raise Unready(
                "The database does not answer just now; try again in a moment.",
                code="database_unavailable",
                retry_after=5.0,
            ) from error

    async def expect(self, kind: str, question: Callable[[], T]) -> T:
        """The question's result, where it is all that is asked for; the arguments are those above.

        Raises:
            Unready: It did not come in time.
        """
        answer = await self(kind, question)
        if answer is None:
            raise Unready(
                "The database did not answer in time. Ask again, or for a shorter period.",
                code="store_busy",
                retry_after=5.0,
            )
        return answer

    async def view(
        self, kind: str, build: Callable[[Readers, Q], V], question: Q, finish: Callable[[V], T]
    ) -> T:
        """A view of the ledger in the form that ``finish`` brings it into; raises as ``expect``."""
        reads = self._store.dashboard
        return await self.expect(kind, lambda: reads.read(read_view, build, question, finish))

    async def _acquire_turn(self, kind: str) -> Callable[[], None]:
        """Waits for a place; returns what gives it back."""
        turn = self._kinds[kind]
        await turn.acquire()
        try:
            await self._threads.acquire()
        except asyncio.CancelledError:
            turn.release()
            raise

        def leave() -> None:
            self._threads.release()
            turn.release()

        return leave

    async def _run(self, question: Callable[[], T], leave: Callable[[], None]) -> T:
        """Runs the question on a thread; its place is kept until it ends, whoever still waits."""
        loop = asyncio.get_running_loop()
        begun = threading.Lock()  # taken once: by the thread, or by whoever gave up before it came

        def answer() -> T:
            if not begun.acquire(blocking=False):
                raise _QuestionAbandoned
            try:
                return question()
            finally:
                with suppress(RuntimeError):  # the loop has ended, and nobody asks any more
                    loop.call_soon_threadsafe(leave)

        try:
            return await self._store.ask(answer)
        finally:
            if begun.acquire(blocking=False):
                leave()


def read_view(
    readers: Readers, build: Callable[[Readers, Q], V], question: Q, finish: Callable[[V], T]
) -> T:
    """A view in the form that is asked for; all but the readers can be pickled."""
    return finish(build(readers, question))


def view_itself(view: V) -> V:
    """The view itself; for a page that puts several together, which must be small ones."""
    return view


def json_bytes(view: object) -> bytes:
    """The view as the API answers with it."""
    kind = type(view)
    if kind not in _ADAPTERS:
        _ADAPTERS[kind] = TypeAdapter(kind)
    return _ADAPTERS[kind].dump_json(view)


def page_around(template: str, **values: object) -> Callable[[object], bytes]:
    """Renders a page around a view.

    Args:
        template: Name of its template, which calls the view ``shown``.
        values: Other values that it shows; they can be pickled.
    """
    return partial(_render, template, values)


def _render(template: str, values: dict[str, object], view: object) -> bytes:
    return pages.render(template, {**values, "shown": view}).encode()
