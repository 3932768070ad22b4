"""The command line: what a person types, and what comes back."""

import http.client
import json
import os
import re
import signal
import socket
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
from typer.testing import CliRunner, Result

from proxy.cli import session
from proxy.cli.main import _TABLE, _commands
from proxy.prefix.layouts.layout import Layout, LayoutMove
from proxy.prefix.prompts.prompt import PromptSlot
from proxy.records.feature_mode import LayoutScope
from proxy.store.sql.ids import id_floor
from proxy.store.store import Store
from tests.fakes.background_loop import running_in_thread
from tests.fakes.databases import migrated_sqlite
from tests.fakes.forked_command import ForkedCommand
from tests.fakes.gateway_fixture import running_simulator
from tests.fakes.receipts import a_receipt

_SERVE = "from proxy.cli.main import main; main()"
KEY = re.compile(r"tg-[\w-]{40}")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    made = tmp_path / "gateway"
    monkeypatch.setenv("THRIFTGATE_FOLDER", str(made))
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    return made


def typed(*words: str, **settings: str) -> Result:
    env = {f"THRIFTGATE_{name.upper()}": value for name, value in settings.items()}
    return CliRunner().invoke(_commands, words, env=env)


def told(*words: str, **settings: str) -> str:
    """Return what a command that succeeds prints."""
    result = typed(*words, **settings)
    assert result.exit_code == 0, result.output
    assert result.stderr == ""
    return result.stdout


def refused(*words: str, **settings: str) -> str:
    """Return what a command that fails says; never a traceback."""
    result = typed(*words, **settings)
    assert result.exit_code == 1
    assert result.stdout == ""
    assert "Traceback" not in result.stderr
    return result.stderr


def test_check_says_that_the_catalog_is_sound():
    assert re.search(r"sound: \d+ models, \d+ upstreams", told("check"))


def test_check_shows_the_limit_of_open_files_and_notes_one_that_is_too_low():
    assert re.search(r"Open files: at most [\d,]+; clients may hold [\d,]+ conn", told("check"))
    assert "too few for THRIFTGATE_MAX_CALLS=900000000" in told("check", max_calls="900000000")


def test_check_notes_which_upstreams_have_no_key(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-1")
    said = told("check")

    assert "Note: no key is set for anthropic (ANTHROPIC_API_KEY)" in said
    assert "OPENAI_API_KEY" not in said


def test_check_notes_what_may_not_do_what_was_meant(tmp_path):
    promises = tmp_path / "policies.toml"
    promises.write_text(
        "[[budgets]]\n"
        'name = "b"\nscope = "team"\nof = "acmee"\nunit = "usd"\nwindow = "day"\nlimit = "1"\n'
    )
    told("team", "create", "acme")
    said = told("check", policies=str(promises), redis_url="redis://:secret@127.0.0.1:1/0")

    assert "Note: budgets.b.of: there is no team acmee; did you mean acme?" in said
    assert "Note: THRIFTGATE_REDIS_URL names a Redis that is away" in said
    assert "secret" not in said


def test_check_looks_at_the_model_that_takes_notes():
    assert "facts+model is as facts" in told("check", compaction="facts+model")
    assert "there is no model gpt-0" in refused("check", compaction_model="gpt-0")


def test_check_makes_no_database(folder):
    told("check")

    assert not folder.exists()


def test_check_names_line_and_fix_of_a_bad_catalog(tmp_path):
    bad = tmp_path / "mine.toml"
    bad.write_text('[upstreams.mine]\nkind = "openai"\nbase_url = "up"\n')

    said = refused("check", catalog=str(bad))

    assert "mine.toml:3" in said
    assert "https://" in said


@pytest.mark.parametrize("command", [("check",), ("serve",)])
def test_a_catalog_that_is_not_there_is_reported(command, tmp_path):
    said = refused(*command, catalog=str(tmp_path / "none.toml"))

    assert "none.toml" in said
    assert "THRIFTGATE_CATALOG" in said


@pytest.mark.parametrize("command", ["check", "serve"])
@pytest.mark.parametrize("name", ["catalog", "policies"])
def test_a_file_that_is_no_text_is_reported_with_its_line(command, name, tmp_path):
    strange = tmp_path / "strange.toml"
    strange.write_bytes("# ü\n# é\n".encode("latin-1"))
    said = refused(command, **{name: str(strange)})

    assert "strange.toml:1: " in said
    assert "is not UTF-8: byte 0xfc stands here; save the file as UTF-8" in said


@pytest.mark.parametrize("command", [("check",), ("serve",), ("migrate",), ("key", "list")])
@pytest.mark.parametrize(("name", "value"), [("port", "many"), ("prot", "80")])
def test_a_bad_setting_is_reported_by_its_name(command, name, value):
    assert f"THRIFTGATE_{name.upper()}" in refused(*command, **{name: value})


@pytest.mark.parametrize("command", [("serve",), ("migrate",), ("report",), ("team", "list")])
@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("mysql://up/ledger", "THRIFTGATE_DATABASE_URL"),
        ("nonsense", "THRIFTGATE_DATABASE_URL"),
    ],
)
def test_a_url_that_names_no_database_ends_every_command(command, url, said):
    assert said in refused(*command, database_url=url, port="0")


@pytest.mark.parametrize("command", [("migrate",), ("report",), ("team", "list")])
def test_a_database_that_is_away_ends_commands_other_than_serve(command):
    message = refused(*command, database_url="postgresql://me:secret@127.0.0.1:1/ledger")

    assert message.startswith("The database cannot be reached: connection failed")
    assert "secret" not in message


@pytest.mark.parametrize("command", [("serve",), ("migrate",), ("report",)])
def test_tables_of_a_newer_version_end_every_command_with_the_reason(command, folder):
    told("migrate")
    with closing(sqlite3.connect(folder / "thriftgate.db")) as database:
        database.execute("UPDATE alembic_version SET version_num = '9999'")
        database.commit()

    message = refused(*command, port="0")

    assert message.startswith("The database's tables are at revision 9999, and this version")


@pytest.mark.parametrize("command", ["check", "serve", "migrate", "report"])
def test_a_folder_that_cannot_be_is_reported_with_its_fix(command, tmp_path):
    (tmp_path / "file").touch()
    said = refused(command, folder=str(tmp_path / "file" / "below"), port="0")

    assert said == (
        f"THRIFTGATE_FOLDER: {tmp_path / 'file'} is no folder; move it away, or name another\n"
    )


@pytest.mark.parametrize("command", ["check", "serve", "migrate", "report"])
def test_a_ledger_that_cannot_be_written_is_no_database_that_is_away(command, folder):
    ledger = folder / "thriftgate.db"
    ledger.mkdir(parents=True)

    assert refused(command, port="0").startswith(
        f"THRIFTGATE_FOLDER: {ledger} cannot be written; give it to the user"
    )


def test_migrate_brings_the_database_to_the_newest_schema(folder):
    for _ in range(2):
        assert "newest schema" in told("migrate")
    with closing(sqlite3.connect(folder / "thriftgate.db")) as database:
        assert database.execute("SELECT count(*) FROM teams").fetchone() == (0,)


@pytest.mark.parametrize("mask", [0o000, 0o277])
def test_files_are_their_owners_alone_whatever_the_umask(mask, folder):
    subprocess.run(  # noqa: S603 - our own interpreter
        [sys.executable, "-c", _SERVE, "migrate"], check=True, umask=mask
    )

    assert folder.stat().st_mode & 0o777 == 0o700
    assert {each.stat().st_mode & 0o777 for each in folder.iterdir() if each.is_file()} == {0o600}


def test_a_key_is_made_shown_once_listed_and_revoked():
    secret = told("key", "create", "--team", "acme", "--name", "ci", "--quiet").strip()
    assert KEY.fullmatch(secret)
    said = told("key", "create", "--team", "acme", "--feature", "search")
    (other,), (key_id,) = KEY.findall(said), re.findall(r"key_\w+", said)
    assert other != secret

    listed = told("key", "list")
    assert secret not in listed
    assert other not in listed
    assert secret[-4:] in listed
    assert listed.count("open") == 2
    assert "search" in listed
    assert told("team", "list").count("acme") == 1

    assert "revoked" in told("key", "revoke", key_id)
    assert told("key", "list").count("revoked") == 1
    assert "no open key" in refused("key", "revoke", key_id)


@pytest.mark.parametrize("name", ["[/bold]", "[red]a[/red]", ":smile:", "a\\"])
def test_names_given_by_people_are_no_markup(name, folder):
    said = told("key", "create", "--team", name, "--name", name, "--feature", name)
    assert KEY.search(said)
    assert f"of team {name}:" in said
    assert told("key", "list").count(name) == 3
    assert name in told("team", "list")
    assert f"[{name}]" in told("team", "create", f"[{name}]")
    assert name in refused("key", "revoke", name)
    store = Store.open(f"sqlite:///{folder / 'thriftgate.db'}", folder / "journal")
    store.keep(a_receipt(team=store.teams.all()[0].id))
    assert store.close(20)
    assert name in told("report", "--days", "3650")


def test_a_team_is_made_once():
    assert "acme" in told("team", "create", "acme", "--keep-prompts")
    assert re.search(r"acme\s+team_\w+\s+yes", told("team", "list"))
    assert "already" in refused("team", "create", "acme")


def test_a_report_says_what_each_team_spent(folder):
    told("team", "create", "acme")
    store = Store.open(f"sqlite:///{folder / 'thriftgate.db'}", folder / "journal")
    store.keep(a_receipt(team=store.teams.all()[0].id))
    assert store.close(20)

    said = told("report", "--days", "3650", "--by", "model", "--by", "route")

    assert "acme" in said
    assert "model-" in said
    assert "route" in said


def test_a_report_loses_no_part_of_a_long_name(folder):
    feature = "triage-" * 16
    store = Store.open(f"sqlite:///{folder / 'thriftgate.db'}", folder / "journal")
    store.keep(a_receipt(feature=feature))
    assert store.close(20)

    said = told("report", "--days", "3650", "--by", "feature")

    assert "…" not in said
    assert feature in said.split()


def test_a_report_without_calls_says_so():
    assert "No calls in the last 3 days." in told("report", "--days", "3")


def test_a_database_of_no_known_kind_is_found_by_check():
    assert "THRIFTGATE_DATABASE_URL" in refused("check", database_url="mysql://x/y")


@pytest.mark.parametrize("zone", ["Nowhere/GatewayFixture", "../etc"])
def test_a_report_in_no_time_zone_is_refused(zone):
    assert f"--zone {zone}" in refused("report", "--zone", zone)


def test_no_command_is_a_question_for_help():
    said = typed().output

    for command in ("serve", "check", "migrate", "report", "demo", "key", "team"):
        assert command in said


def test_help_flows_however_its_text_was_broken_in_the_source(monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")

    assert "for itself and what is spent is the ledger's word" in told("budgets", "--help")


def test_a_port_that_is_taken_is_reported():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        said = refused("serve", port=str(taken.getsockname()[1]))

    assert "is taken" in said
    assert "THRIFTGATE_PORT" in said


@pytest.mark.parametrize("host", ["203.0.113.1", "no.such.host.invalid", "2001:db8::1"])
def test_an_address_of_another_machine_is_reported(host):
    assert "THRIFTGATE_HOST" in refused("serve", host=host)


@contextmanager
def serving(folder: Path, settings: Mapping[str, str]) -> Iterator[ForkedCommand]:
    """``thriftgate serve`` in a process of its own, which is killed if it does not end."""
    environment = {**os.environ, "THRIFTGATE_PORT": "0", **settings}  # noqa: TID251 - the child's
    process = ForkedCommand(["serve"], environment, folder / "stdout", folder / "stderr")
    try:
        yield process
    finally:
        process.kill()
        process.wait(20)


@contextmanager
def serving_from_a_cold_start(
    folder: Path, settings: Mapping[str, str]
) -> Iterator["subprocess.Popen[bytes]"]:
    """The same, by an interpreter that has imported nothing yet."""
    with (
        (folder / "stdout").open("wb") as stdout,
        (folder / "stderr").open("wb") as stderr,
        subprocess.Popen(  # noqa: S603 - our own command
            [sys.executable, "-c", _SERVE, "serve"],
            env={**os.environ, "THRIFTGATE_PORT": "0", **settings},  # noqa: TID251 - the child's
            stdout=stdout,
            stderr=stderr,
        ) as process,
    ):
        try:
            yield process
        finally:
            process.kill()


def introduction(folder: Path) -> str:
    """Return what it prints until it listens."""
    wait_for(folder / "stdout", "/v1\n")
    return (folder / "stdout").read_text()


def found(pattern: str, said: str) -> str:
    match = re.search(pattern, said)
    assert match is not None, said
    return match[1]


def wait_until_ready(port: int) -> None:
    """Wait until calls are answered; where the ledger opens slowly, it listens before."""
    end, status = time.monotonic() + 30, 0
    while status != 200:
        assert time.monotonic() < end
        with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=20)) as caller:
            caller.request("GET", "/readyz")
            status = caller.getresponse().status
        time.sleep(0.02)


def test_serving_warns_of_a_redis_that_is_away(tmp_path):
    with serving(tmp_path, {"THRIFTGATE_REDIS_URL": "redis://:secret@127.0.0.1:1/0"}):
        introduction(tmp_path)
    warned = (tmp_path / "stderr").read_text()

    assert "WARNING thriftgate THRIFTGATE_REDIS_URL names a Redis that is away" in warned
    assert "secret" not in warned


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT])
def test_serving_begins_with_a_key_that_works_and_ends_with_every_receipt(how, tmp_path, folder):
    migrated_sqlite(folder / "thriftgate.db")
    with (
        running_in_thread(lambda: running_simulator(tmp_path, time_scale=0.2)) as (_, catalog),
        serving_from_a_cold_start(
            tmp_path, {"THRIFTGATE_CATALOG": str(catalog), "LAB_KEY": "lab-key"}
        ) as process,
    ):
        said = introduction(tmp_path)
        port, key = int(found(r"127\.0\.0\.1:(\d+)/v1", said)), found(f"({KEY.pattern})", said)
        wait_until_ready(port)
        assert str(folder / "thriftgate.db") in said
        assert str(catalog) in said
        assert re.search(r"Upstreams ready: .*lab", said)
        assert "openai (OPENAI_API_KEY)" in said
        with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=20)) as caller:
            messages = [{"role": "user", "content": "Say something long."}]
            body = json.dumps({"model": "gpt-lab", "stream": True, "messages": messages})
            headers = {"authorization": f"Bearer {key}", "content-type": "application/json"}
            caller.request("POST", "/v1/chat/completions", body, headers)
            answer = caller.getresponse()
            assert answer.status == 200
            first = answer.readline()
            process.send_signal(how)
            rest = answer.read()
        assert process.wait(20) == 0
    assert first.startswith(b"data: ")
    assert rest.endswith(b"data: [DONE]\n\n")
    assert (tmp_path / "stderr").read_text() == "Thriftgate stopped.\n"
    with closing(sqlite3.connect(folder / "thriftgate.db")) as database:
        assert database.execute("SELECT count(*) FROM calls").fetchone() == (1,)


def test_a_hangup_signal_reloads_and_a_bad_file_is_named_with_its_line(tmp_path):
    catalog = tmp_path / "catalog.toml"
    catalog.write_text("")
    with serving(tmp_path, {"THRIFTGATE_CATALOG": str(catalog)}) as process:
        introduction(tmp_path)
        process.send_signal(signal.SIGHUP)
        wait_for(tmp_path / "stderr", "Reloaded: 71 models")
        catalog.write_text('[upstreams.mine]\nkind = "openai"\nbase_url = "up"\n')
        process.send_signal(signal.SIGHUP)
        wait_for(tmp_path / "stderr", f"{catalog}:3: upstreams.mine.base_url")
        assert process.poll() is None


@pytest.mark.parametrize("share", ["0.05", "0"])
def test_serving_begins_with_what_planning_saved_and_could_save(share, tmp_path, folder):
    told("team", "create", "acme")
    now = session.now()
    store = Store.open(f"sqlite:///{folder / 'thriftgate.db'}", folder / "journal")
    team = store.teams.all()[0].id
    planned: dict[str, Any] = {
        "conversation": "c",
        "arm": "treated",
        "planning_nanos": 4_000_000_000,
        "cost_nanos": 1_000_000_000,
    }
    call_id = id_floor(now)
    store.keep(a_receipt(call_id=call_id, started=now, team=team, feature="chat", **planned))
    move = LayoutMove(
        before=None, after=None, slot=PromptSlot.VARIABLE, label="time", saving=2_500_000_000
    )
    moves = msgspec.json.encode(Layout(moves=(move,))).decode()
    store.layouts.propose(LayoutScope(team, "chat", "gpt"), "digest", moves, now)
    assert store.close(20)
    with serving(tmp_path, {"THRIFTGATE_CONTROL_SHARE": share}) as process:
        introduction(tmp_path)
        last = "See `thriftgate savings`." if share == "0" else "of feature chat of team acme.\n"
        wait_for(tmp_path / "stderr", last)
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 0
    saved, could, *rest = (tmp_path / "stderr").read_text().splitlines()

    assert saved == "Planning saved $4.00 (80%) of 1 call in the last 30 days, by estimate."
    assert could == (
        "Planning only observes feature chat of team acme: `apply` or `auto` should save $2.50"
        " per 1,000 calls more (by estimate). See `thriftgate savings`."
    )
    needed = "A measured figure needs some 1,000 more conversations of feature chat of team acme."
    assert rest == [*([needed] if share != "0" else []), "Thriftgate stopped."]


def wait_for(file: Path, said: str) -> None:
    end = time.monotonic() + 30
    file.touch()
    while said not in file.read_text():
        assert time.monotonic() < end, file.read_text()
        time.sleep(0.05)


def test_a_second_signal_cuts_running_calls_and_loses_none_of_their_receipts(tmp_path, folder):
    migrated_sqlite(folder / "thriftgate.db")
    with (
        running_in_thread(lambda: running_simulator(tmp_path, time_scale=0.2)) as (_, catalog),
        serving(tmp_path, {"THRIFTGATE_CATALOG": str(catalog), "LAB_KEY": "lab-key"}) as process,
    ):
        said = introduction(tmp_path)
        port, key = int(found(r"127\.0\.0\.1:(\d+)/v1", said)), found(f"({KEY.pattern})", said)
        wait_until_ready(port)
        with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=20)) as caller:
            messages = [{"role": "user", "content": "[[fault:stall]] Say something."}]
            body = json.dumps({"model": "gpt-lab", "stream": True, "messages": messages})
            headers = {"authorization": f"Bearer {key}", "content-type": "application/json"}
            caller.request("POST", "/v1/chat/completions", body, headers)
            answer = caller.getresponse()
            assert answer.readline().startswith(b"data: ")
            process.send_signal(signal.SIGINT)
            time.sleep(0.3)
            process.send_signal(signal.SIGINT)
            rest = answer.read()
        assert process.wait(15) == 0
    assert b"gateway_interrupted" in rest
    told = (tmp_path / "stderr").read_text()
    assert told.endswith("Thriftgate stopped.\n")
    assert "Traceback" not in told
    with closing(sqlite3.connect(folder / "thriftgate.db")) as database:
        rows = database.execute("SELECT outcome, error, estimated FROM calls").fetchall()
    assert rows == [("broken", "gateway_interrupted", 1)]


def test_it_tells_its_version():
    assert told("--version").startswith("thriftgate ")


#: What takes long to import: libraries, most of them longer than a command takes to run, and the
#: parts of ours that do a command's work.
HEAVY = {
    "aiohttp", "alembic", "bpe_openai", "fastapi", "httpx2", "jinja2", "openai",
    "prometheus_client", "psycopg", "redis", "sqlalchemy", "starlette", "uvicorn", "uvloop", "yaml",
}  # fmt: skip
WORK = {
    "compaction.compact", "proxy.services", "proxy.app", "proxy.configuration", "proxy.tools.demo",
    "proxy.tools.simulator", "proxy.prefix.planner", "proxy.api.serving",
    "proxy.calls.settlement", "proxy.store", "proxy.providers", "slo.openslo", "slo.policies",
}  # fmt: skip
#: Each command typed as in ``typed``, but in a process that has imported none of what it needs: a
#: fork of one that has imported the table of commands and nothing else. What it has imported when
#: it ends is the last line.
_IMPORTS = """
import json, os, sys
import attr, pydantic, rich.markdown, rich.table  # libraries that any command may import
from proxy.cli.main import _commands

for line in sys.stdin:
    words, environment, stderr = json.loads(line)
    if child := os.fork():
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
        continue
    os.environ.clear()
    os.environ.update(environment)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    os.dup2(os.open(stderr, os.O_WRONLY | os.O_CREAT), 2)
    try:
        _commands(words)
    finally:
        print(*sys.modules, file=sys.stderr)
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
def imported(importer: "subprocess.Popen[str]", tmp_path: Path) -> Callable[..., set[str]]:
    """Slow modules that were imported when a command ends with that status."""

    def run(*words: str, code: int = 0, **settings: str) -> set[str]:
        env = {f"THRIFTGATE_{name.upper()}": value for name, value in settings.items()}
        environment = {**os.environ, **env}  # noqa: TID251 - the child's
        said = tmp_path / "imported"
        assert importer.stdin is not None
        assert importer.stdout is not None
        importer.stdin.write(json.dumps([words, environment, str(said)]) + "\n")
        importer.stdin.flush()
        status = int(importer.stdout.readline())
        assert status == code, said.read_text()
        return set(said.read_text().splitlines()[-1].split()) & (HEAVY | WORK)

    return run


@pytest.mark.parametrize(
    "words", [("--version",), ("--help",), *((name, "--help") for name in _TABLE)]
)
def test_version_and_help_import_nothing_that_does_work(words, imported):
    assert imported(*words) == set()


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
    words, code, settings, imported
):
    assert imported(*words, code=code, **settings) == set()


@pytest.mark.parametrize(("command", "code"), [(("serve",), 1), (("compact", "none.json"), 2)])
def test_a_command_that_needs_the_catalog_imports_only_what_reads_it(
    command, code, tmp_path, imported
):
    settings = {} if code == 2 else {"policies": str(tmp_path / "none.toml")}

    assert imported(*command, code=code, **settings) == {"proxy.configuration", "slo.policies"}


@pytest.mark.parametrize("words", [("key", "list"), ("report",), ("budgets",), ("alerts",)])
def test_a_command_that_reads_the_ledger_imports_no_server_and_no_migrations(words, imported):
    told("migrate")

    assert imported(*words) & HEAVY <= {"sqlalchemy"}


def test_check_without_policies_imports_no_server_no_sinks_and_no_database(imported):
    assert not imported("check") & HEAVY


def test_the_state_of_engines_is_shown_without_a_database(imported):
    assert "sqlalchemy" not in imported("engine", "status")


def test_the_simulator_is_stopped_before_it_imports_a_database(tmp_path, imported):
    found = imported("simulator", "--scenario", str(tmp_path / "none.toml"), code=1)

    assert "proxy.tools.simulator" in found
    assert not found & {"alembic", "psycopg", "redis", "sqlalchemy"}


@pytest.mark.parametrize("name", _TABLE)
def test_the_list_of_commands_says_what_each_says_of_itself(name):
    summary, _ = _TABLE[name]
    said = " ".join(told(name, "--help").split())

    assert f"{summary} " in said


def objected(folder: Path, ladder: str) -> str:
    """A policies file with one objective."""
    table = '[[objectives]]\nname = "o"\nmetric = "errors"\nat_most = "1%"\nenforce = "degrade"\n'
    (folder / "policies.toml").write_text(f"{table}ladder = {ladder}\n")
    return str(folder / "policies.toml")


def test_objectives_are_checked_shown_and_exported(tmp_path):
    promises = objected(tmp_path, '["elsewhere", "gpt-5.6-terra"]')

    assert "upstreams, 1 objective." in told("check", policies=promises)
    assert "at most 1%" in told("objectives", policies=promises)
    assert "openslo/v1" in told("objectives", "export", policies=promises)


@pytest.mark.parametrize("command", ["check", "serve"])
def test_a_ladder_to_nowhere_is_reported(command, tmp_path):
    said = refused(command, policies=objected(tmp_path, '["gpt-5.6-tera"]'))

    assert "policies.toml:6: objectives.o.ladder[0]: names gpt-5.6-tera" in said
    assert "did you mean gpt-5.6-terra?" in said


@pytest.mark.parametrize(("command", "is_ignored"), [("serve", True), ("check", False)])
def test_a_hangup_before_the_gateway_can_reload_does_not_end_it(command, is_ignored):
    script = (
        "import signal, sys\n"
        f"sys.argv = ['thriftgate', '{command}', '--help']\n"
        "from proxy.cli.main import main\n"
        "try:\n    main()\nexcept SystemExit:\n    pass\n"
        "print(signal.getsignal(signal.SIGHUP) is signal.SIG_IGN)\n"
    )
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, check=True)  # noqa: S603 - our own script

    assert ran.stdout.split()[-1] == str(is_ignored).encode()


def test_check_notes_where_known_keys_are_to_be_served_and_never_are():
    said = told("check", serve_known_keys="24h")

    assert "THRIFTGATE_SERVE_KNOWN_KEYS does nothing: the ledger is a SQLite file" in said
    assert "THRIFTGATE_SERVE_KNOWN_KEYS" not in told("check")
