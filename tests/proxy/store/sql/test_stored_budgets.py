import pytest
from sqlalchemy import Engine, text

from proxy.store.sql.audit_log import AuditLog
from proxy.store.sql.database import write_transaction
from proxy.store.sql.stored_budgets import StoredBudgets, budgets_beside
from slo.budget import Budget, BudgetUnit
from slo.window import Window

NOW = 1_790_000_000.0


def a_budget(name: str = "day", limit: int = 5) -> Budget:
    return Budget(name=name, scope="team", unit=BudgetUnit.USD, window=Window.DAY, limit=limit)


@pytest.fixture
def budgets(engine: Engine) -> StoredBudgets:
    return StoredBudgets(engine)


def test_a_budget_is_kept_as_it_was_set_last(budgets: StoredBudgets) -> None:
    budgets.set(a_budget(), "ann", NOW)
    budgets.set(a_budget(limit=7), "bob", NOW + 1)
    budgets.set(a_budget("all"), "ann", NOW + 2)

    found = budgets.all()
    assert [each.budget for each in found] == [a_budget("all"), a_budget(limit=7)]
    assert (found[1].changed_by, found[1].changed_at) == ("bob", NOW + 1)


def test_a_budget_that_was_removed_is_gone(budgets: StoredBudgets) -> None:
    budgets.set(a_budget(), "ann", NOW)

    assert budgets.remove("day", "ann", NOW)
    assert not budgets.remove("day", "ann", NOW)
    assert budgets.all() == []


def test_each_change_is_in_the_audit_log_with_values_before_and_after(
    budgets: StoredBudgets, engine: Engine
) -> None:
    budgets.set(a_budget(), "ann", NOW, "team_1")
    budgets.set(a_budget(limit=7), "bob", NOW + 1, "team_1")
    budgets.remove("day", "cy", NOW + 2, "team_1")

    changes = [each.change for each in reversed(AuditLog(engine).entries(9))]
    assert [(each.who, each.action, each.team) for each in changes] == [
        ("ann", "create budget", "team_1"),
        ("bob", "change budget", "team_1"),
        ("cy", "remove budget", "team_1"),
    ]
    assert changes[0].before is None
    assert changes[1].before is not None
    assert changes[1].after is not None
    assert (changes[1].before["limit"], changes[1].after["limit"]) == (5, 7)
    assert changes[2].after is None


def test_the_revision_differs_after_each_change_also_in_the_same_moment(
    budgets: StoredBudgets,
) -> None:
    seen = [budgets.revision()]
    for change in (
        lambda: budgets.set(a_budget(), "ann", NOW),
        lambda: budgets.set(a_budget(limit=7), "ann", NOW),
        lambda: budgets.set(a_budget("all"), "ann", NOW),
        lambda: budgets.remove("all", "ann", NOW),
    ):
        change()
        assert budgets.revision() != seen[-1]
        seen.append(budgets.revision())


def test_a_row_of_a_newer_version_is_left_out(budgets: StoredBudgets, engine: Engine) -> None:
    budgets.set(a_budget(), "ann", NOW)
    with write_transaction(engine) as connection:
        connection.execute(
            text(
                "INSERT INTO stored_budgets (name, text, changed_by, changed_at)"
                " VALUES ('new', '{\"unit\": \"trees\"}', 'ann', 1)"
            )
        )

    assert [each.budget.name for each in budgets.all()] == ["day"]


def test_a_budget_of_the_file_replaces_the_stored_one_of_its_name() -> None:
    file, stored = (a_budget(limit=1),), (a_budget(limit=2), a_budget("all"))

    assert budgets_beside(file, stored) == (a_budget(limit=1), a_budget("all"))
