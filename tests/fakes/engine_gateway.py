"""A process that serves fake engines, as ``thriftgate engine serve`` does."""

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from proxy.cli import session
from proxy.cli.engines.engine_processes import EnginePlan, serve_engine
from tests.fakes.engines import QUICK, engine_command

PROFILE = "tiny"
_PATIENCE_S = 60.0


@contextmanager
def engine_gateway(folder: Path, *flags: str) -> "Iterator[subprocess.Popen[str]]":
    """A process that serves one fake engine with these flags."""
    command = [sys.executable, "-m", "tests.fakes.engine_gateway", str(folder), *flags]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)  # noqa: S603 - our own command
    with process:
        try:
            yield process
        finally:
            process.kill()


def wait_for_replica(folder: Path, state: str) -> dict[str, Any]:
    """The first replica in the state file, once it has the state."""
    path = folder / "engines" / PROFILE / "state.json"
    until = time.monotonic() + _PATIENCE_S
    while time.monotonic() < until:
        if path.exists():
            for replica in json.loads(path.read_bytes())["replicas"]:
                if replica["state"] == state:
                    return dict(replica)
        time.sleep(0.01)
    raise AssertionError(path)


def plan(folder: Path, *flags: str) -> EnginePlan:
    """A plan of one fake engine with these flags."""
    return EnginePlan(
        profile=PROFILE,
        commands=[engine_command(*flags)],
        folder=folder,
        environment=QUICK.environment,
        settings=QUICK,
    )


if __name__ == "__main__":
    sys.exit(serve_engine(plan(Path(sys.argv[1]), *sys.argv[2:]), session.terminal))
