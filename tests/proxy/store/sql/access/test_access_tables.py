import pytest
from sqlalchemy import Engine, delete, insert, select, update

from proxy.store.errors import StoreError
from proxy.store.sql.access.access_tables import audit_log
from proxy.store.sql.database import read_transaction, write_transaction

ROW = {"id": "chg_1", "at": 1, "who": "ann", "action": "create team", "subject": "support"}


@pytest.mark.parametrize("change", [update(audit_log).values(who="nobody"), delete(audit_log)])
def test_the_database_refuses_to_change_or_delete_a_row_of_the_audit_log(
    engine: Engine, change: object
) -> None:
    with write_transaction(engine) as connection:
        connection.execute(insert(audit_log).values(ROW))

    with (
        pytest.raises(StoreError, match="the audit log only grows"),
        write_transaction(engine) as connection,
    ):
        connection.execute(change)  # type: ignore[call-overload]
    with read_transaction(engine) as connection:
        assert connection.execute(select(audit_log.c.who)).scalars().all() == ["ann"]
