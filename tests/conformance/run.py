"""openai-python's own tests, run against a mock upstream and then through the gateway.

Usage: python -m tests.conformance.run [--least PERCENT] [pytest arguments, such as -k chat]
"""

import argparse
import importlib.metadata
import os
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from tests.bench.gateway import (
    command,
    end_children_when_terminated,
    gateway_key,
    process,
)
from tests.conformance.results import Comparison, changed_requests, outcomes
from tests.conformance.upstream import KEY
from tests.fakes.free_port import free_port

ROOT: Final = Path(__file__).resolve().parents[2]
CACHE: Final = ROOT / "var" / "conformance"
PLUGINS: Final = Path(__file__).with_name("plugin")
#: Percent of what passes without the gateway that has to pass through it.
LEAST: Final = 99.5
CATALOG: Final = """
default = "openai"

[upstreams.openai]
base_url = "{url}"
"""


def main() -> None:
    """Run both, print the table, and exit with 1 if too few tests pass through the gateway."""
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("--least", type=float, default=LEAST)
    given, rest = asked.parse_known_args()
    try:
        suite = fetch(CACHE)
    except subprocess.CalledProcessError as error:
        last = (error.stderr or "no message").strip().splitlines()[-1]
        print(f"SKIPPED: the SDK's source distribution cannot be downloaded: {last}")  # noqa: T201
        return
    end_children_when_terminated()
    with tempfile.TemporaryDirectory() as scratch:
        found = compared(suite, Path(scratch), rest)
    print(found.table())  # noqa: T201
    sys.exit(0 if found.share >= given.least else 1)


def fetch(cache: Path) -> Path:
    """The folder of the SDK's source distribution, and beside it what its tests need.

    Raises:
        CalledProcessError: If it cannot be downloaded.
    """
    version = importlib.metadata.version("openai")
    folder = cache / f"openai-{version}"
    if not folder.exists():
        _pip(
            "download", "--no-binary", "openai", "--no-deps", "--dest", cache, f"openai=={version}"
        )
        with tarfile.open(cache / f"openai-{version}.tar.gz") as packed:
            packed.extractall(cache, filter="data")
    if not (cache / "site" / "pytest_asyncio").exists():
        pins = ROOT / "constraints.txt"
        site = cache / "site"
        _pip("install", "--no-deps", "--target", site, "--constraint", pins, "pytest-asyncio")
    return folder


def compared(suite: Path, scratch: Path, rest: list[str]) -> Comparison:
    """The outcomes of the SDK's tests without the gateway and through it."""
    with upstream(scratch / "direct.log") as url:
        direct = tested(suite, scratch / "direct.xml", url, KEY, rest)
    with upstream(scratch / "through.log") as url, gateway(scratch, url) as (own_url, key):
        through = tested(suite, scratch / "through.xml", own_url, key, rest)
    changed = changed_requests(scratch / "direct.log", scratch / "through.log")
    return Comparison(direct, through, changed)


@contextmanager
def upstream(log: Path) -> Iterator[str]:
    """The base URL of a mock upstream, for the block."""
    port = free_port()
    named = ["--port", str(port), "--log", str(log)]
    me = [sys.executable, "-m", "tests.conformance.upstream"]
    with log.with_suffix(".err").open("wb") as err, process([*me, *named], None, port, err):
        yield f"http://127.0.0.1:{port}/v1"


@contextmanager
def gateway(folder: Path, url: str) -> Iterator[tuple[str, str]]:
    """The base URL of a gateway of one team before this upstream, and the team's key."""
    port, catalog = free_port(), folder / "catalog.toml"
    catalog.write_text(CATALOG.format(url=url))
    environment = {
        "THRIFTGATE_FOLDER": str(folder / "gateway"),
        "THRIFTGATE_CATALOG": str(catalog),
        "THRIFTGATE_PORT": str(port),
        "THRIFTGATE_SHARED_PROVIDER_STATE": "true",
        "OPENAI_API_KEY": KEY,
    }
    key = gateway_key(environment)
    with (
        (folder / "gateway.log").open("wb") as log,
        process([command(), "serve"], None, port, log, **environment),
    ):
        yield f"http://127.0.0.1:{port}/v1", key


def tested(suite: Path, report: Path, url: str, key: str, rest: list[str]) -> dict[str, str]:
    """The outcome of each test of the suite against this address."""
    ours = [sys.executable, "-m", "pytest", "-q", "-o", "addopts=", "-p", "sdk_plugin", "-n", "2"]
    where = [f"--junitxml={report}", "tests/api_resources", "--tb=line", "--no-header", *rest]
    environment = {
        **os.environ,  # noqa: TID251 - a child needs ours
        "TEST_API_BASE_URL": url,
        "CONFORMANCE_API_KEY": key,
        "PYTHONPATH": os.pathsep.join([str(PLUGINS), str(CACHE / "site")]),
    }
    log = report.with_suffix(".txt")
    with log.open("wb") as out:
        done = subprocess.run([*ours, *where], cwd=suite, env=environment, stdout=out, check=False)  # noqa: S603 - our own command
    if not report.exists():
        raise SystemExit(f"pytest ended with {done.returncode}:\n{log.read_text()[-2000:]}")
    return outcomes(report)


def _pip(*arguments: str | Path) -> None:
    given = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet"]
    subprocess.run([*given, *arguments], check=True, capture_output=True, text=True)  # noqa: S603 - our own command


if __name__ == "__main__":
    main()
