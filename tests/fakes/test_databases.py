"""Tests that share a schema find it as the migrations left it, whatever the one before did."""

from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from sqlalchemy import func, select

from proxy.store.sql import schema
from proxy.store.sql.access.teams import Teams
from proxy.store.sql.database import known_revisions, open_database, revision
from proxy.store.sql.ledger.inserts import inserter
from tests.fakes.databases import MigratedSchema, migrated_sqlite
from tests.fakes.receipts import a_receipt


@pytest.fixture
def migrated_schema() -> Iterator[MigratedSchema]:
    new_schema = MigratedSchema()
    try:
        new_schema.empty_url()
    except psycopg.OperationalError as error:
        pytest.skip(f"no PostgreSQL: {error}")
    yield new_schema
    new_schema.drop()


def counts(url: str) -> dict[str, int]:
    """Rows of each table."""
    engine = open_database(url)
    with engine.connect() as connection:
        tables = schema.metadata.sorted_tables
        row_counts = {
            table.name: connection.execute(select(func.count()).select_from(table)).scalar_one()
            for table in tables
        }
    engine.dispose()
    return row_counts


def test_a_schema_that_was_filled_is_emptied_to_what_the_migrations_left(migrated_schema):
    url = migrated_schema.empty_url()
    before = counts(url)
    engine = open_database(url)
    teams = Teams(engine)
    teams.create_key(teams.create("acme", now=1.0).id, "first", now=1.0)
    inserter(engine)([a_receipt(1, prompt="{}")])
    engine.dispose()
    filled = counts(url)
    again = migrated_schema.empty_url()

    assert again == url
    assert filled["calls"] == filled["teams"] == filled["keys"] == 1
    assert counts(url) == before
    assert {name for name, rows in before.items() if rows} == {"meta"}


@pytest.mark.parametrize(
    "change",
    [
        "ALTER TABLE teams RENAME TO away",
        "DROP TABLE alerts CASCADE",
        "CREATE INDEX extra ON calls (attempt)",
        "ALTER TABLE keys ADD COLUMN extra integer",
        "UPDATE alembic_version SET version_num = '9999'",
    ],
)
def test_a_schema_whose_tables_were_changed_is_replaced(migrated_schema, change):
    url = migrated_schema.empty_url()
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(change)
    other = migrated_schema.empty_url()
    engine = open_database(other)
    revisions = revision(engine)
    engine.dispose()

    assert other != url
    assert revisions == known_revisions()[-1]
    assert set(counts(other)) == set(schema.metadata.tables)


def test_a_copied_sqlite_database_is_migrated_and_nobody_elses(tmp_path: Path):
    urls = [migrated_sqlite(tmp_path / name / "made.db") for name in "ab"]
    engines = [open_database(url) for url in urls]
    Teams(engines[0]).create("acme", now=1.0)
    contents = [(revision(engine), len(Teams(engine).all())) for engine in engines]
    for engine in engines:
        engine.dispose()

    assert contents == [(known_revisions()[-1], 1), (known_revisions()[-1], 0)]
    assert (tmp_path / "a" / "made.db").stat().st_mode & 0o077 == 0
