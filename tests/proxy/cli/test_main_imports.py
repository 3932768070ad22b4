"""Commands import no more than they need, so that they begin at once."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from proxy.cli.main import _TABLE
from tests.proxy.cli.typed_commands import command_output

pytestmark = pytest.mark.usefixtures("folder")

#: What takes long to import: libraries, most of them longer than a command takes to run, and the
#: parts of ours that do a command's work.
HEAVY = {
    "aiohttp", "alembic", "argon2", "bpe_openai", "fastapi", "httpx", "httpx2", "jinja2",
    "openai", "opentelemetry", "prometheus_client", "psycopg", "redis",
    "sqlalchemy", "sqlalchemy.dialects.postgresql", "starlette", "uvicorn", "uvloop", "yaml",
}  # fmt: skip
WORK = {
    "compaction.compact", "proxy.services", "proxy.app", "proxy.configuration", "proxy.tools.demo",
    "proxy.tools.simulator", "proxy.prefix.planner", "proxy.api.connections.serving",
    "proxy.calls.metering.settlement", "proxy.store", "proxy.providers",
    "slo.objectives.openslo", "slo.policies",
}  # fmt: skip
#: Commands that only read the ledger.
READING = (
    ("report",), ("report", "cost"), ("savings",), ("layout", "list"), ("compaction", "list"),
    ("key", "list"), ("budgets",), ("alerts",),
)  # fmt: skip

#: Commands, one after the other, in a process that has imported none of what they need: a fork of
#: one that has imported the table of commands and nothing else. It ends with the first that fails.
#: What it has imported by then is the last line.
_IMPORTS = """
import json, os, sys
import attr, pydantic, rich.markdown, rich.table  # libraries that any command may import
from proxy.cli.main import _commands

for line in sys.stdin:
    commands, environment, stderr = json.loads(line)
    if child := os.fork():
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
        continue
    os.environ.clear()
    os.environ.update(environment)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    os.dup2(os.open(stderr, os.O_WRONLY | os.O_CREAT), 2)
    status = 0
    try:
        for words in commands:
            try:
                _commands(words)
            except SystemExit as end:
                status = end.code or 0
            if status:
                break
    finally:
        print(*sys.modules, file=sys.stderr)
    sys.exit(status)
"""


@pytest.fixture(scope="module")
def importer() -> Iterator["subprocess.Popen[str]"]:
    command = [sys.executable, "-c", _IMPORTS]
    process = subprocess.Popen(  # noqa: S603 - our own command
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    with process:
        yield process


@pytest.fixture
def imports_of(importer: "subprocess.Popen[str]", tmp_path: Path) -> Callable[..., set[str]]:
    """Slow modules that were imported when a command, or several in turn, end with that status."""

    def run(*words: str | tuple[str, ...], code: int = 0, **settings: str) -> set[str]:
        commands = words if isinstance(words[0], tuple) else (words,)
        env = {f"THRIFTGATE_{name.upper()}": value for name, value in settings.items()}
        environment = {**os.environ, **env}  # noqa: TID251 - the child's
        file = tmp_path / "imported"
        assert importer.stdin is not None
        assert importer.stdout is not None
        importer.stdin.write(json.dumps([commands, environment, str(file)]) + "\n")
        importer.stdin.flush()
        status = int(importer.stdout.readline())
        assert status == code, file.read_text()
        return set(file.read_text().splitlines()[-1].split()) & (HEAVY | WORK)

    return run


@pytest.mark.parametrize(
    "words", [("--version",), ("--help",), *((name, "--help") for name in _TABLE)]
)
def test_version_and_help_import_nothing_that_does_work(words, imports_of):
    assert imports_of(*words) == set()


@pytest.mark.parametrize(
    ("words", "code", "settings"),
    [
        (("serve",), 1, {"port": "none"}),
        (("check",), 1, {"port": "none"}),
        (("report",), 1, {"port": "none"}),
        (("budgets",), 1, {"port": "none"}),
        (("demo", "--calls", "0"), 2, {}),
        (("simulator", "--regime", "none"), 2, {}),
        (("key", "create"), 2, {}),
        (("report", "--zone", "Nowhere/GatewayFixture"), 1, {}),
    ],
)
def test_a_command_that_is_refused_has_imported_nothing_that_does_work(
    words, code, settings, imports_of
):
    assert imports_of(*words, code=code, **settings) == set()


@pytest.mark.parametrize(("command", "code"), [(("serve",), 1), (("compact", "none.json"), 2)])
def test_a_command_that_needs_the_catalog_imports_only_what_reads_it(
    command, code, tmp_path, imports_of
):
    settings = {} if code == 2 else {"policies": str(tmp_path / "none.toml")}

    assert imports_of(*command, code=code, **settings) == {"proxy.configuration", "slo.policies"}


def test_commands_that_read_the_ledger_import_no_server_and_no_driver_of_another(imports_of):
    command_output("migrate")

    assert imports_of(*READING) & HEAVY <= {"sqlalchemy"}


def test_the_hash_of_a_user_imports_no_provider_and_no_settlement(imports_of):
    command_output("migrate")
    modules = imports_of("user", "hash", "somebody", code=1)  # no team yet

    assert modules & HEAVY == {"sqlalchemy"}
    assert not modules & {
        "proxy.calls.metering.settlement",
        "proxy.prefix.planner",
        "proxy.providers",
    }


def test_check_without_policies_imports_no_server_no_sinks_and_no_database(imports_of):
    assert not imports_of("check") & HEAVY


def test_the_state_of_engines_is_shown_without_a_database_a_client_and_the_catalog(imports_of):
    assert imports_of("engine", "status") == set()


def test_the_simulator_is_stopped_before_it_imports_a_database(tmp_path, imports_of):
    modules = imports_of("simulator", "--scenario", str(tmp_path / "none.toml"), code=1)

    assert "proxy.tools.simulator" in modules
    assert not modules & {"alembic", "psycopg", "redis", "sqlalchemy"}
