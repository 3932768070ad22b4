import msgspec
import pytest
from sqlalchemy import Engine, text

from proxy.store.sql.access.audit_log import AuditLog
from proxy.store.sql.access.teams import Teams
from proxy.store.sql.database import write_transaction
from proxy.store.sql.settings.stored_budgets import MAX_TEAM_BUDGETS, StoredBudgets, budgets_beside
from slo.budgets.budget import Budget, BudgetUnit
from slo.window import Window

NOW = 1_790_000_000.0


def a_budget(name: str = "day", limit: int = 5) -> Budget:
    return Budget(name=name, scope="team", unit=BudgetUnit.USD, window=Window.DAY, limit=limit)


def owned_budget(name: str, scope: str, of: str) -> Budget:
    return msgspec.structs.replace(a_budget(name), scope=scope, of=of)


@pytest.fixture
def budgets(engine: Engine) -> StoredBudgets:
    return StoredBudgets(engine)


def test_a_budget_is_kept_as_it_was_set_last(budgets: StoredBudgets) -> None:
    budgets.set(a_budget(), "ann", NOW)
    budgets.set(a_budget(limit=7), "bob", NOW + 1)
    budgets.set(a_budget("all"), "ann", NOW + 2)

    all_budgets = budgets.all()
    assert [stored.budget for stored in all_budgets] == [a_budget("all"), a_budget(limit=7)]
    assert (all_budgets[1].changed_by, all_budgets[1].changed_at) == ("bob", NOW + 1)


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

    changes = list(reversed(AuditLog(engine).entries(9)))
    assert [(change.who, change.action, change.team) for change in changes] == [
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


def test_a_team_has_a_share_of_all_budgets_that_its_own_admin_cannot_pass(engine: Engine) -> None:
    budgets, teams = StoredBudgets(engine), Teams(engine)
    acme, other = (teams.create(name, now=NOW) for name in ("acme", "other"))
    key, other_key = (teams.create_key(team.id, "k", now=NOW)[0].id for team in (acme, other))
    budgets.set(owned_budget("k", "key", key), "ann", NOW, acme.id)
    budgets.set(owned_budget("k2", "key", other_key), "ann", NOW, other.id)
    for number in range(MAX_TEAM_BUDGETS - 1):
        budgets.set(owned_budget(f"t{number}", "team", "acme"), "bob", NOW, acme.id, has_share=True)

    with pytest.raises(ValueError, match="a team's share of 1,000"):
        budgets.set(owned_budget("more", "key", key), "bob", NOW, acme.id, has_share=True)
    budgets.set(owned_budget("t0", "team", "acme"), "bob", NOW, acme.id, has_share=True)
    budgets.set(owned_budget("o", "team", "other"), "cy", NOW, other.id, has_share=True)
    budgets.set(owned_budget("by admin", "team", "acme"), "ann", NOW, acme.id)
    budgets.remove("t1", "bob", NOW, acme.id)
    budgets.remove("t2", "bob", NOW, acme.id)
    budgets.set(owned_budget("more", "key", key), "bob", NOW, acme.id, has_share=True)


def test_a_row_of_a_newer_version_is_left_out(budgets: StoredBudgets, engine: Engine) -> None:
    budgets.set(a_budget(), "ann", NOW)
    with write_transaction(engine) as connection:
        connection.execute(
            text(
                "INSERT INTO stored_budgets (name, text, changed_by, changed_at)"
                " VALUES ('new', '{\"unit\": \"trees\"}', 'ann', 1)"
            )
        )

    assert [budget.budget.name for budget in budgets.all()] == ["day"]


def test_a_budget_of_the_file_replaces_the_stored_one_of_its_name() -> None:
    file, stored = (a_budget(limit=1),), (a_budget(limit=2), a_budget("all"))

    assert budgets_beside(file, stored) == (a_budget(limit=1), a_budget("all"))
