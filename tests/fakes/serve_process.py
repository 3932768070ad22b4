"""``thriftgate serve`` as a process of its own, forked from one with its imports done."""

import http.client
import json
import os
import signal
import socket
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from proxy.api.connections.starting import STARTING
from proxy.store.store import Store
from tests.fakes.databases import migrated_sqlite
from tests.fakes.forked_command import ForkedCommand
from tests.fakes.free_port import free_port

_NOW = 1_790_000_000.0


class ServeProcess:
    """A gateway in a folder of its own, which can be started, killed and started again."""

    def __init__(self, folder: Path, catalog: Path, database_url: str) -> None:
        """Make the ledger and a key; the process is not started yet."""
        self.folder = folder / "gateway"
        self.folder.mkdir(mode=0o700)
        self.database_url = database_url or migrated_sqlite(self.folder / "thriftgate.db")
        store = Store.open(self.database_url, self.folder / "journal")
        team = store.teams.create("acme", now=_NOW)
        _, self.key = store.teams.create_key(team.id, "first", now=_NOW)
        store.close(10)
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self._catalog = catalog
        self._process: ForkedCommand | None = None

    def start(self, **settings: str) -> None:
        """Start the process and wait until it takes calls."""
        self.start_listening(**settings)
        while self.probe("/readyz")[1].get("troubles") == [STARTING]:
            time.sleep(0.05)

    def probe(self, path: str) -> tuple[int, dict[str, Any]]:
        """The status and the body of a page that needs no key."""
        with closing(http.client.HTTPConnection("127.0.0.1", self.port, timeout=10)) as caller:
            caller.request("GET", path)
            answer = caller.getresponse()
            return answer.status, json.loads(answer.read())

    def log(self) -> str:
        """All that its processes have written."""
        return (self.folder / "serve.log").read_text()

    def environment(self, **settings: str) -> dict[str, str]:
        """The environment of its process, and of commands beside it."""
        return {
            **os.environ,  # noqa: TID251 - the child needs what we have
            "THRIFTGATE_FOLDER": str(self.folder),
            "THRIFTGATE_CATALOG": str(self._catalog),
            "THRIFTGATE_PORT": str(self.port),
            "THRIFTGATE_DATABASE_URL": self.database_url,
            "SIMULATOR_KEY": "simulator-key",
            **settings,
        }

    def start_listening(self, **settings: str) -> None:
        """Start the process and wait until clients can connect."""
        log = self.folder / "serve.log"
        self._process = ForkedCommand(["serve"], self.environment(**settings), log, log)
        until = time.monotonic() + 30
        while time.monotonic() < until and self._process.poll() is None:
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", self.port)) == 0:
                    return
            time.sleep(0.02)
        raise AssertionError(self.log())

    @property
    def pid(self) -> int:
        """The id of the running process."""
        assert self._process is not None
        return self._process.pid

    def kill(self) -> None:
        """Kill -9."""
        self._end(signal.SIGKILL)

    def stop(self) -> int:
        """Tell it to stop, and wait until it has; its exit status."""
        return self._end(signal.SIGTERM)

    def wait(self) -> int:
        """The exit status of a process that ends by itself."""
        assert self._process is not None
        status = self._process.wait(40)
        self._process = None
        return status

    def _end(self, how: signal.Signals) -> int:
        if self._process is None:
            return 0
        self._process.send_signal(how)
        return self.wait()


@contextmanager
def serve_process(folder: Path, catalog: Path, database_url: str = "") -> Iterator[ServeProcess]:
    """A gateway that is killed at the end if it still runs; SQLite where no URL is given."""
    process = ServeProcess(folder, catalog, database_url)
    try:
        yield process
    finally:
        process.kill()
