"""The SDKs' own tests, run against a mock upstream and then through the gateway.

Usage: python -m tests.conformance.run [--sdk openai | anthropic] [--least PERCENT]
       [pytest arguments, such as -k chat]
"""

import argparse
import importlib.metadata
import os
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from tests.bench.gateway import (
    command,
    end_children_when_terminated,
    gateway_key,
    process,
)
from tests.conformance.results import SuiteComparison, changed_requests, outcomes
from tests.conformance.sdks import SDKS, SdkUnderTest
from tests.conformance.upstream import KEY
from tests.fakes.free_port import free_port

ROOT: Final = Path(__file__).resolve().parents[2]
CACHE: Final = ROOT / "var" / "conformance"
PLUGINS: Final = Path(__file__).with_name("plugin")
#: Percent of what passes without the gateway that has to pass through it.
LEAST: Final = 99.5
#: Settings beside the defaults: paths that give out the provider's own tokens (``realtime``,
#: ``chatkit``) are refused without.
SETTINGS: Final = {"THRIFTGATE_SHARED_PROVIDER_STATE": "true"}


def main() -> None:
    """Run all, print the table, and exit with 1 if too few tests pass through the gateway."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--least", type=float, default=LEAST)
    parser.add_argument(
        "--sdk", choices=SDKS, help="One alone; otherwise all, one after the other."
    )
    given, rest = parser.parse_known_args()
    end_children_when_terminated()
    shares = [share(sdk, rest) for name, sdk in SDKS.items() if given.sdk in {None, name}]
    sys.exit(0 if all(share is None or share >= given.least for share in shares) else 1)


def share(sdk: SdkUnderTest, rest: list[str]) -> float | None:
    """Print an SDK's table; return the percent that passes through, None where it was skipped."""
    try:
        suite = fetch(CACHE, sdk)
    except subprocess.CalledProcessError as error:
        last = (error.stderr or "no message").strip().splitlines()[-1]
        print(f"SKIPPED: the source distribution of {sdk.name} cannot be downloaded: {last}")  # noqa: T201
        return None
    with tempfile.TemporaryDirectory() as scratch:
        comparison = compare(sdk, suite, Path(scratch), rest)
    needed = " ".join(f"{name}={value}" for name, value in SETTINGS.items())
    title = f"{sdk.name} {importlib.metadata.version(sdk.name)}, settings: {needed}"
    print(f"{title}\n{comparison.table()}\n", flush=True)  # noqa: T201
    return comparison.share


def fetch(cache: Path, sdk: SdkUnderTest) -> Path:
    """The folder of an SDK's source distribution, and beside it what its tests need.

    Raises:
        CalledProcessError: If it cannot be downloaded.
    """
    named = f"{sdk.name}-{importlib.metadata.version(sdk.name)}"
    folder = cache / named
    if not folder.exists():
        requirement = named.replace("-", "==")
        _pip("download", "--no-binary", sdk.name, "--no-deps", "--dest", cache, requirement)
        with tarfile.open(cache / f"{named}.tar.gz") as packed:
            packed.extractall(cache, filter="data")
    site = site_of(sdk)
    missing = [name for name, module in sdk.packages if not (site / module).exists()]
    if missing:
        pins = ROOT / "constraints.txt"
        _pip("install", "--no-deps", "--target", site, "--constraint", pins, *missing)
    return folder


def site_of(sdk: SdkUnderTest) -> Path:
    """The folder with what an SDK's tests need, which other tests must not see."""
    return CACHE / f"site-{sdk.name}"


def compare(sdk: SdkUnderTest, suite: Path, scratch: Path, rest: list[str]) -> SuiteComparison:
    """The outcomes of an SDK's tests without the gateway, through it, and by its defaults."""
    with upstream(sdk, scratch / "direct.log") as url:
        direct = run_suite(sdk, suite, scratch / "direct.xml", (url, KEY), rest)
    with upstream(sdk, scratch / "through.log") as url, gateway(sdk, scratch, url, SETTINGS) as own:
        through = run_suite(sdk, suite, scratch / "through.xml", own, rest)
    with upstream(sdk, scratch / "default.log") as url, gateway(sdk, scratch, url, {}) as own:
        default = run_suite(sdk, suite, scratch / "default.xml", own, rest)
    changed = changed_requests(scratch / "direct.log", scratch / "through.log")
    return SuiteComparison(direct, through, default, changed)


@contextmanager
def upstream(sdk: SdkUnderTest, log: Path) -> Iterator[str]:
    """The base URL of a mock upstream, for the block."""
    port = free_port()
    named = ["--port", str(port), "--log", str(log), "--sdk", sdk.name]
    me = [sys.executable, "-m", "tests.conformance.upstream"]
    with log.with_suffix(".err").open("wb") as err, process([*me, *named], None, port, err):
        yield f"http://127.0.0.1:{port}{sdk.base_path}"


@contextmanager
def gateway(
    sdk: SdkUnderTest, folder: Path, url: str, settings: Mapping[str, str]
) -> Iterator[tuple[str, str]]:
    """The base URL of a gateway of one team before this upstream, and the team's key."""
    folder = folder / ("default" if not settings else "set")
    folder.mkdir()
    port, catalog = free_port(), folder / "catalog.toml"
    catalog.write_text(sdk.catalog.format(url=url))
    environment = {
        "THRIFTGATE_FOLDER": str(folder / "gateway"),
        "THRIFTGATE_CATALOG": str(catalog),
        "THRIFTGATE_PORT": str(port),
        **settings,
        sdk.key_variable: KEY,
    }
    key = gateway_key(environment)
    with (
        (folder / "gateway.log").open("wb") as log,
        process([command(), "serve"], None, port, log, **environment),
    ):
        yield f"http://127.0.0.1:{port}{sdk.base_path}", key


def run_suite(
    sdk: SdkUnderTest, suite: Path, report: Path, place: tuple[str, str], rest: list[str]
) -> dict[str, str]:
    """The outcome of each test of the suite against this address, with this key."""
    ours = [sys.executable, "-m", "pytest", "-q", "-o", "addopts=", "-p", "sdk_plugin", "-n", "2"]
    where = [f"--junitxml={report}", "tests/api_resources", "--tb=line", "--no-header"]
    environment = {
        **os.environ,  # noqa: TID251 - a child needs ours
        "TEST_API_BASE_URL": place[0],
        "CONFORMANCE_API_KEY": place[1],
        "PYTHONPATH": os.pathsep.join([str(PLUGINS), str(site_of(sdk))]),
    }
    given = [*ours, *sdk.arguments, *where, *rest]
    log = report.with_suffix(".txt")
    with log.open("wb") as out:
        done = subprocess.run(given, cwd=suite, env=environment, stdout=out, check=False)  # noqa: S603 - our own command
    if not report.exists():
        raise SystemExit(f"pytest ended with {done.returncode}:\n{log.read_text()[-2000:]}")
    return outcomes(report)


def _pip(*arguments: str | Path) -> None:
    given = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet"]
    subprocess.run([*given, *arguments], check=True, capture_output=True, text=True)  # noqa: S603 - our own command


if __name__ == "__main__":
    main()
