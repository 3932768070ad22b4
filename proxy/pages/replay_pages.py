"""The page that replays a log: the savings it would have had, and how to get them.

::

    page ── bytes ──▶ thriftgate replay --json -  (nice 10, bounded in memory and time)
         ◀── JSON ──

A replay takes 10 ms of processor time for each call of the log. In the gateway's process, calls
would wait for it; a thread could not be stopped. The log comes by a pipe and is in no file.
"""

import asyncio
import os
import resource
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Final

import msgspec
from fastapi import Request
from starlette.responses import Response

from dashboards.access import Action, Viewer
from dashboards.views.replay import ReplayReport
from proxy.errors import CallerError, Unready
from proxy.pages.site import Pages
from proxy.pages.viewing import SignedIn, check_allowed, route, uploaded_file

MAX_LOG_BYTES: Final = 16 * 2**20
_COMMAND: Final = (sys.executable, "-m", "proxy.cli.main", "replay", "--json", "-")
_TIMEOUT_S: Final = 120.0
#: Address space of the process; 1,000 calls of 9 KB take a quarter of it.
_MAX_MEMORY_BYTES: Final = 2 * 2**30
_LOW_PRIORITY: Final = 10
_RETRY_AFTER_S: Final = 10.0
#: Characters of a reason.
_WORDS: Final = 300

_report = msgspec.json.Decoder(ReplayReport).decode


class ReplayProcess:
    """Replays one log at a time.

    Args:
        command: Reads a log from standard input, and writes a report as JSON.
    """

    def __init__(self, command: Sequence[str] = _COMMAND, timeout_s: float = _TIMEOUT_S) -> None:
        self._command = command
        self._timeout_s = timeout_s
        self._turn = asyncio.Lock()

    async def replay(self, log: bytes) -> ReplayReport:
        """The report of a log.

        Raises:
            CallerError: It cannot be read, or takes too long.
            Unready: Another one is being replayed.
        """
        if self._turn.locked():
            raise Unready(
                "Another log is being replayed; try again in a moment.",
                code="replay_busy",
                retry_after=_RETRY_AFTER_S,
            )
        async with self._turn:
            output, problem = await self._run(log)
        try:
            return _report(output)
        except msgspec.DecodeError:
            raise CallerError(
                f"This log cannot be replayed: {problem or 'the replay failed'}",
                code="unreadable_log",
                status=422,
            ) from None

    async def _run(self, log: bytes) -> tuple[bytes, str]:
        """The output of the command, and the last line that it complained in."""
        process = await asyncio.create_subprocess_exec(
            *self._command, stdin=PIPE, stdout=PIPE, stderr=PIPE
        )
        try:
            _bound(process)
            async with asyncio.timeout(self._timeout_s):
                output, complaints = await process.communicate(log)
        except TimeoutError:
            raise CallerError(
                f"This log takes more than {self._timeout_s:g} s. Replay a part of it, or all of it"
                " without a deadline: thriftgate replay FILE",
                code="log_too_long",
                status=422,
            ) from None
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
        lines = complaints.decode(errors="replace").strip().splitlines()
        return output, lines[-1][:_WORDS] if lines else ""


def _bound(process: Process) -> None:
    """Let calls go first, and bound the memory where the system can."""
    os.setpriority(os.PRIO_PROCESS, process.pid, _LOW_PRIORITY)
    if hasattr(resource, "prlimit"):  # Linux alone has it
        limits = (_MAX_MEMORY_BYTES, _MAX_MEMORY_BYTES)
        resource.prlimit(process.pid, resource.RLIMIT_AS, limits)


@dataclass(eq=False)
class ReplayPages(Pages):
    """The page; ``replay`` makes the report of a log's bytes."""

    replay: Callable[[bytes], Awaitable[ReplayReport]]

    async def _show(
        self, viewer: Viewer, name: str = "", report: ReplayReport | None = None
    ) -> Response:
        shown = {"name": name, "report": report, "megabytes": MAX_LOG_BYTES // 2**20}
        return await self.site.html("replay.html", viewer, shown=shown)

    @route("GET", "/replay")
    async def choose_log(self, viewer: SignedIn) -> Response:
        """The form that takes a log."""
        check_allowed(viewer, Action.SEE_COSTS)
        return await self._show(viewer)

    @route("POST", "/replay")
    async def replay_log(self, request: Request, viewer: SignedIn) -> Response:
        """The report of a log; nothing of it stays here."""
        check_allowed(viewer, Action.SEE_COSTS)
        name, log = await uploaded_file(request, MAX_LOG_BYTES)
        return await self._show(viewer, name, await self.replay(log))
