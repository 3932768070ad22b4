"""Migrated databases for tests: a process migrates one of each kind, and tests get what that made.

Migrating takes 50 ms of processor time on SQLite, and twice that and the server's on PostgreSQL.
"""

from contextlib import ExitStack
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import psycopg

from proxy.store.sql.database import migrate, open_database
from tests.fakes.postgres import schema

#: Empties all tables but Alembic's, without a look at foreign keys. DELETE writes next to nothing
#: where tables are as small as a test's; TRUNCATE makes each a new file.
_EMPTY = """
DO $$
DECLARE each record;
BEGIN
    SET LOCAL lock_timeout = '5s';
    SET LOCAL session_replication_role = replica;
    FOR each IN SELECT tablename FROM pg_tables
        WHERE schemaname = current_schema() AND tablename <> 'alembic_version'
    LOOP EXECUTE format('DELETE FROM %I', each.tablename); END LOOP;
    FOR each IN SELECT sequencename FROM pg_sequences WHERE schemaname = current_schema()
    LOOP EXECUTE format('ALTER SEQUENCE %I RESTART', each.sequencename); END LOOP;
END $$
"""
#: All tables, indexes and sequences with their numbers of columns, and the revision.
_SHAPE = """
SELECT oid::bigint, relname, relnatts::text FROM pg_class
WHERE relnamespace = current_schema()::regnamespace
UNION ALL SELECT 0, 'revision', version_num FROM alembic_version ORDER BY 1, 2, 3
"""


@cache
def _sqlite_template() -> bytes:
    with TemporaryDirectory() as folder:
        file = Path(folder) / "template.db"
        engine = open_database(f"sqlite:///{file}")
        migrate(engine)
        engine.dispose()
        return file.read_bytes()


def migrated_sqlite(file: Path) -> str:
    """The URL of the SQLite database in a file, which is made and migrated if it is not there."""
    if not file.exists():
        file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        file.touch(mode=0o600)
        file.write_bytes(_sqlite_template())
    return f"sqlite:///{file}"


class MigratedSchema:
    """A schema on the PostgreSQL server for one test after another.

    One whose tables a test has changed, or which cannot be emptied, is replaced.
    """

    def __init__(self) -> None:
        """Make nothing yet."""
        self._made = ExitStack()
        self._url = ""
        self._shape: list[Any] = []
        self._facts: list[Any] = []

    def empty_url(self) -> str:
        """Its URL; all tables are as the migrations left them.

        Raises:
            psycopg.OperationalError: If there is no server.
        """
        if not self._url or not self._is_emptied():
            self.drop()
            self._make()
        return self._url

    def drop(self) -> None:
        """Drop it, if there is one."""
        self._url = ""
        self._made.close()

    def _make(self) -> None:
        url = self._made.enter_context(schema())
        engine = open_database(url)
        migrate(engine)
        engine.dispose()
        with psycopg.connect(url) as connection:
            self._shape = connection.execute(_SHAPE).fetchall()
            self._facts = connection.execute("SELECT name, number FROM meta").fetchall()
        self._url = url

    def _is_emptied(self) -> bool:
        try:
            with psycopg.connect(self._url) as connection:
                if connection.execute(_SHAPE).fetchall() != self._shape:
                    return False
                connection.execute(_EMPTY)
                fill = "INSERT INTO meta (name, number) VALUES (%s, %s)"
                connection.cursor().executemany(fill, self._facts)
        except psycopg.Error:
            return False
        return True
