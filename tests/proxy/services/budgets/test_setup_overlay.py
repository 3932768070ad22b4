from pathlib import Path

import pytest
from sqlalchemy import text

from proxy.configuration import Snapshot
from proxy.services.budgets.setup import BudgetOverlay, stored_budget_overlay
from proxy.settings import Settings
from proxy.store.sql.database import write_transaction
from proxy.store.store import Store
from slo.budgets.budget import Budget, BudgetUnit
from slo.policies.file import Policies
from slo.window import Window
from tests.fakes.call_dependencies import catalog

DAY = Budget(name="day", scope="team", unit=BudgetUnit.USD, window=Window.DAY, limit=5)
ALL = Budget(name="all", scope="organization", unit=BudgetUnit.USD, window=Window.DAY, limit=9)
FILE = Snapshot(catalog(), Policies(budgets=(DAY,)))


def test_stored_budgets_stand_beside_those_of_the_file(store: Store) -> None:
    store.budgets.set(ALL, "ann", 0.0)

    assert BudgetOverlay(store.budgets).add_to(FILE).policies.budgets == (DAY, ALL)


def test_while_the_database_is_away_those_read_last_stay(
    store: Store, caplog: pytest.LogCaptureFixture
) -> None:
    store.budgets.set(ALL, "ann", 0.0)
    overlay = BudgetOverlay(store.budgets)
    overlay.add_to(FILE)
    before = overlay.revision()
    with write_transaction(store._engine) as connection:
        connection.execute(text("DROP TABLE stored_budgets"))

    assert overlay.revision() == before
    assert overlay.add_to(FILE).policies.budgets == (DAY, ALL)
    assert "Budgets set on pages stay as they were" in caplog.text


def test_without_a_policies_file_there_is_no_overlay(store: Store, tmp_path: Path) -> None:
    assert stored_budget_overlay(Settings(), store) is None
    assert stored_budget_overlay(Settings(policies=tmp_path / "p.toml"), store) is not None
