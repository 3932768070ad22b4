"""Switches of the fast path in a database."""

import pytest
from sqlalchemy import Engine, insert

from proxy.errors import CallerError
from proxy.store.sql import schema
from proxy.store.sql.access.audit_log import AuditLog
from proxy.store.sql.access.teams import Teams
from proxy.store.sql.database import write_transaction
from proxy.store.sql.settings import fast_path_switches
from proxy.store.sql.settings.fast_path_switches import FastPathSwitches
from slo.policies.fast_path_switches import FastPathSwitch, SwitchedPart

NOW = 1_790_000_000.0
CACHE, DRAFTS = SwitchedPart.ANSWER_CACHE, SwitchedPart.DRAFTS


@pytest.fixture
def team(engine: Engine) -> str:
    return Teams(engine).create("acme", now=NOW).id


@pytest.fixture
def switches(engine: Engine) -> FastPathSwitches:
    return FastPathSwitches(engine)


def test_a_part_stays_off_until_it_is_turned_on(switches: FastPathSwitches, team: str) -> None:
    assert switches.turn_off((team, "faq"), CACHE, "ann", NOW)
    assert not switches.turn_off((team, "faq"), CACHE, "bob", NOW)
    assert switches.all() == [FastPathSwitch("acme", "faq", CACHE)]

    assert switches.turn_on((team, "faq"), CACHE, "ann", NOW)
    assert not switches.turn_on((team, "faq"), CACHE, "ann", NOW)
    assert switches.all() == []


def test_each_change_is_in_the_audit_log(
    switches: FastPathSwitches, engine: Engine, team: str
) -> None:
    switches.turn_off((team, ""), DRAFTS, "ann", NOW)
    switches.turn_on((team, ""), DRAFTS, "bob", NOW + 1)

    changes = [
        (change.who, change.action, change.subject, change.team)
        for change in reversed(AuditLog(engine).entries(9))
        if change.action.endswith("drafts")
    ]
    assert changes == [
        ("ann", "disable drafts", "(none)", team),
        ("bob", "enable drafts", "(none)", team),
    ]


def test_a_part_of_a_newer_version_is_left_out(
    switches: FastPathSwitches, engine: Engine, team: str
) -> None:
    row = {"team": team, "feature": "faq", "part": "new", "changed_by": "ann", "changed_at": 1}
    with write_transaction(engine) as connection:
        connection.execute(insert(schema.fast_path_switches).values(row))

    assert switches.all() == []


def test_beyond_the_bound_a_team_turns_nothing_more_off_and_others_do(
    switches: FastPathSwitches, engine: Engine, team: str
) -> None:
    rows = [
        {"team": team, "feature": str(n), "part": "drafts", "changed_by": "ann", "changed_at": 1}
        for n in range(fast_path_switches.MAX_SWITCHES)
    ]
    with write_transaction(engine) as connection:
        connection.execute(insert(schema.fast_path_switches), rows)
    other = Teams(engine).create("other", now=NOW).id

    with pytest.raises(ValueError, match="200 parts are off for this team"):
        switches.turn_off((team, "faq"), CACHE, "ann", NOW)
    assert switches.turn_off((other, "faq"), CACHE, "bob", NOW)


def test_a_switch_is_not_set_back_after_a_change_that_was_not_seen(switches, team):
    ours = switches.turn_off((team, "faq"), CACHE, "ann", NOW)
    theirs = switches.turn_on((team, "faq"), CACHE, "bob", NOW + 1)
    switches.turn_off((team, "faq"), CACHE, "bob", NOW + 2, theirs)

    with pytest.raises(CallerError, match="by bob"):
        switches.turn_on((team, "faq"), CACHE, "ann", NOW + 3, ours)
    assert len(switches.all()) == 1
