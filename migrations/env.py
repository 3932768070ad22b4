"""Runs the migrations on the connection it is given, one process at a time."""

from alembic import context
from sqlalchemy import Connection

from proxy.store import schema

_LOCK = 0x7468726966747967  # this program's advisory lock: "thriftyg"


def _migrate(connection: Connection) -> None:
    if connection.dialect.name == "postgresql":
        # Better to fail and be tried again than to queue every call behind a waiting ALTER TABLE.
        connection.exec_driver_sql("SET LOCAL lock_timeout = '10s'")
        connection.exec_driver_sql("SET LOCAL statement_timeout = '10min'")
        connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({_LOCK})")
    context.configure(connection=connection, target_metadata=schema.metadata)
    with context.begin_transaction():
        context.run_migrations()


_migrate(context.config.attributes["connection"])
