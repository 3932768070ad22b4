"""Calls of before the tables existed are added to them by the migration that makes them."""

import pytest
from alembic import command
from sqlalchemy import Engine, delete, select, text

from proxy.store.sql import schema
from proxy.store.sql.database import (
    _migration_config,
    read_transaction,
    write_transaction,
)
from proxy.store.sql.rollups.rollup_tables import (
    latency_day_histograms,
    latency_hour_histograms,
    rollup_day_hours,
    rollup_days,
    rollup_misses,
    rollup_unanswered,
    rollup_weeks,
)
from proxy.store.sql.schema import rollups
from tests.fakes.ledger import book
from tests.proxy.store.sql.rollups.test_rollup_statements import CALLS

TABLES = (
    rollups,
    rollup_days,
    rollup_day_hours,
    rollup_weeks,
    rollup_misses,
    rollup_unanswered,
    latency_day_histograms,
    latency_hour_histograms,
)
UNKNOWN_BEFORE = {"read_saved_nanos", "write_extra_nanos"}


def contents(engine: Engine) -> list[list[tuple[object, ...]]]:
    """All rows of all tables, but for what receipts of before did not say."""
    found = []
    with read_transaction(engine) as connection:
        for table in TABLES:
            columns = [each for each in table.columns if each.name not in UNKNOWN_BEFORE]
            query = select(*columns).order_by(*table.primary_key.columns)
            found.append([tuple(row) for row in connection.execute(query)])
    return found


def move(engine: Engine, to: str) -> None:
    with _migration_config(engine) as config:
        is_back = to != "head"
        (command.downgrade if is_back else command.upgrade)(config, to)


@pytest.mark.parametrize("revision", ["0013", "0014"])
def test_rollups_of_older_calls_are_those_that_new_calls_would_have(
    engine: Engine, revision: str
) -> None:
    book(engine, CALLS, 1.0)
    wanted = contents(engine)
    move(engine, revision)
    with read_transaction(engine) as connection:
        tables = text("SELECT count(*) FROM rollups")
        assert connection.execute(tables).scalar()
    move(engine, "head")

    assert all(len(table) > 5 for table in wanted)
    assert contents(engine) == wanted


def test_sums_that_wait_are_not_lost_on_the_way_back(engine: Engine) -> None:
    book(engine, CALLS, 0.6)
    move(engine, "0014")
    move(engine, "head")
    found = contents(engine)
    with write_transaction(engine) as connection:
        for table in (*TABLES, schema.calls):
            connection.execute(delete(table))
    book(engine, CALLS, 1.0)

    assert found == contents(engine)
