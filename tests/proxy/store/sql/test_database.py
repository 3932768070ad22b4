import sqlite3
import subprocess
import sys
import threading
from pathlib import Path

import msgspec
import pytest
from alembic import command
from alembic.script import ScriptDirectory
from sqlalchemy import Engine, delete, insert, update

from proxy.errors import OperatorError
from proxy.records.prompt_segments import CacheMark, PromptSegments
from proxy.store.errors import StoreError
from proxy.store.sql import schema
from proxy.store.sql.database import (
    ConnectionGate,
    _alembic,
    _migration_config,
    address,
    connection_problem,
    count_changed_rows,
    migrate,
    newest_revision,
    open_database,
    read_transaction,
    revision,
    write_transaction,
)
from proxy.store.sql.ledger.inserts import inserter
from tests.fakes.ledger import ledger_of, rollups_of
from tests.fakes.receipts import a_receipt, rolled_up

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

    assert (before, revision(engine)) == (None, newest_revision())
    engine.dispose()


def test_processes_that_start_together_migrate_once(empty_url: str) -> None:
    code = "import sys; from proxy.store.sql.database import *; migrate(open_database(sys.argv[1]))"
    command = [sys.executable, "-c", code, empty_url]
    processes = [subprocess.Popen(command, cwd=ROOT) for _ in range(3)]  # noqa: S603 - our own

    assert [process.wait(30) for process in processes] == [0, 0, 0]
    engine = open_database(empty_url)
    assert connection_problem(empty_url) == ""
    assert revision(engine) == newest_revision()
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


def test_nobody_else_may_read_the_file_its_log_or_its_index(tmp_path: Path) -> None:
    file = tmp_path / "ledger" / "thriftgate.db"
    file.parent.mkdir()
    file.touch(mode=0o644)
    engine = open_database(f"sqlite:///{file}")
    migrate(engine)
    with write_transaction(engine) as connection:
        connection.execute(delete(schema.calls))
        modes = {each.name: each.stat().st_mode & 0o777 for each in file.parent.iterdir()}

    assert modes == dict.fromkeys(
        ("thriftgate.db", "thriftgate.db-wal", "thriftgate.db-shm"), 0o600
    )
    engine.dispose()


def test_the_folder_that_is_made_for_it_is_closed_to_others(tmp_path: Path) -> None:
    open_database(f"sqlite:///{tmp_path}/made/thriftgate.db").dispose()

    assert (tmp_path / "made").stat().st_mode & 0o777 == 0o700


def at(engine: Engine, wanted: str) -> None:
    """Bring the tables up or down to a revision."""
    with _migration_config(engine) as config:
        old = wanted < (revision(engine) or "")
        (command.downgrade if old else command.upgrade)(config, wanted)


def test_calls_from_before_planning_are_kept_and_new_ones_stand_beside_them(
    engine: Engine,
) -> None:
    before = [a_receipt(n) for n in range(5)]
    inserter(engine)([*before, a_receipt(5, conversation="ab", arm="treated", prompt="{}")])
    at(engine, "0001")
    with read_transaction(engine) as connection:
        count = connection.exec_driver_sql("SELECT count(*) FROM calls").scalar_one()
    at(engine, "head")
    planned = a_receipt(6, conversation="ab", arm="control", miss="expired", miss_nanos=7)
    inserter(engine)([planned])

    assert count == 6
    assert ledger_of(engine) == [*before, a_receipt(5), planned]
    assert rollups_of(engine) == rolled_up([*before, a_receipt(5), planned])


def test_calls_from_before_compaction_are_kept_and_new_ones_stand_beside_them(
    engine: Engine,
) -> None:
    before = [a_receipt(n) for n in range(3)]
    inserter(engine)([*before, a_receipt(3, compaction="facts", compacted=True, tokens_before=9)])
    at(engine, "0004")
    at(engine, "head")
    compacted = a_receipt(
        4, compaction="facts", compacted=True, reset=True, compaction_nanos=-7, needed=2, lost=1
    )
    inserter(engine)([compacted])

    assert ledger_of(engine) == [*before, a_receipt(3), compacted]


def test_calls_from_before_request_ids_are_kept_and_have_none(engine: Engine) -> None:
    before = a_receipt(1)
    inserter(engine)([msgspec.structs.replace(before, upstream_request_id="req_1")])
    at(engine, "0008")
    at(engine, "head")
    after = a_receipt(2, upstream_request_id="req_2")
    inserter(engine)([after])

    assert ledger_of(engine) == [before, after]


def test_of_calls_from_before_nobody_knows_why_they_were_not_planned(engine: Engine) -> None:
    before = a_receipt(1)
    inserter(engine)([msgspec.structs.replace(before, unplanned_why="under_2_kb")])
    at(engine, "0009")
    at(engine, "head")
    after = a_receipt(2, unplanned_why="under_2_kb")
    inserter(engine)([after])

    assert ledger_of(engine) == [before, after]


def test_of_calls_from_before_nobody_knows_the_segments(engine: Engine) -> None:
    segments = PromptSegments(900, 0, 100, (CacheMark(900, "1h"),))
    inserter(engine)([a_receipt(1, segments=segments)])
    at(engine, "0017")
    at(engine, "head")
    after = a_receipt(2, segments=segments)
    inserter(engine)([after])

    assert ledger_of(engine) == [a_receipt(1), after]


def test_calls_from_before_engine_phases_are_kept_and_have_none(engine: Engine) -> None:
    before = a_receipt(1)
    inserter(engine)([msgspec.structs.replace(before, prefill=0.5, draft_tokens=4)])
    at(engine, "0010")
    at(engine, "head")
    after = a_receipt(2)
    inserter(engine)([after])

    assert ledger_of(engine) == [before, after]


def test_of_calls_from_before_nobody_knows_how_many_messages_were_compacted(engine: Engine) -> None:
    before = a_receipt(1, compaction="facts", compacted=True)
    inserter(engine)(
        [before, a_receipt(2, compaction="facts", compacted=True, compacted_messages=7)]
    )
    at(engine, "0005")
    at(engine, "head")
    after = [
        a_receipt(n, compaction="facts", compacted=True, compacted_messages=n - 3) for n in (3, 4)
    ]
    inserter(engine)(after)

    assert ledger_of(engine) == [before, a_receipt(2, compaction="facts", compacted=True), *after]


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


def test_rows_that_were_changed_or_deleted_are_counted(engine: Engine) -> None:
    meta = schema.meta
    with write_transaction(engine) as connection:
        connection.execute(insert(meta), [{"name": name, "number": 0} for name in "xyz"])
        two = count_changed_rows(
            connection, update(meta).where(meta.c.name.in_(["x", "y"])).values(number=1)
        )
        one = count_changed_rows(connection, delete(meta).where(meta.c.name == "z"))
        none = count_changed_rows(connection, delete(meta).where(meta.c.name == "z"))

    assert (two, one, none) == (2, 1, 0)


def test_an_index_that_was_broken_off_is_built_anew_and_limits_leave_with_the_migration(
    postgres: str,
) -> None:
    engine = open_database(postgres)
    at(engine, "0006")
    with write_transaction(engine) as connection:
        connection.exec_driver_sql("CREATE INDEX calls_moved ON calls (attempt)")
    migrate(engine)

    with read_transaction(engine) as connection:
        query = "SELECT indexdef FROM pg_indexes WHERE indexname = 'calls_rerouted'"
        built = connection.exec_driver_sql(f"{query} AND schemaname = current_schema()")
        assert "(call_id)" in built.scalar_one()
        limits = [
            connection.exec_driver_sql(f"SHOW {name}_timeout").scalar_one()
            for name in ("statement", "lock")
        ]
    assert limits == ["30s", "10s"]
    engine.dispose()


def test_a_migration_that_fails_on_postgresql_leaves_those_before_it(postgres: str) -> None:
    engine = open_database(postgres)
    at(engine, "0003")
    with write_transaction(engine) as connection:
        connection.exec_driver_sql("CREATE TABLE compactions (x integer)")
    with pytest.raises(StoreError, match="compactions"):
        migrate(engine)
    before = revision(engine)
    with write_transaction(engine) as connection:
        connection.exec_driver_sql("DROP TABLE compactions")
    migrate(engine)

    assert (before, revision(engine)) == ("0004", newest_revision())
    engine.dispose()


def test_the_newest_revision_told_by_file_names_is_the_one_alembic_finds() -> None:
    assert newest_revision() == ScriptDirectory.from_config(_alembic()).get_current_head()


def test_tables_that_a_newer_version_has_migrated_are_refused_and_left_as_they_are(
    engine: Engine,
) -> None:
    with write_transaction(engine) as connection:
        connection.exec_driver_sql("UPDATE alembic_version SET version_num = '9999'")

    with pytest.raises(OperatorError, match=r"revision 9999, .* revisions up to 0024"):
        migrate(engine)
    assert revision(engine) == "9999"


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
    found = revision(engine)
    engine.dispose()

    assert found is None
