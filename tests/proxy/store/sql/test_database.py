import sqlite3
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from alembic.script import ScriptDirectory
from sqlalchemy import Engine, delete, inspect

from proxy.errors import OperatorError
from proxy.store.errors import StoreError
from proxy.store.sql import schema
from proxy.store.sql.database import (
    ConnectionGate,
    _alembic,
    address,
    connection_problem,
    known_revisions,
    migrate,
    open_database,
    read_transaction,
    revision,
    write_transaction,
)

ROOT = Path(__file__).resolve().parents[3]


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://ann:hush@db.example/ledger",
        "postgresql://db.example/ledger?user=ann&password=hush&sslpassword=hush",
    ],
)
def test_the_address_of_a_database_has_none_of_its_passwords(url):
    assert "db.example/ledger" in address(url)
    assert "hush" not in address(url)


def test_a_server_that_does_not_answer_is_named_with_the_reason_and_without_the_password() -> None:
    why = connection_problem("postgresql://me:secret@127.0.0.1:1/ledger")

    assert "refused" in why
    assert "secret" not in why


def test_an_empty_database_has_no_revision_and_migrating_gives_it_the_newest(
    empty_url: str,
) -> None:
    engine = open_database(empty_url)
    before = revision(engine)
    migrate(engine)

    assert (before, revision(engine)) == (None, known_revisions()[-1])
    engine.dispose()


def test_processes_that_start_together_migrate_once(empty_url: str) -> None:
    code = "import sys; from proxy.store.sql.database import *; migrate(open_database(sys.argv[1]))"
    command = [sys.executable, "-c", code, empty_url]
    processes = [subprocess.Popen(command, cwd=ROOT) for _ in range(3)]  # noqa: S603 - our own

    assert [process.wait(30) for process in processes] == [0, 0, 0]
    engine = open_database(empty_url)
    assert connection_problem(empty_url) == ""
    assert revision(engine) == known_revisions()[-1]
    engine.dispose()


def test_a_new_file_that_another_process_is_writing_is_waited_for(tmp_path: Path) -> None:
    file = tmp_path / "ledger.db"
    other = sqlite3.connect(file, isolation_level=None, check_same_thread=False)
    other.execute("BEGIN IMMEDIATE")
    other.execute("CREATE TABLE theirs (id)")
    ends = threading.Timer(0.2, lambda: other.execute("COMMIT"))
    engine = open_database(f"sqlite:///{file}")
    ends.start()

    with read_transaction(engine) as connection:
        mode = connection.exec_driver_sql("PRAGMA journal_mode").scalar()

    assert mode == "wal"
    ends.join()
    other.close()
    engine.dispose()


def test_only_the_owner_may_read_the_file_its_log_or_its_index(tmp_path: Path) -> None:
    file = tmp_path / "ledger" / "thriftgate.db"
    file.parent.mkdir()
    file.touch(mode=0o644)
    engine = open_database(f"sqlite:///{file}")
    migrate(engine)
    with write_transaction(engine) as connection:
        connection.execute(delete(schema.calls))
        modes = {path.name: path.stat().st_mode & 0o777 for path in file.parent.iterdir()}

    assert modes == dict.fromkeys(
        ("thriftgate.db", "thriftgate.db-wal", "thriftgate.db-shm"), 0o600
    )
    engine.dispose()


@pytest.mark.parametrize("scheme", ["postgres", "postgresql", "postgresql+psycopg"])
def test_postgresql_goes_by_all_its_names(scheme: str) -> None:
    engine = open_database(f"{scheme}://ann:secret@db.example/ledger")

    assert engine.url.render_as_string(hide_password=False) == (
        "postgresql+psycopg://ann:secret@db.example/ledger"
    )


def test_a_value_that_is_no_url_is_refused_with_the_form_of_one() -> None:
    with pytest.raises(ValueError, match="it is no URL: give sqlite:///"):
        open_database("foo")


@pytest.mark.parametrize("url", ["mysql://u:hidden@h/d", "sqlite://", "sqlite:///:memory:"])
def test_a_database_that_cannot_keep_a_ledger_is_refused_without_telling_the_password(
    url: str,
) -> None:
    with pytest.raises(ValueError, match="cannot keep a ledger at") as refusal:
        open_database(url)

    assert "hidden" not in str(refusal.value)


def test_the_folder_of_a_sqlite_file_is_made_for_its_owner_only(tmp_path: Path) -> None:
    open_database(f"sqlite:///{tmp_path}/new/ledger.db").dispose()

    assert (tmp_path / "new").stat().st_mode & 0o777 == 0o700


def test_a_sqlite_commit_outlives_a_power_cut_and_readers_do_not_wait_for_writers(
    sqlite_engine: Engine,
) -> None:
    with (
        write_transaction(sqlite_engine) as writer,
        read_transaction(sqlite_engine) as reader,
    ):
        writer.exec_driver_sql("INSERT INTO meta (name) VALUES ('x')")
        seen = reader.exec_driver_sql("SELECT count(*) FROM meta WHERE name = 'x'").scalar_one()
        pragmas = [
            reader.exec_driver_sql(f"PRAGMA {name}").scalar_one()
            for name in ("journal_mode", "synchronous", "foreign_keys")
        ]

    assert seen == 0
    assert pragmas == ["wal", 2, 1]


def test_a_transaction_that_fails_leaves_nothing(engine: Engine) -> None:
    def fail() -> None:
        with write_transaction(engine) as connection:
            connection.exec_driver_sql("INSERT INTO meta (name) VALUES ('x')")
            raise KeyError

    with pytest.raises(KeyError):
        fail()

    with read_transaction(engine) as connection:
        query = "SELECT count(*) FROM meta WHERE name = 'x'"
        assert connection.exec_driver_sql(query).scalar_one() == 0


def test_the_limits_of_a_migration_leave_with_it(postgres: str) -> None:
    engine = open_database(postgres)
    migrate(engine)

    with read_transaction(engine) as connection:
        limits = [
            connection.exec_driver_sql(f"SHOW {name}_timeout").scalar_one()
            for name in ("statement", "lock")
        ]
    assert limits == ["30s", "10s"]
    engine.dispose()


def test_a_migration_that_fails_on_postgresql_leaves_no_table_of_its_own(postgres: str) -> None:
    engine = open_database(postgres)
    with write_transaction(engine) as connection:
        connection.exec_driver_sql("CREATE TABLE compactions (x integer)")
    with pytest.raises(StoreError, match="compactions"):
        migrate(engine)
    before, has_calls = revision(engine), inspect(engine).has_table("calls")
    with write_transaction(engine) as connection:
        connection.exec_driver_sql("DROP TABLE compactions")
    migrate(engine)

    assert (before, has_calls, revision(engine)) == (None, False, known_revisions()[-1])
    engine.dispose()


def test_the_newest_revision_by_file_names_is_the_one_that_alembic_finds() -> None:
    assert known_revisions()[-1] == ScriptDirectory.from_config(_alembic()).get_current_head()


def test_tables_that_a_newer_version_has_migrated_are_refused_and_left_as_they_are(
    engine: Engine,
) -> None:
    with write_transaction(engine) as connection:
        connection.exec_driver_sql("UPDATE alembic_version SET version_num = '9999'")

    with pytest.raises(
        OperatorError, match=f"revision 9999, .* revisions up to {known_revisions()[-1]}"
    ):
        migrate(engine)
    assert revision(engine) == "9999"


def test_tables_from_before_the_first_release_are_refused_with_what_brings_them_there(
    engine: Engine,
) -> None:
    with write_transaction(engine) as connection:
        connection.exec_driver_sql("UPDATE alembic_version SET version_num = '0012'")

    with pytest.raises(OperatorError, match=r"revision 0012, .* Start a checkout of 2026-11-28"):
        migrate(engine)
    assert revision(engine) == "0012"


def test_a_database_that_refuses_connections_is_an_outage_whose_reason_is_one_line() -> None:
    engine = open_database("postgresql://me:secret@127.0.0.1:1/ledger")

    with pytest.raises(StoreError, match=r"^connection failed: ") as caught:
        migrate(engine)

    assert caught.value.is_outage
    assert "secret" not in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_gate_refuses_connections_as_a_server_that_is_away_until_it_is_opened(
    empty_url: str,
) -> None:
    engine = open_database(empty_url)
    gate = ConnectionGate(engine)
    with pytest.raises(StoreError, match="not been reached since the gateway started"):
        revision(engine)
    gate.is_open = True
    current = revision(engine)
    engine.dispose()

    assert current is None


def test_postgresql_without_its_driver_names_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "psycopg", None)

    with pytest.raises(ValueError, match=r"thriftgate\[postgres\]"):
        open_database("postgresql://ledger.example.com/thriftgate")
