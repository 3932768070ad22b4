import pytest
from sqlalchemy import Engine, select

from proxy.records.receipt import answering_model
from proxy.store.sql import schema
from proxy.store.sql.database import read_transaction
from proxy.store.sql.ledger.inserts import inserter
from proxy.store.sql.rollups.spend_filters import part_column
from tests.fakes.receipts import a_receipt

ROUTES = ("", "lab", "lab/", "lab/*", "lab/m", "lab/m#b", "lab/a/b", "lab/gpt-*#x", "lab/#x")


@pytest.mark.parametrize("route", ROUTES)
def test_the_database_finds_the_answering_model_as_receipts_do(engine: Engine, route: str) -> None:
    inserter(engine)([a_receipt(1, route=route, model="asked")])
    with read_transaction(engine) as connection:
        query = select(part_column(schema.rollups.c, "model"))
        assert connection.execute(query).scalar() == answering_model(route, "asked")
