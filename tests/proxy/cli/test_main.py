"""The command line: what a person types, and what comes back."""

import re
import sqlite3
import subprocess
import sys
from contextlib import closing

import pytest

from proxy.cli.main import _TABLE
from proxy.store.store import Store
from tests.fakes.receipts import a_receipt
from tests.proxy.cli.typed_commands import KEY, SERVE, command_error, command_output, run_command

pytestmark = pytest.mark.usefixtures("folder")


@pytest.mark.parametrize("command", [("check",), ("serve",), ("migrate",), ("key", "list")])
@pytest.mark.parametrize(("name", "value"), [("port", "many"), ("prot", "80")])
def test_a_bad_setting_is_reported_by_its_name(command, name, value):
    assert f"THRIFTGATE_{name.upper()}" in command_error(*command, **{name: value})


@pytest.mark.parametrize("command", [("serve",), ("migrate",), ("report",), ("team", "list")])
@pytest.mark.parametrize(
    ("url", "error"),
    [
        ("mysql://up/ledger", "THRIFTGATE_DATABASE_URL"),
        ("nonsense", "THRIFTGATE_DATABASE_URL"),
    ],
)
def test_a_url_that_names_no_database_ends_every_command(command, url, error):
    assert error in command_error(*command, database_url=url, port="0")


@pytest.mark.parametrize("command", [("migrate",), ("report",), ("team", "list")])
def test_a_database_that_is_away_ends_commands_other_than_serve(command):
    message = command_error(*command, database_url="postgresql://me:secret@127.0.0.1:1/ledger")

    assert message.startswith("The database cannot be reached: connection failed")
    assert "secret" not in message


@pytest.mark.parametrize("command", [("serve",), ("migrate",), ("report",)])
def test_tables_of_a_newer_version_end_every_command_with_the_reason(command, folder):
    command_output("migrate")
    with closing(sqlite3.connect(folder / "thriftgate.db")) as database:
        database.execute("UPDATE alembic_version SET version_num = '9999'")
        database.commit()

    message = command_error(*command, port="0")

    assert message.startswith("The database's tables are at revision 9999, and this version")


@pytest.mark.parametrize("command", ["check", "serve", "migrate", "report"])
def test_a_folder_that_cannot_be_is_reported_with_its_fix(command, tmp_path):
    (tmp_path / "file").touch()
    error = command_error(command, folder=str(tmp_path / "file" / "below"), port="0")

    assert error == (
        f"THRIFTGATE_FOLDER: {tmp_path / 'file'} is no folder; move it away, or name another\n"
    )


@pytest.mark.parametrize("command", ["check", "serve", "migrate", "report"])
def test_a_ledger_that_cannot_be_written_is_no_database_that_is_away(command, folder):
    ledger = folder / "thriftgate.db"
    ledger.mkdir(parents=True)

    assert command_error(command, port="0").startswith(
        f"THRIFTGATE_FOLDER: {ledger} cannot be written; give it to the user"
    )


def test_migrate_brings_the_database_to_the_newest_schema(folder):
    for _ in range(2):
        assert "newest schema" in command_output("migrate")
    with closing(sqlite3.connect(folder / "thriftgate.db")) as database:
        assert database.execute("SELECT count(*) FROM teams").fetchone() == (0,)


@pytest.mark.parametrize("mask", [0o000, 0o277])
def test_files_are_their_owners_alone_whatever_the_umask(mask, folder):
    subprocess.run(  # noqa: S603 - our own interpreter
        [sys.executable, "-c", SERVE, "migrate"], check=True, umask=mask
    )

    assert folder.stat().st_mode & 0o777 == 0o700
    assert {path.stat().st_mode & 0o777 for path in folder.iterdir() if path.is_file()} == {0o600}


def test_a_key_is_made_shown_once_listed_and_revoked():
    secret = command_output("key", "create", "--team", "acme", "--name", "ci", "--quiet").strip()
    assert KEY.fullmatch(secret)
    output = command_output("key", "create", "--team", "acme", "--feature", "search")
    (other,), (key_id,) = KEY.findall(output), re.findall(r"key_\w+", output)
    assert other != secret

    listed = command_output("key", "list")
    assert secret not in listed
    assert other not in listed
    assert secret[-4:] in listed
    assert listed.count("open") == 2
    assert "search" in listed
    assert command_output("team", "list").count("acme") == 1

    assert "revoked" in command_output("key", "revoke", key_id)
    assert command_output("key", "list").count("revoked") == 1
    assert "no open key" in command_error("key", "revoke", key_id)


@pytest.mark.parametrize("name", ["[/bold]", "[red]a[/red]", ":smile:", "a\\"])
def test_names_given_by_people_are_no_markup(name, folder):
    output = command_output("key", "create", "--team", name, "--name", name, "--feature", name)
    assert KEY.search(output)
    assert f"of team {name}:" in output
    assert command_output("key", "list").count(name) == 3
    assert name in command_output("team", "list")
    assert f"[{name}]" in command_output("team", "create", f"[{name}]")
    assert name in command_error("key", "revoke", name)
    store = Store.open(f"sqlite:///{folder / 'thriftgate.db'}", folder / "journal")
    store.keep(a_receipt(team=store.teams.all()[0].id))
    assert store.close(20)
    assert name in command_output("report", "--days", "3650")


def test_a_team_is_made_once():
    assert "acme" in command_output("team", "create", "acme", "--keep-prompts")
    assert re.search(r"acme\s+team_\w+\s+yes", command_output("team", "list"))
    assert "already" in command_error("team", "create", "acme")


def test_a_report_says_what_each_team_spent(folder):
    command_output("team", "create", "acme")
    store = Store.open(f"sqlite:///{folder / 'thriftgate.db'}", folder / "journal")
    store.keep(a_receipt(team=store.teams.all()[0].id))
    assert store.close(20)

    output = command_output("report", "--days", "3650", "--by", "model", "--by", "route")

    assert "acme" in output
    assert "model-" in output
    assert "route" in output


def test_a_report_loses_no_part_of_a_long_name(folder):
    feature = "triage-" * 16
    store = Store.open(f"sqlite:///{folder / 'thriftgate.db'}", folder / "journal")
    store.keep(a_receipt(feature=feature))
    assert store.close(20)

    output = command_output("report", "--days", "3650", "--by", "feature")

    assert "…" not in output
    assert feature in output.split()


def test_a_choice_that_is_none_is_refused_with_the_choices():
    result = run_command("compaction", "mode", "acme", "chat", "nope")

    assert result.exit_code == 2
    assert "'nope' is not one of" in result.stderr
    assert "Value error" not in result.stderr


def test_a_file_of_policies_that_is_missing_is_named():
    assert command_error("serve", policies="nope.toml", port="0") == (
        "The policies cannot be read: there is no file nope.toml. THRIFTGATE_POLICIES names them.\n"
    )


def test_commands_that_write_name_the_ledger_on_stderr(folder):
    ledger = f"Ledger: sqlite:///{folder}/thriftgate.db\n"

    assert run_command("team", "create", "acme").stderr == ledger
    assert run_command("key", "create", "--team", "acme").stderr == ledger
    assert run_command("admin", "link").stderr == ledger
    assert run_command("key", "create", "--team", "acme", "--quiet").stderr == ""
    assert run_command("admin", "link", "--quiet").stderr == ""


def test_a_report_without_calls_says_so():
    assert "No calls in the last 3 days in sqlite:///" in command_output("report", "--days", "3")


@pytest.mark.parametrize("zone", ["Nowhere/GatewayFixture", "../etc"])
def test_a_report_in_no_time_zone_is_refused(zone):
    assert f"--zone {zone}" in command_error("report", "--zone", zone)


def test_no_command_is_a_question_for_help():
    output = run_command().output

    for command in ("serve", "check", "migrate", "report", "demo", "key", "team"):
        assert command in output


def test_help_flows_however_its_text_was_broken_in_the_source(monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")

    assert "for itself and what is spent is the ledger's word" in command_output(
        "budgets", "--help"
    )


def test_the_version_is_printed():
    assert command_output("--version").startswith("thriftgate ")


@pytest.mark.parametrize("name", _TABLE)
def test_the_list_of_commands_says_what_each_says_of_itself(name):
    summary = _TABLE[name].summary
    output = " ".join(command_output(name, "--help").split())

    assert f"{summary} " in output
