# ruff: noqa: T201 - a script prints its result
"""Times from the start of commands to their work, and to their end, on an empty ledger.

Work begins where a command opens the ledger; if it opens none, the first TOML file; else at its
end. Modules are compiled beforehand, as those of an installation are. Two bare imports stand beside
the commands and say how fast the machine is today. All take turns; each figure is the fastest of
its rounds, and processor time is less disturbed by other work than wall time.
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
#: Reports on a descriptor when the ledger or a TOML file is opened: which of them, wall time and
#: processor time, in seconds.
_COMMAND: Final = """
import os, sys, time

def report(event, args):
    if event == "sqlite3.connect" or (event == "open" and str(args[0]).endswith(".toml")):
        times = f"{time.monotonic()} {time.process_time()}"
        os.write(DESCRIPTOR, f"{event} {times}\\n".encode())

sys.addaudithook(report)
from proxy.cli.main import main

main()
"""


class Times(NamedTuple):
    """Seconds of one process, or the least of several.

    Attributes:
        work: Wall time until its work begins.
        work_cpu: Processor time until then.
        end: Wall time until its end.
    """

    work: float
    work_cpu: float
    end: float


def timed(script: str, words: list[str], environment: dict[str, str]) -> Times:
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
        opened = [line.split() for line in lines]
    first = sorted(opened, key=lambda line: (line[0] != "sqlite3.connect", float(line[1])))[:1]
    for _, wall, taken in first:
        return Times(float(wall) - began, float(taken), ended - began)
    return Times(ended - began, cpu, ended - began)


def _processor_time() -> float:
    """Seconds that children which have ended took of a processor."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def measure(folder: Path, rounds: int) -> dict[str, Times]:
    """The least times of each row, by its name; a first round compiles what is imported."""
    environment = {
        **os.environ,  # noqa: TID251 - the child's
        "THRIFTGATE_FOLDER": str(folder / "gateway"),
        "PYTHONPYCACHEPREFIX": str(folder / "compiled"),
    }
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    timed(_COMMAND, ["migrate"], environment)
    timed(_COMMAND, ["team", "create", "acme"], environment)
    found: dict[str, list[Times]] = defaultdict(list)
    for number in range(rounds + 1):
        for name in (*_BARE, *COMMANDS):
            words = [] if name in _BARE else name.split()
            taken = timed(_BARE.get(name, _COMMAND), words, environment)
            if number:
                found[name].append(taken)
    return {name: Times(*map(min, zip(*each, strict=True))) for name, each in found.items()}


def main() -> None:
    """Print a row for each command."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--rounds", type=int, default=9)
    with tempfile.TemporaryDirectory() as folder:
        rows = measure(Path(folder), options.parse_args().rounds)
    of_nothing, of_library = (rows[name].work_cpu for name in _BARE)
    print("seconds to the work (processor), to the end; processor time over pass, over sqlalchemy")
    for name, each in rows.items():
        ratios = f"{each.work_cpu / of_nothing:8.1f} {each.work_cpu / of_library:6.2f}"
        print(f"{name:18} {each.work:6.2f} ({each.work_cpu:.2f}) {each.end:8.2f} {ratios}")


if __name__ == "__main__":
    main()
