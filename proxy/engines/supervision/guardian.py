"""The guardian of one engine process: starts it, and leaves nothing of it behind.

Run by its path on the standard library alone, as a child of the supervisor, in its own session::

    supervisor ── lifeline (socket, the guardian's stdin) ── guardian ── engine ── its workers …

- Lifeline: orders come in, reports go out, a line each. The kernel closes it when the supervisor
  ends, also by ``kill -9``; then the engine gets SIGTERM, a short grace, and all of it SIGKILL.
- Subreaper: a process whose parent ends becomes a child of the guardian, also one that made a
  session of its own. So all that the engine ever started is found below the guardian.
- Parent-death signal: the engine itself is killed if the guardian is.

Orders are ``stop SECONDS`` and ``kill``. Reports are ``limited TEXT``, ``failed ERRNO TEXT``,
``started PID`` and ``ended STATUS LEFT``: its exit status, and how many processes outlived SIGKILL.

Source: prctl(2), PR_SET_CHILD_SUBREAPER and PR_SET_PDEATHSIG (2026-11).
"""

import ctypes
import errno
import os
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

_LIFELINE: Final = 0
_PR_SET_PDEATHSIG: Final = 1
_PR_SET_CHILD_SUBREAPER: Final = 36
#: Seconds that processes get to vanish after SIGKILL; one within a driver may take long.
_SWEEP_S: Final = 10.0
_SWEEP_INTERVAL_S: Final = 0.01
_PROC: Final = Path("/proc")
#: Sent to a whole control group or terminal; the supervisor decides what they mean for the engine.
_IGNORED: Final = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


class EngineGuardian:
    """Watches one engine until it and all that it started have ended.

    Args:
        orphan_grace: Seconds between SIGTERM and SIGKILL once the supervisor is gone.
    """

    def __init__(self, orphan_grace: float) -> None:
        self._orphan_grace = orphan_grace
        self._engine: subprocess.Popen[bytes] | None = None
        self._status: int | None = None
        self._deadline: float | None = None
        self._unread = b""

    def run(self, command: Sequence[str]) -> None:
        """Start the engine and return once nothing of it is left."""
        wakeup = _wakeup_descriptor()
        prctl = _prctl()
        if prctl is None or prctl(_PR_SET_CHILD_SUBREAPER, 1) != 0:
            _report("limited this platform cannot trace processes that leave the engine's group")
        try:
            self._engine = _start(command, prctl)
        except (OSError, ValueError) as error:
            number = getattr(error, "errno", None) or errno.EINVAL
            _report(f"failed {number} {getattr(error, 'strerror', None) or error}")
            return
        _report(f"started {self._engine.pid}")
        self._watch(wakeup)
        left = self._sweep()
        self._engine.returncode = self._status or 0  # it is reaped already
        _report(f"ended {'unknown' if self._status is None else self._status} {left}")

    def _watch(self, wakeup: int) -> None:
        """Return once the engine has ended, or has to."""
        with selectors.DefaultSelector() as selector:
            selector.register(wakeup, selectors.EVENT_READ)
            selector.register(_LIFELINE, selectors.EVENT_READ)
            while self._status is None:
                left = None if self._deadline is None else self._deadline - time.monotonic()
                if left is not None and left <= 0:
                    return
                for key, _ in selector.select(left):
                    if key.fd == wakeup:
                        os.read(wakeup, 4096)
                    elif not self._obey():
                        selector.unregister(_LIFELINE)
                self._reap()

    def _obey(self) -> bool:
        """Follow the orders that have come; False once the supervisor is gone."""
        try:
            read = os.read(_LIFELINE, 4096)
        except OSError:
            read = b""
        *orders, self._unread = (self._unread + read).split(b"\n")
        for order in orders:
            word, _, value = order.partition(b" ")
            self._stop(float(value) if word == b"stop" else 0.0)
        if not read:
            self._stop(self._orphan_grace)
        return bool(read)

    def _stop(self, seconds: float) -> None:
        """Tell the engine to stop, and give it so many seconds, or what is left if that is less."""
        until = time.monotonic() + seconds
        if self._deadline is None:
            self._reap()  # else its id might be another's by now
            if self._engine is not None and self._status is None:
                # Its workers are its own to end: vLLM's would drop the streams under way.
                os.kill(self._engine.pid, signal.SIGTERM)
        self._deadline = until if self._deadline is None else min(self._deadline, until)

    def _reap(self) -> None:
        """Collect children that have ended, among them those that became ours."""
        with suppress(ChildProcessError):
            while (ended := os.waitpid(-1, os.WNOHANG))[0]:
                if self._engine is not None and ended[0] == self._engine.pid:
                    self._status = os.waitstatus_to_exitcode(ended[1])

    def _sweep(self) -> int:
        """Kill all that is left of the engine; the number of processes that outlived it."""
        until = time.monotonic() + _SWEEP_S
        self._reap()
        while processes := self._remaining_processes():
            for pid in processes:
                with suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, signal.SIGKILL)
            if time.monotonic() >= until:
                break
            time.sleep(_SWEEP_INTERVAL_S)
            self._reap()
        return len(processes)

    def _remaining_processes(self) -> list[int]:
        """The processes below this one; without /proc, the engine's process group is killed."""
        if (_PROC / "self/stat").exists():
            return _descendants(os.getpid())
        assert self._engine is not None  # noqa: S101 - it was started
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._engine.pid, signal.SIGKILL)
        return [self._engine.pid] if self._status is None else []


def _start(
    command: Sequence[str], prctl: Callable[[int, int], int] | None
) -> subprocess.Popen[bytes]:
    """Start the engine in a session of its own; it is killed if this process is."""
    guardian = os.getpid()

    def bind_to_guardian() -> None:
        if prctl is not None:
            prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
            if os.getppid() != guardian:
                os._exit(1)

    return subprocess.Popen(  # noqa: S603 - the command is what this is for
        command,
        stdin=subprocess.DEVNULL,
        start_new_session=True,
        preexec_fn=bind_to_guardian,  # noqa: PLW1509 - there is one thread
    )


def _prctl() -> Callable[[int, int], int] | None:
    """Linux's prctl; None elsewhere."""
    try:
        function = ctypes.CDLL(None).prctl
    except (OSError, AttributeError, TypeError):
        return None
    return lambda option, value: int(function(option, value, 0, 0, 0))


def _wakeup_descriptor() -> int:
    """A descriptor that can be read after each signal; none of them ends this process.

    Handlers fall back to the default in the engine; ignored signals would stay ignored there.
    """
    read, write = os.pipe()
    os.set_blocking(write, False)
    signal.set_wakeup_fd(write, warn_on_full_buffer=False)
    for number in (signal.SIGCHLD, *_IGNORED):
        signal.signal(number, lambda *_: None)
    return read


def _report(text: str) -> None:
    with suppress(OSError):  # the supervisor may be gone
        os.write(_LIFELINE, f"{text}\n".encode())


def _descendants(root: int) -> list[int]:
    """All processes below one, read from /proc."""
    children: dict[int, list[int]] = {}
    for entry in _PROC.iterdir():
        if entry.name.isdecimal():
            with suppress(OSError):
                # The program's name stands in brackets and may hold anything.
                fields = (entry / "stat").read_bytes().rpartition(b")")[2].split()
                children.setdefault(int(fields[1]), []).append(int(entry.name))
    processes = list(children.get(root, []))
    for pid in processes:  # grows while it is walked
        processes += children.get(pid, [])
    return processes


if __name__ == "__main__":
    EngineGuardian(float(sys.argv[1])).run(sys.argv[2:])
