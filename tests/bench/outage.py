# ruff: noqa: T201 - a script prints its result
"""The database goes away under load and comes back: what callers notice, what the ledger holds.

Usage: python -m tests.bench.outage [--seconds 60]
"""

import argparse
import json
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from tests.fakes.background_loop import running_in_thread
from tests.fakes.gateway_fixture import running_simulator
from tests.fakes.ledger_check import LedgerCheck, check_ledger
from tests.fakes.load import Load
from tests.fakes.postgres import schema
from tests.fakes.serve_process import serve_process
from tests.fakes.wire_cut import WireCut


@dataclass(frozen=True, kw_only=True)
class Outage:
    """The results of an outage.

    Attributes:
        load: The callers, who noticed nothing if none was refused or broken off.
        meanwhile: Calls answered while the database was away.
        status: Status of readyz while it was.
        notes: Its notes then.
        recovery: Seconds from the database's return until readyz had no note.
        found: The reckoning.
    """

    load: Load
    meanwhile: int
    status: int
    notes: list[str]
    recovery: float
    found: LedgerCheck


def outage(
    folder: Path, database_url: str, *, seconds: float, lead: float = 1.0, pause: float = 0.0
) -> Outage:
    """Cut a gateway off its PostgreSQL for so long, and for a hundred calls, under load."""
    server = urlsplit(database_url)
    wire = WireCut(server.hostname or "", server.port or 5432)
    user, _, _ = server.netloc.rpartition("@")
    with (
        wire,
        running_in_thread(lambda: running_simulator(folder, time_scale=0.02)) as (_, catalog),
        serve_process(
            folder,
            catalog,
            server._replace(netloc=f"{user}@127.0.0.1:{wire.port}").geturl(),
        ) as gateway,
    ):
        gateway.start()
        load = Load(gateway.url, gateway.key, pause=pause)
        with load.running():
            time.sleep(lead)
            wire.close_connections()
            before = len(load.delivered)
            time.sleep(seconds)
            took(lambda: len(load.delivered) > before + 100)
            meanwhile = len(load.delivered) - before
            status, notes = ready(gateway.url)
            wire.mend()
            recovery = took(lambda: ready(gateway.url) == (200, []))
        gateway.stop()
        check = check_ledger(gateway, load)
    return Outage(
        load=load,
        meanwhile=meanwhile,
        status=status,
        notes=notes,
        recovery=recovery,
        found=check,
    )


def ready(url: str) -> tuple[int, list[str]]:
    """The status of ``/readyz``, and its notes."""
    try:
        with urllib.request.urlopen(f"{url}/readyz", timeout=10) as answer:  # noqa: S310 - ours
            status, body = answer.status, answer.read()
    except urllib.error.HTTPError as refused:
        status, body = refused.code, refused.read()
        refused.close()
    return status, list(json.loads(body).get("notes", ()))


def took(condition: Callable[[], bool]) -> float:
    """Seconds until it comes true, or until it has not for a minute."""
    began = time.monotonic()
    while not condition() and time.monotonic() < began + 60:
        time.sleep(0.05)
    return time.monotonic() - began


def main() -> None:
    """Print the numbers."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, schema() as url:
        came = outage(Path(folder), url, seconds=options.seconds)
    check, load = came.found, came.load
    print(
        f"PostgreSQL away for {options.seconds:.0f} s: {came.meanwhile} calls answered meanwhile,"
        f" {sum(load.refused.values())} refused, {load.broken} broken off,"
        f" slowest {load.slowest * 1000:.0f} ms; readyz said {came.status}, {came.notes};"
        f" without a note after {came.recovery:.1f} s; {check.delivered} delivered,"
        f" {check.kept} in the ledger, {len(check.lost)} lost, {check.doubled} doubled,"
        f" {len(check.adrift)} sums adrift, {check.undrained} segments undrained"
    )


if __name__ == "__main__":
    main()
