"""A Redis server of a test's own, which can be held up, killed and started again; it keeps nothing.

Nothing but ``redis-server`` itself can die as Redis does.
"""

import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import redis

from tests.fakes.free_port import free_port

#: Where the program is; None where it is not installed.
PROGRAM = shutil.which("redis-server")
ABSENT = "redis-server is not installed"


class OwnRedis:
    """A server on a free port of this machine."""

    def __init__(self, folder: Path) -> None:
        """Choose a port; nothing runs yet."""
        self._folder = folder
        self._port = free_port()
        self._process: subprocess.Popen[bytes] | None = None
        self.url = f"redis://127.0.0.1:{self._port}/0"

    def start(self) -> None:
        """Start it, empty, and wait until it answers."""
        assert PROGRAM is not None, ABSENT
        settings = {
            "port": f"{self._port}",
            "bind": "127.0.0.1",
            "save": "",
            "appendonly": "no",
            "dir": f"{self._folder}",
            "maxmemory-policy": "noeviction",
        }
        words = [word for name, value in settings.items() for word in (f"--{name}", value)]
        self._process = subprocess.Popen([PROGRAM, *words], stdout=subprocess.DEVNULL)  # noqa: S603 - our own command
        until = time.monotonic() + 10
        while not self._answers():
            assert time.monotonic() < until
            time.sleep(0.02)

    def hold_up(self) -> None:
        """Let it take connections and answer nothing."""
        self._send(signal.SIGSTOP)

    def go_on(self) -> None:
        """Let it answer again, first what it was asked meanwhile."""
        self._send(signal.SIGCONT)

    def flush(self) -> None:
        """Let it lose everything and go on."""
        with redis.Redis.from_url(self.url, socket_timeout=5) as client:
            client.flushall()

    def kill(self) -> None:
        """Kill -9; what it knew is gone."""
        if self._process is not None:
            self._send(signal.SIGKILL)
            self._process.wait(10)
            self._process = None

    def _send(self, how: signal.Signals) -> None:
        assert self._process is not None
        self._process.send_signal(how)

    def _answers(self) -> bool:
        with redis.Redis.from_url(self.url, socket_timeout=1) as client:
            try:
                return bool(client.ping())
            except redis.RedisError:
                return False


@contextmanager
def own_redis(folder: Path) -> Iterator[OwnRedis]:
    """A running server, killed at the end."""
    server = OwnRedis(folder)
    server.start()
    try:
        yield server
    finally:
        server.kill()
