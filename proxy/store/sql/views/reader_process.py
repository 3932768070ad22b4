"""A process of its own that reads the ledger for pages, at the lowest priority.

::

    page ── thread ── pipe ──▶ reader process (nice 19) ── the database
                      pipe ◀── JSON or HTML, as bytes

A question of a page takes a tenth of a second of processor time or more. In the gateway's process
it would hold the interpreter's lock while calls wait for it. Here the operating system gives way
to calls at once. Large answers are made here to the last byte, so that the gateway only passes them
on. It starts with the first question, so that a gateway whose pages nobody opens needs no memory
for it.

A question that takes minutes is answered by a process of its own (``read_apart``), which ends with
it, and with the process that asked.

Run as a module, it is that process.
"""

import asyncio
import gc
import logging
import os
import pickle
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from typing import Any, Concatenate, Final, ParamSpec, TypeVar

from proxy.records.feature_mode import PlanningMode
from proxy.store.errors import StoreError
from proxy.store.sql.database import open_reader
from proxy.store.sql.views.readers import DashboardReads, LocalReads, Readers

P = ParamSpec("P")
Q = TypeVar("Q")
T = TypeVar("T")
#: A function of readers, and what else it is called with.
_Question = tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]
#: The function's result, and the reason if the database gave none; "" if it did.
_Answer = tuple[Any, str]

_log = logging.getLogger("thriftgate.pages")

#: Seconds that a question may take; the page that asked has given up long before.
_QUESTION_TIMEOUT_S: Final = 10.0
#: Seconds that a question waits for the one before it.
_TURN_TIMEOUT_S: Final = 1.0
#: Seconds that a question waits for the process to start; a page waits for a part a second longer.
_START_TIMEOUT_S: Final = 2.0
#: Questions that found the process still starting before it is taken to hang, and replaced.
_MAX_EARLY_QUESTIONS: Final = 10
_LOWEST_PRIORITY: Final = 19
#: New objects after which that process looks for garbage.
_GARBAGE_THRESHOLD: Final = 50_000


class ReaderProcess:
    """Asks the reader process one question after another; the first one starts it.

    A question that waits too long for the one before it or for the process to start, or that finds
    no process, is answered in this process. A process that takes too long or has died is replaced.

    Args:
        timeout_s: Seconds that a question may take.
        turn_timeout_s: Seconds that it waits for the one before it.
        start_timeout_s: Seconds that it waits for the process to start.
    """

    def __init__(
        self,
        url: str,
        local: DashboardReads,
        mode: PlanningMode = PlanningMode.OBSERVE,
        timeout_s: float = _QUESTION_TIMEOUT_S,
        turn_timeout_s: float = _TURN_TIMEOUT_S,
        start_timeout_s: float = _START_TIMEOUT_S,
    ) -> None:
        self._database = url, mode
        self._local = local
        self._timeout_s, self._turn_timeout_s = timeout_s, turn_timeout_s
        self._start_timeout_s = start_timeout_s
        self._is_ready, self._early_questions = False, 0
        self._turn = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._pipe: Connection | None = None
        self._is_started = self._is_closed = False

    @property
    def pid(self) -> int | None:
        """The id of the process; None while there is none."""
        return None if self._process is None else self._process.pid

    def start(self) -> None:
        """Start the process; it answers once it has imported what it needs, in a second or two."""
        self._is_started, self._is_ready, self._early_questions = True, False, 0
        ours, theirs = Pipe()
        with theirs:
            command = [sys.executable, "-m", __name__, str(theirs.fileno())]
            try:
                # In another session its priority could count among its own kind alone.
                self._process = subprocess.Popen(command, pass_fds=[theirs.fileno()])  # noqa: S603 - our own module
            except OSError as error:
                _log.warning("Pages are read within the gateway; no process can start: %s", error)
                ours.close()
                return
        ours.send(self._database)
        self._pipe = ours

    def read(
        self, question: Callable[Concatenate[Readers, P], T], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """The question's answer; the arguments are those of ``DashboardReads.read``."""
        answer: _Answer | None = None
        if self._turn.acquire(timeout=self._turn_timeout_s):
            try:
                answer = self._ask((question, args, kwargs))
            finally:
                self._turn.release()
        if answer is None:
            return self._local.read(question, *args, **kwargs)
        result, failure = answer
        if failure:
            raise StoreError(failure)
        reply: T = result
        return reply

    def close(self) -> None:
        """End the process, whatever it reads."""
        self._is_closed = True
        if self._process is not None:
            self._process.kill()
        with self._turn:
            self._end()

    def _ask(self, question: _Question) -> _Answer | None:
        """The answer of the process; None where there is none any more."""
        if not (self._is_started or self._is_closed):
            self.start()
        if self._pipe is None:
            return None
        try:
            if not self._await_start(self._pipe):
                return None
            self._pipe.send(question)
            if self._pipe.poll(self._timeout_s):
                answer: _Answer = self._pipe.recv()
                return answer
        except (EOFError, OSError) as error:
            self._replace(f"has ended ({error!r})")
            return None
        self._replace(f"took more than {self._timeout_s:g} s for a question")
        raise TimeoutError

    def _await_start(self, pipe: Connection) -> bool:
        """True once the process answers questions; False if it does not in time."""
        if not self._is_ready and pipe.poll(self._start_timeout_s):
            self._is_ready = pipe.recv()
        self._early_questions += not self._is_ready
        if self._early_questions > _MAX_EARLY_QUESTIONS:
            self._replace("does not start")
        return self._is_ready

    def _replace(self, why: str) -> None:
        self._end()
        if not self._is_closed:
            _log.warning("The process that reads for pages %s; another one is started.", why)
            self.start()

    def _end(self) -> None:
        pipe, self._pipe = self._pipe, None
        process, self._process = self._process, None
        if pipe is not None:
            pipe.close()
        if process is not None:
            process.kill()
            process.wait()


async def read_apart(
    database: tuple[str, PlanningMode],
    timeout_s: float,
    question: Callable[[Readers, Q], T],
    arg: Q,
) -> T:
    """The answer of a process for this one question, which is killed where nobody waits any more.

    Args:
        database: The database's URL, and the planning mode as in ``ReaderProcess``.
        timeout_s: Seconds that it may take.

    Raises:
        StoreError: The database does not answer.
        TimeoutError: It did not in time.
        OSError: The process cannot start, or has ended without an answer.
    """
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", __name__, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    answer = b""
    try:
        async with asyncio.timeout(timeout_s):
            if process.stdin is not None and process.stdout is not None:
                process.stdin.write(pickle.dumps((database, timeout_s, (question, (arg,), {}))))
                await process.stdin.drain()
                answer = await process.stdout.read()
    finally:
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()
    if not answer:
        raise OSError("the process that reads has ended")
    result, failure = pickle.loads(answer)  # noqa: S301 - of a process of ours
    if failure:
        raise StoreError(failure)
    reply: T = result
    return reply


def _answer_one() -> None:
    """Answer the one question on standard input, unless that is closed before."""
    (url, mode), timeout_s, question = pickle.load(sys.stdin.buffer)  # noqa: S301 - of our gateway
    threading.Thread(target=_end_with_input, daemon=True).start()
    os.nice(_LOWEST_PRIORITY)
    answer = _answer(LocalReads(open_reader(url, timeout_s), mode), question)
    sys.stdout.buffer.write(pickle.dumps(answer))


def _end_with_input() -> None:
    """End this process, whatever it reads, once its standard input is closed."""
    os.read(sys.stdin.fileno(), 1)  # no lock of Python's is held, which its end would wait for
    os._exit(1)


def _answer(reads: DashboardReads, query: _Question) -> _Answer:
    question, args, kwargs = query
    try:
        return reads.read(question, *args, **kwargs), ""
    except StoreError as error:
        return None, str(error)


def _answer_questions(pipe: Connection) -> None:
    """Answer questions until the gateway closes its end, or is no more."""
    url, mode = pipe.recv()
    reads = LocalReads(open_reader(url), mode)
    os.nice(_LOWEST_PRIORITY)
    # Of a window's fifty thousand rows none is garbage; looking for it took as long as the rest.
    gc.freeze()
    gc.set_threshold(_GARBAGE_THRESHOLD)
    pipe.send(True)  # noqa: FBT003 - it is ready
    while True:
        pipe.send(_answer(reads, pipe.recv()))


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the gateway
    with suppress(EOFError, ConnectionError):
        if sys.argv[1:]:
            _answer_questions(Connection(int(sys.argv[1])))
        else:
            _answer_one()
