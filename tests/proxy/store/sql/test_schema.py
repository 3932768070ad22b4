import re
from pathlib import Path

from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from sqlalchemy import Engine, create_engine

from proxy.store.sql.access.access_tables import audit_log
from proxy.store.sql.database import read_transaction
from proxy.store.sql.rollups.rollup_tables import rollup_days


def test_the_migrations_end_in_the_schema(engine: Engine) -> None:
    with read_transaction(engine) as connection:
        context = MigrationContext.configure(connection)
        differences = compare_metadata(context, audit_log.metadata)

    assert differences == []


def test_the_migrations_make_the_very_tables_of_the_schema(
    tmp_path: Path, sqlite_engine: Engine
) -> None:
    """Alembic does not compare strictness, row ids and names of constraints; the DDL does."""
    fresh = create_engine(f"sqlite:///{tmp_path}/fresh.db")
    rollup_days.metadata.create_all(fresh)

    migrated = _ddl(sqlite_engine)
    assert _ddl(fresh) == {name: ddl for name, ddl in migrated.items() if name != "alembic_version"}
    fresh.dispose()


def _ddl(engine: Engine) -> dict[str, str]:
    with engine.connect() as connection:
        query = "SELECT name, sql FROM sqlite_master WHERE sql IS NOT NULL"
        # A column added later stands in the same place, on a line of its own or not.
        return {row.name: re.sub(r"\s+", "", row.sql) for row in connection.exec_driver_sql(query)}
