"""Ceilings and objectives that people set: kept, audited with their fields, taken back."""

import pytest
from sqlalchemy import Engine, update

from proxy.errors import CallerError
from proxy.store.sql import schema
from proxy.store.sql.access.audit_log import AuditLog
from proxy.store.sql.database import write_transaction
from proxy.store.sql.settings import stored_policies
from proxy.store.sql.settings.stored_policies import DISABLED_ROUTES, StoredPolicies, policy_changes

CENT = {"name": "cent", "limit": "0.01"}
DIME = {"name": "cent", "limit": "0.1", "cheaper": ["small"]}


@pytest.fixture
def policies(engine: Engine) -> StoredPolicies:
    return StoredPolicies(engine)


def test_a_policy_is_kept_with_its_author_and_replaced_by_name(policies: StoredPolicies) -> None:
    policies.set("ceilings", CENT, "ann", 10.0)
    policies.set("ceilings", DIME, "bob", 20.0)
    policies.set("objectives", {"name": "cent"}, "ann", 30.0)

    ceiling, objective = policies.all()
    assert (ceiling.fields, ceiling.changed_by, ceiling.changed_at) == (DIME, "bob", 20.0)
    assert (objective.kind, objective.name) == ("objectives", "cent")


def test_the_revision_differs_after_each_change_also_within_an_instant(
    policies: StoredPolicies,
) -> None:
    revisions = [policies.revision()]
    for fields in (CENT, DIME):
        policies.set("ceilings", fields, "ann", 10.0)
        revisions.append(policies.revision())
    policies.remove("ceilings", "cent", "ann", 10.0)
    revisions.append(policies.revision())

    assert len(set(revisions[:3])) == 3
    assert revisions[3] == revisions[0]


def test_an_ended_disabling_is_removed_by_the_next_change_and_cannot_be_taken_back(
    policies: StoredPolicies,
) -> None:
    for name, until in (("route a", 20.0), ("route b", 60.0), ("route c", None)):
        fields = {"name": name, "until": until, "why": ""}
        policies.set(DISABLED_ROUTES, fields, "ann", 10.0)
    policies.set("ceilings", CENT, "ann", 20.0)

    assert [one.name for one in policies.all()] == ["cent", "route b", "route c"]
    assert not policies.remove(DISABLED_ROUTES, "route b", "ann", 60.0)
    assert [one.name for one in policies.all()] == ["cent", "route c"]


def test_kinds_of_a_newer_version_are_not_read(engine: Engine, policies: StoredPolicies) -> None:
    policies.set("ceilings", CENT, "ann", 10.0)
    with write_transaction(engine) as connection:
        connection.execute(update(schema.stored_policies).values(kind="of-tomorrow"))

    assert policies.all() == []


def test_changes_are_audited_with_the_fields_before_and_after(
    engine: Engine, policies: StoredPolicies
) -> None:
    policies.set("ceilings", CENT, "ann", 10.0)
    policies.set("ceilings", DIME, "bob", 20.0)
    policies.remove("ceilings", "cent", "ann", 30.0)

    entries = AuditLog(engine).entries(3)
    assert [(entry.action, entry.before, entry.after) for entry in entries] == [
        ("remove ceiling", DIME, None),
        ("change ceiling", CENT, DIME),
        ("create ceiling", None, CENT),
    ]


def test_a_change_that_its_author_did_not_see_is_not_lost(
    engine: Engine, policies: StoredPolicies
) -> None:
    log, actions = AuditLog(engine), policy_changes("ceilings")
    policies.set("ceilings", CENT, "ann", 10.0, "")
    last = log.last_change("cent", actions)
    assert last is not None
    policies.set("ceilings", DIME, "bob", 20.0, last.id)

    with pytest.raises(CallerError, match="by bob"):
        policies.set("ceilings", CENT, "ann", 30.0, last.id)
    with pytest.raises(CallerError, match="changed after"):
        policies.remove("ceilings", "cent", "ann", 30.0, last.id)
    with pytest.raises(CallerError, match="changed after"):
        policies.set("ceilings", CENT, "ann", 30.0, "")
    assert [policy.fields for policy in policies.all()] == [DIME]


def test_a_policy_that_is_not_there_is_not_removed(policies: StoredPolicies) -> None:
    assert not policies.remove("ceilings", "cent", "ann", 10.0)


def test_there_is_an_end_to_the_policies_that_are_kept(policies: StoredPolicies) -> None:
    for n in range(stored_policies.MAX_STORED_POLICIES):
        policies.set("ceilings", {"name": f"c{n}"}, "ann", float(n))

    with pytest.raises(ValueError, match="remove one first"):
        policies.set("ceilings", CENT, "ann", 1_000.0)
    policies.set("ceilings", {"name": "c0", "limit": "1"}, "ann", 1_000.0)
