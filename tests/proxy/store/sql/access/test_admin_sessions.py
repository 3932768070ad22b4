"""Sessions that all processes share: they end in time, are few, and belong to somebody."""

import pytest
from sqlalchemy import Engine

from dashboards.access import Role
from proxy.store.sql.access.admin_sessions import (
    IDLE_TIMEOUT_S,
    MAX_SESSION_S,
    MAX_SESSIONS,
    SessionRows,
    new_session,
)
from proxy.store.sql.access.users import UserRecord, Users

NOW = 1_790_000_000.0


@pytest.fixture
def rows(engine: Engine) -> SessionRows:
    return SessionRows(engine)


@pytest.fixture
def ann(engine: Engine) -> UserRecord:
    Users(engine).create("root", Role.ADMIN, now=NOW)
    return Users(engine).create("ann", Role.VIEWER, {"team_a"}, now=NOW)


def begin(rows: SessionRows, holder: str, hashed: bytes = b"h", at: float = NOW) -> str:
    made = new_session(holder, "password", "Firefox\n", at)
    rows.begin(hashed, made)
    return made.id


def test_a_session_has_its_person_as_they_are_now(
    rows: SessionRows, ann: UserRecord, engine: Engine
) -> None:
    session = begin(rows, ann.id)
    result = rows.find(b"h", NOW + 1)
    assert result is not None
    assert (result[0].id, result[0].browser, result[1]) == (session, "Firefox", ann)

    changed = Users(engine).change_role(ann.id, Role.FINANCE, (), now=NOW, who="root")
    again = rows.find(b"h", NOW + 2)
    assert again is not None
    assert again[1] == changed
    Users(engine).set_disabled(ann.id, disabled=True, now=NOW, who="root")
    assert rows.find(b"h", NOW + 3) is None
    assert rows.find(b"other", NOW + 3) is None


def test_a_session_of_the_token_has_no_person_and_one_of_nobody_is_none(
    rows: SessionRows,
) -> None:
    begin(rows, "token:1", b"t")
    begin(rows, "user_gone", b"g")

    session = rows.find(b"t", NOW)
    assert session is not None
    assert session[1] is None
    assert rows.find(b"g", NOW) is None


def test_a_session_ends_when_it_is_not_used_and_after_twelve_hours_at_any_rate(
    rows: SessionRows, ann: UserRecord
) -> None:
    begin(rows, ann.id, b"idle")
    begin(rows, ann.id, b"busy")
    now = NOW
    while now < NOW + MAX_SESSION_S - IDLE_TIMEOUT_S / 2:
        now += IDLE_TIMEOUT_S / 2
        assert (rows.find(b"busy", now) is not None) == (now < NOW + MAX_SESSION_S)

    assert rows.find(b"idle", NOW + IDLE_TIMEOUT_S) is None
    assert rows.of_holder(ann.id, NOW + MAX_SESSION_S) == []


def test_sessions_of_a_person_are_few_and_the_longest_not_used_ends(
    rows: SessionRows, ann: UserRecord
) -> None:
    for number in range(MAX_SESSIONS + 3):
        begin(rows, ann.id, bytes([number]), NOW + number)

    sessions = rows.of_holder(ann.id, NOW + 100)
    assert len(sessions) == MAX_SESSIONS
    assert sessions[0].began == NOW + MAX_SESSIONS + 2
    assert sessions[-1].began == NOW + 3


def test_sessions_are_ended_by_their_cookie_one_by_one_or_all_but_one(
    rows: SessionRows, ann: UserRecord
) -> None:
    ids = [begin(rows, ann.id, bytes([number])) for number in range(4)]
    rows.end(bytes([0]))
    assert rows.end_of_holder("user_other", session=ids[1]) == 0
    assert rows.end_of_holder(ann.id, session=ids[1]) == 1
    assert rows.end_of_holder(ann.id, but=ids[3]) == 1

    assert [session.id for session in rows.of_holder(ann.id, NOW)] == [ids[3]]
