"""Runs the migrations on the connection it is given, one process at a time.

On PostgreSQL each of them commits by itself, so that calls wait for none longer than it has the
tables to itself. The connection is then spent: it keeps the turn and its limits until it is closed.
On SQLite, which has one writer whatever is done, they are all in the transaction of their caller.
"""

import time

from alembic import context
from sqlalchemy import Connection

from proxy.store.sql.access.access_tables import audit_log

_LOCK = 0x7468726966747967  # this program's advisory lock: "thriftyg"
_LOOKED = 0.1  # seconds between two looks whether it is our turn


def _migrate(connection: Connection) -> None:
    if connection.dialect.name == "postgresql":
        _take_turn(connection)
        # Better to fail and be tried again than to queue every call behind a waiting ALTER TABLE.
        connection.exec_driver_sql("SET lock_timeout = '10s'")
        connection.exec_driver_sql("SET statement_timeout = '10min'")
        connection.commit()
    context.configure(
        connection=connection, target_metadata=audit_log.metadata, transaction_per_migration=True
    )
    with context.begin_transaction():
        context.run_migrations()


def _take_turn(connection: Connection) -> None:
    """Wait until no other process migrates.

    Asked again and again, as an index that is built beside calls waits for every statement under
    way in the database, such as one that waits for this lock.
    """
    while not connection.exec_driver_sql(f"SELECT pg_try_advisory_lock({_LOCK})").scalar_one():
        connection.rollback()
        time.sleep(_LOOKED)
    connection.rollback()


_migrate(context.config.attributes["connection"])
