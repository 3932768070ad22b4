# ruff: noqa: T201 - a script prints its result
"""Times from the start of commands to their work, and to their end, on an empty ledger.

Work begins where a command asks for the ledger, whose library it loads only then, or opens the
first TOML file; if it does neither, at its end. Modules are
compiled beforehand, as those of an installation are. Two bare imports stand beside the commands and
say how fast the machine is today. All take turns; each figure is the fastest of its rounds, and
processor time is less disturbed by other work than wall time.
Usage: python -m tests.bench.startup [--rounds 9]
"""

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from pathlib import Path
from typing import Final, NamedTuple

COMMANDS: Final = (
    "--version", "--help", "check", "engine status", "objectives", "budgets", "report", "savings",
    "misses", "user hash bob", "layout list", "compaction list", "key list", "team list", "alerts",
)  # fmt: skip
_BARE: Final = {name: name for name in ("pass", "import sqlalchemy")}
#: Reports on a descriptor when the ledger's library is imported, and when the ledger or a TOML file
#: is opened: which of them, wall time and processor time, in seconds.
_COMMAND: Final = """
import os, sys, time

def report(event, args):
    is_library = event == "import" and args[0] == "sqlalchemy"
    is_file = event == "open" and str(args[0]).endswith(".toml")
    if event == "sqlite3.connect" or is_library or is_file:
        times = f"{time.monotonic()} {time.process_time()}"
        os.write(DESCRIPTOR, f"{event} {times}\\n".encode())

sys.addaudithook(report)
from proxy.cli.main import main

main()
"""


class StartTimes(NamedTuple):
    """Seconds of one process, or the least of several.

    Attributes:
        work: Wall time until its work begins.
        work_cpu: Processor time until then.
        ledger_cpu: Processor time until it connects to the ledger; that of ``work`` if it does not.
        end: Wall time until its end.
    """

    work: float
    work_cpu: float
    ledger_cpu: float
    end: float


def time_start(script: str, words: list[str], environment: dict[str, str]) -> StartTimes:
    """The times of one process that runs ``script``."""
    reader, writer = os.pipe()
    code = script.replace("DESCRIPTOR", str(writer))
    began, spent = time.monotonic(), _processor_time()
    subprocess.run(  # noqa: S603 - our own command
        [sys.executable, "-c", code, *words],
        env=environment,
        check=True,
        pass_fds=[writer],
        stdout=subprocess.DEVNULL,
    )
    ended, cpu = time.monotonic(), _processor_time() - spent
    os.close(writer)
    with os.fdopen(reader) as lines:
        seen = [line.split() for line in lines]
    first = {name: (float(wall), float(times)) for name, wall, times in reversed(seen)}
    work = min(first.values(), default=(ended, cpu))
    _, ledger_cpu = first.get("sqlite3.connect", work)
    return StartTimes(work[0] - began, work[1], ledger_cpu, ended - began)


def _processor_time() -> float:
    """Seconds that children which have ended took of a processor."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def measure(folder: Path, rounds: int) -> dict[str, StartTimes]:
    """The least times of each row, by its name; a first round compiles what is imported."""
    environment = {
        **os.environ,  # noqa: TID251 - the child's
        "THRIFTGATE_FOLDER": str(folder / "gateway"),
        "PYTHONPYCACHEPREFIX": str(folder / "compiled"),
    }
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    time_start(_COMMAND, ["migrate"], environment)
    time_start(_COMMAND, ["team", "create", "acme"], environment)
    times_by_command: dict[str, list[StartTimes]] = defaultdict(list)
    for number in range(rounds + 1):
        for name in (*_BARE, *COMMANDS):
            words = [] if name in _BARE else name.split()
            times = time_start(_BARE.get(name, _COMMAND), words, environment)
            if number:
                times_by_command[name].append(times)
    return {
        name: StartTimes(*map(min, zip(*each, strict=True)))
        for name, each in times_by_command.items()
    }


def main() -> None:
    """Print a row for each command."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--rounds", type=int, default=9)
    with tempfile.TemporaryDirectory() as folder:
        rows = measure(Path(folder), options.parse_args().rounds)
    of_library = rows["import sqlalchemy"].work_cpu
    print("seconds to the work (processor); processor to the ledger, over sqlalchemy; to the end")
    for name, row in rows.items():
        ledger = f"{row.ledger_cpu:6.2f} {row.ledger_cpu / of_library:6.2f}"
        print(f"{name:18} {row.work:6.2f} ({row.work_cpu:.2f}) {ledger} {row.end:8.2f}")


if __name__ == "__main__":
    main()
