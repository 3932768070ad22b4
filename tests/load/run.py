"""A gateway with everything on, before the simulator, under a realistic load.

Usage: python -m tests.load.run [--seconds N] [--users N] [--web] [arguments for Locust]
"""

import argparse
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib import resources
from pathlib import Path
from typing import Final

from proxy.catalog.load import load
from proxy.tools.demo.catalog import redirected_catalog
from tests.bench.gateway import (
    command,
    end_children_when_terminated,
    gateway_key,
    process,
)
from tests.fakes.free_port import free_port
from tests.load.report import ReportRow, failures, table

LOCUSTFILE: Final = Path(__file__).with_name("locustfile.py")
ROOT: Final = Path(__file__).resolve().parents[2]
#: Budgets and objectives that are counted with every call and that this load keeps.
POLICIES: Final = """
[[budgets]]
name = "load-day"
scope = "team"
limit = "1000"
unit = "usd"
window = "day"
hold = "p95"

[[ceilings]]
name = "load-call"
limit = "1"
on_exceed = ["clamp"]

[[objectives]]
name = "load-ttft"
metric = "ttft"
p = 95
under = "5s"
calls = "streams"
enforce = "degrade"
ladder = ["gpt-5.6-luna"]
"""


def main() -> None:
    """Run the load and print its table; exit with 1 if a call was not answered as it should be."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--users", type=int, default=32)
    parser.add_argument("--web", action="store_true", help="Locust's page, until Ctrl-C")
    given, rest = parser.parse_known_args()
    if importlib.util.find_spec("locust") is None:
        raise SystemExit(
            "Locust is not installed. Run .venv/bin/pip install -c constraints.txt -e '.[load]'"
        )
    end_children_when_terminated()
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        with gateway(folder) as (url, key):
            if given.web:
                with suppress(KeyboardInterrupt):
                    locust(url, key, folder, [f"--users={given.users}", *_page(), *rest])
                return
            timed = [f"--users={given.users}", f"--run-time={given.seconds}s", "--headless"]
            locust(url, key, folder, [*timed, "--spawn-rate=8", "--stop-timeout=30", *rest])
        document = json.loads((folder / "figures.json").read_text(encoding="utf8"))
        costs = ledger(folder)
    rows = [ReportRow(**row) for row in document["rows"]]
    print(table(rows, costs), *document["errors"], sep="\n")  # noqa: T201
    sys.exit(1 if failures(rows) or not rows else 0)


def ledger(folder: Path) -> dict[str, float]:
    """Return what the gateway's ledger says that each mix cost, in dollars."""
    command_line = [command(), "report", "--by", "feature", "--json"]
    environment = {**os.environ, "THRIFTGATE_FOLDER": str(folder / "gateway")}  # noqa: TID251 - a child needs ours
    done = subprocess.run(command_line, env=environment, check=True, capture_output=True)  # noqa: S603 - our own command
    rows = json.loads(done.stdout)["rows"]
    return {row["feature"]: float(row["cost_usd"] or 0) for row in rows}


def locust(url: str, key: str, folder: Path, arguments: list[str]) -> None:
    """Run Locust to its end.

    Raises:
        SystemExit: If it left no figures, with the end of what it said.
    """
    environment = {
        **os.environ,  # noqa: TID251 - a child needs ours
        "LOAD_KEY": key,
        "LOAD_FIGURES": str(folder / "figures.json"),
        "PYTHONPATH": str(ROOT),
    }
    command_line = [
        sys.executable,
        "-m",
        "locust",
        "-f",
        str(LOCUSTFILE),
        "--host",
        url,
        *arguments,
    ]
    log = folder / "locust.log"
    with log.open("wb") as out:
        subprocess.run(command_line, env=environment, stdout=out, stderr=out, check=False)  # noqa: S603 - our own command
    if not (folder / "figures.json").exists():
        raise SystemExit(f"Locust failed:\n{log.read_text(encoding='utf8')[-2000:]}")


@contextmanager
def gateway(folder: Path) -> Iterator[tuple[str, str]]:
    """A gateway before a simulator of its own: its address and a key, for the block."""
    behind, port = free_port(), free_port()
    shipped = resources.files("proxy.catalog").joinpath("models.toml").read_text(encoding="utf8")
    catalog, policies = folder / "catalog.toml", folder / "policies.toml"
    catalog.write_text(redirected_catalog(load(shipped, None), f"http://127.0.0.1:{behind}/v1"))
    policies.write_text(POLICIES)
    environment = {
        "THRIFTGATE_FOLDER": str(folder / "gateway"),
        "THRIFTGATE_CATALOG": str(catalog),
        "THRIFTGATE_PORT": str(port),
        "THRIFTGATE_POLICIES": str(policies),
        "THRIFTGATE_PLANNING": "auto",
        "THRIFTGATE_COMPACTION": "facts",
    }
    key = gateway_key(environment)
    with (
        (folder / "log").open("wb") as log,
        process([command(), "simulator", "--port", str(behind)], None, behind, log),
        process([command(), "serve"], None, port, log, **environment),
    ):
        yield f"http://127.0.0.1:{port}", key


def _page() -> list[str]:
    port = free_port()
    print(f"Locust's page: http://127.0.0.1:{port}; Ctrl-C ends it all.")  # noqa: T201
    return ["--web-host=127.0.0.1", f"--web-port={port}"]


if __name__ == "__main__":
    main()
