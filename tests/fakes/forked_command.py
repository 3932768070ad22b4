"""The ``thriftgate`` command in a process that is forked from one with its imports done.

To import what ``serve`` needs takes a second of processor time, to fork next to none. Tests of
the start itself run ``sys.executable`` instead.
"""

import multiprocessing
import os
import signal
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from proxy.cli.main import main

_CONTEXT = multiprocessing.get_context("forkserver")
_CONTEXT.set_forkserver_preload(["tests.fakes.warm_gateway", __name__])


class ForkedCommand:
    """A running command, with the methods of ``subprocess.Popen`` that tests need.

    Attributes:
        pid: Its process.
    """

    def __init__(
        self, words: Sequence[str], environment: Mapping[str, str], out: Path, err: Path
    ) -> None:
        """Start it; what it prints is appended to two files, which may be the same."""
        self._process = _CONTEXT.Process(
            target=_run, args=(list(words), dict(environment), out, err), daemon=True
        )
        self._process.start()
        assert self._process.pid is not None
        self.pid = self._process.pid

    def poll(self) -> int | None:
        """Its exit status, negative where a signal ended it; None while it runs."""
        return self._process.exitcode

    def wait(self, timeout: float) -> int:
        """Its exit status once it has ended.

        Raises:
            TimeoutError: If it takes longer than that many seconds.
        """
        self._process.join(timeout)
        status = self.poll()
        if status is None:
            raise TimeoutError(self.pid)
        return status

    def send_signal(self, number: signal.Signals) -> None:
        """Send it a signal, unless it has ended."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        """Kill -9."""
        self.send_signal(signal.SIGKILL)


def _run(words: list[str], environment: dict[str, str], out: Path, err: Path) -> None:
    for stream, path in ((sys.stdout, out), (sys.stderr, err)):
        with path.open("ab") as file:
            os.dup2(file.fileno(), stream.fileno())
    os.environ.clear()  # noqa: TID251 - the child has the environment it was given
    os.environ.update(environment)  # noqa: TID251 - the same
    sys.argv = ["thriftgate", *words]
    main()
