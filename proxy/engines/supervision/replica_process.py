"""The process of one replica, started below a guardian that leaves nothing of it behind.

``PR_SET_PDEATHSIG`` alone would not do: it reaches the engine and not its workers, and it fires
when the thread that started the process ends. A control group needs rights that the gateway may
not have. The guardian needs none, and finds every descendant; ``guardian`` tells how.
"""

import asyncio
import errno
import logging
import os
import signal
import socket
import sys
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from proxy.engines.supervision import guardian
from proxy.engines.supervision.engine_log import EngineLog

_log = logging.getLogger("thriftgate")

#: Seconds that an engine gets after SIGTERM once the gateway is gone.
ORPHAN_GRACE_S: Final = 5.0
#: Environment variable that marks an engine and all that it starts; its value names the replica.
MARKER: Final = "ENGINE_SUPERVISED_AS"
#: Seconds that the rest of the output gets once the engine has ended.
_LAST_OUTPUT_S: Final = 1.0
_READ_BYTES: Final = 64 * 1024
_PROC: Final = Path("/proc")


@dataclass(frozen=True, slots=True)
class ProcessExit:
    """The end of an engine.

    Attributes:
        status: Its exit status, negative where a signal ended it; None where it is unknown.
        remaining: Its processes that outlived SIGKILL, which a driver may hold.
    """

    status: int | None
    remaining: int = 0


class ReplicaProcess:
    """A running engine below its guardian.

    Attributes:
        pid: The engine.
        exit: Its end; None while it runs.
    """

    def __init__(self, pid: int, lifeline: asyncio.StreamWriter) -> None:
        self.pid = pid
        self.exit: ProcessExit | None = None
        self._lifeline = lifeline
        self._ended = asyncio.Event()

    async def wait(self) -> ProcessExit:
        """Its end, once all of its processes are gone."""
        await self._ended.wait()
        assert self.exit is not None  # noqa: S101 - it is set before the event
        return self.exit

    def stop(self, seconds: float) -> None:
        """Send the engine SIGTERM, and all that is left SIGKILL after so many seconds."""
        self._order(f"stop {max(seconds, 0.0):.3f}")

    def kill(self) -> None:
        """Send all of it SIGKILL."""
        self._order("kill")

    def mark_ended(self, end: ProcessExit) -> None:
        """Record its end."""
        self.exit = end
        self._ended.set()

    def _order(self, text: str) -> None:
        if not self._lifeline.is_closing():
            self._lifeline.write(f"{text}\n".encode())


@asynccontextmanager
async def replica_process(
    argv: tuple[str, ...], environment: Mapping[str, str], log: EngineLog
) -> AsyncIterator[ReplicaProcess]:
    """A block with a running engine; what still runs at its end is ended.

    Args:
        argv: The engine's command line; it has to stay in the foreground.

    Raises:
        OSError: If the program cannot be started; the message says why.
    """
    keeper, ours, read_end = await _start_guardian(argv, environment)
    reports, lifeline = await asyncio.open_unix_connection(sock=ours)
    printed, pipe = await _read_pipe(read_end)
    try:
        pid = await _engine_pid(reports)
        process = ReplicaProcess(pid, lifeline)
        async with asyncio.TaskGroup() as tasks:
            output = tasks.create_task(_keep_output(printed, log))
            watch = tasks.create_task(_await_end(process, reports, environment.get(MARKER, "")))
            yield process
            if process.exit is None:
                process.stop(ORPHAN_GRACE_S)
            await watch
            await asyncio.wait({output}, timeout=_LAST_OUTPUT_S)
            output.cancel()
    finally:
        lifeline.close()
        pipe.close()
        await keeper.wait()
        log.finish()


async def _start_guardian(
    argv: tuple[str, ...], environment: Mapping[str, str]
) -> tuple[asyncio.subprocess.Process, socket.socket, int]:
    """Start a guardian for the engine: its process, its lifeline, the descriptor of the output."""
    ours, theirs = socket.socketpair()
    read_end, write_end = os.pipe()
    try:
        keeper = await asyncio.create_subprocess_exec(
            *(sys.executable, "-I", "-S", guardian.__file__, str(ORPHAN_GRACE_S), *argv),
            stdin=theirs.fileno(),
            stdout=write_end,
            stderr=write_end,
            env=dict(environment),
            start_new_session=True,  # Ctrl-C is for the gateway, which drains
        )
    except BaseException as error:
        ours.close()
        os.close(read_end)
        if isinstance(error, ValueError):
            raise OSError(errno.EINVAL, str(error)) from error
        raise
    finally:
        theirs.close()
        os.close(write_end)
    return keeper, ours, read_end


async def _read_pipe(descriptor: int) -> tuple[asyncio.StreamReader, asyncio.BaseTransport]:
    """The reader of a pipe, and what closes it.

    asyncio's own pipes of a process are part of its end, which a process left behind could hold up.
    """
    reader = asyncio.StreamReader()
    transport, _ = await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(descriptor, "rb")
    )
    return reader, transport


async def _engine_pid(reports: asyncio.StreamReader) -> int:
    """The engine's process id, once it runs.

    Raises:
        OSError: If it cannot be started.
    """
    while line := (await reports.readline()).decode():
        word, _, value = line.strip().partition(" ")
        if word == "started":
            return int(value)
        if word == "failed":
            number, _, reason = value.partition(" ")
            raise OSError(int(number), reason)
        _log.warning("An engine is supervised with limits: %s", value)
    raise OSError(errno.ECHILD, "its guardian ended; the engine's log may say why")


async def _await_end(process: ReplicaProcess, reports: asyncio.StreamReader, marker: str) -> None:
    """Record the engine's end; where its guardian was killed, end what that would have ended."""
    while line := (await reports.readline()).decode():
        word, status, remaining = line.split()
        if word == "ended":
            exit_status = None if status == "unknown" else int(status)
            process.mark_ended(ProcessExit(exit_status, int(remaining)))
            return
    _kill_all(lambda pid: _session(pid) == process.pid or _has_marker(pid, marker))
    process.mark_ended(ProcessExit(None))


async def _keep_output(output: asyncio.StreamReader, log: EngineLog) -> None:
    while piece := await output.read(_READ_BYTES):
        log.feed(piece)


def kill_leftovers(marker: str) -> int:
    """Kill processes of engines whose marker begins so; the number of them.

    There are some only where the gateway and a guardian were killed together. It is for the start
    of a supervisor that holds the lock of these engines.
    """
    return _kill_all(lambda pid: _has_marker(pid, marker))


def _kill_all(is_meant: Callable[[int], bool]) -> int:
    """Kill the processes that are meant; without /proc none is found."""
    if not _PROC.is_dir():
        return 0
    killed = 0
    for entry in _PROC.iterdir():
        if entry.name.isdecimal() and int(entry.name) != os.getpid():
            with suppress(OSError):
                if is_meant(int(entry.name)):
                    os.kill(int(entry.name), signal.SIGKILL)
                    killed += 1
    return killed


def _session(pid: int) -> int:
    return int((_PROC / str(pid) / "stat").read_bytes().rpartition(b")")[2].split()[3])


def _has_marker(pid: int, marker: str) -> bool:
    """True if a process of ours was started with a marker that begins so."""
    if not marker:
        return False
    variables = (_PROC / str(pid) / "environ").read_bytes()
    return b"\0" + f"{MARKER}={marker}".encode() in b"\0" + variables


def port_conflict(url: str) -> str:
    """Reason that a server cannot listen where the URL says; "" if it can.

    Without it the health check would be answered by the program that has the port.
    """
    parts = urlsplit(url)
    host, port = parts.hostname or "127.0.0.1", parts.port or 80
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        # As servers do: connections that have ended do not hold the port.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                return f"port {port} of {host} is taken by another program; end it, or name another"
            if error.errno == errno.EACCES:
                return f"port {port} of {host} may not be used: {error.strerror}"
    return ""


def kernel_oom_kills() -> int | None:
    """Processes that the kernel killed for lack of memory since it started; None if not counted."""
    try:
        lines = (_PROC / "vmstat").read_text(encoding="ascii").splitlines()
    except OSError:
        return None
    counts = [line.split()[1] for line in lines if line.startswith("oom_kill ")]
    return int(counts[0]) if counts else None
