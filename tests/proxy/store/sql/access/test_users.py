"""People, their roles, and links that sign them in once."""

import pytest
from sqlalchemy import Engine

from dashboards.access import Role
from proxy.store.sql.access.audit_log import AuditLog
from proxy.store.sql.access.users import FIRST_ADMIN, LINK_LIFETIME_S, Users

NOW = 1_790_000_000.0


@pytest.fixture
def users(engine: Engine) -> Users:
    return Users(engine)


def test_a_person_has_a_role_and_teams_and_a_name_of_their_own(users: Users) -> None:
    ann = users.create("ann", Role.TEAM_ADMIN, {"team_b", "team_a"}, now=NOW)

    assert users.all() == [ann] == [users.find("ann")]
    assert users.by_id(ann.id) == ann
    with pytest.raises(ValueError, match="a person named 'ann' already"):
        users.create("ann", Role.VIEWER, now=NOW)


@pytest.mark.parametrize("name", ["", " ann", "a\nb", "a" * 101, "a\u202eb"])
def test_a_name_that_misleads_is_refused(users: Users, name: str) -> None:
    with pytest.raises(ValueError, match="a name has 1 to 100 characters that print"):
        users.create(name, Role.VIEWER, now=NOW)


@pytest.mark.parametrize("name", ["thriftgate", "Admin token", "identity provider"])
def test_a_name_that_stands_for_something_else_in_the_audit_log_is_refused(
    users: Users, name: str
) -> None:
    with pytest.raises(ValueError, match="stands for something else"):
        users.create(name, Role.VIEWER, now=NOW)


def test_a_person_is_linked_to_the_identity_provider_unless_they_can_sign_in_already(
    users: Users,
) -> None:
    ann = users.create("ann@acme.example", Role.VIEWER, now=NOW)
    ben = users.create("ben@acme.example", Role.VIEWER, now=NOW)
    users.set_password(ben.id, "$argon2id$1", now=NOW, who="ben")

    linked = users.link_subject("ann@acme.example", "idp 1", now=NOW, who="idp")
    assert linked is not None
    assert users.by_subject("idp 1") == linked
    assert linked.id == ann.id
    for name in ("ann@acme.example", "ben@acme.example", "nobody", ""):
        assert users.link_subject(name, "idp 2", now=NOW, who="idp") is None


def test_a_password_is_found_by_name_until_the_person_is_disabled(users: Users) -> None:
    users.create("root", Role.ADMIN, now=NOW, subject="idp root")
    ann = users.create("ann", Role.VIEWER, now=NOW)
    assert users.password_hash("ann") is None
    users.set_password(ann.id, "$argon2id$1", now=NOW, who="ann")

    record = users.password_hash("ann")
    assert record is not None
    assert (record[0].id, record[1]) == (ann.id, "$argon2id$1")
    users.set_disabled(ann.id, disabled=True, now=NOW + 1, who="root")
    assert users.password_hash("ann") is None


def test_a_link_signs_in_once_and_in_time(users: Users) -> None:
    users.create("ann", Role.VIEWER, now=NOW)
    code = users.create_link("ann", now=NOW)

    assert users.redeem_link("guessed", NOW + 1) is None
    link = users.redeem_link(code, NOW + 1)
    assert link is not None
    assert link.name == "ann"
    assert users.redeem_link(code, NOW + 2) is None
    late = users.create_link("ann", now=NOW)
    assert users.redeem_link(late, NOW + LINK_LIFETIME_S) is None


def test_the_first_link_makes_the_administrator(users: Users) -> None:
    assert not users.has_admin()
    code = users.create_link(FIRST_ADMIN, now=NOW)
    assert not users.has_admin(), "nobody can sign in once the link is lost"

    link = users.redeem_link(code, NOW + 1)
    assert link is not None
    assert link.role is Role.ADMIN
    users.set_password(link.id, "$argon2id$1", now=NOW + 2, who=link.name)
    assert users.has_admin()


def test_sign_in_link_makes_no_other_person_and_a_disabled_one_gets_none(users: Users) -> None:
    users.create("root", Role.ADMIN, now=NOW, subject="idp root")
    ann = users.create("ann", Role.VIEWER, now=NOW)
    code = users.create_link("ann", now=NOW)
    users.set_disabled(ann.id, disabled=True, now=NOW, who="root")

    assert users.redeem_link(code, NOW + 1) is None
    with pytest.raises(ValueError, match="the person 'ann' is disabled"):
        users.create_link("ann", now=NOW)
    with pytest.raises(ValueError, match="there is no person named 'bob'"):
        users.create_link("bob", now=NOW)


def test_the_last_administrator_stays_one(users: Users) -> None:
    root = users.create("root", Role.ADMIN, now=NOW)
    with pytest.raises(ValueError, match="'root' is the last administrator"):
        users.change_role(root.id, Role.VIEWER, (), now=NOW, who="root")
    with pytest.raises(ValueError, match="'root' is the last administrator"):
        users.set_disabled(root.id, disabled=True, now=NOW, who="root")

    users.create("ann", Role.ADMIN, now=NOW)
    assert users.change_role(root.id, Role.VIEWER, {"t"}, now=NOW, who="ann").teams == {"t"}


def test_changes_of_people_are_written_down_without_their_passwords(
    users: Users, engine: Engine
) -> None:
    ann = users.create("ann", Role.VIEWER, now=NOW, who="root")
    users.set_password(ann.id, "$argon2id$secret", now=NOW + 1, who="ann")
    users.change_role(ann.id, Role.FINANCE, (), now=NOW + 2, who="root")
    users.create_link("ann", now=NOW + 3, who="root")
    users.set_disabled(ann.id, disabled=True, now=NOW + 4, who="root")
    users.set_disabled(ann.id, disabled=True, now=NOW + 5, who="root")
    users.set_disabled(ann.id, disabled=False, now=NOW + 6, who="root")

    entries = list(reversed(AuditLog(engine).entries(10)))
    assert [(entry.who, entry.action) for entry in entries] == [
        ("root", "add person"),
        ("ann", "set password"),
        ("root", "change role"),
        ("root", "make sign-in link"),
        ("root", "disable person"),
        ("root", "enable person"),
    ]
    assert entries[2].before == {"role": "viewer", "teams": [], "disabled": False}
    assert entries[2].after == {"role": "finance", "teams": [], "disabled": False}
    assert "secret" not in repr(entries)
