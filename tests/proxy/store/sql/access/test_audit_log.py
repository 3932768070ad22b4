"""The audit log has who did what, in the transaction of the change itself."""

import pytest
from sqlalchemy import Engine

from compaction.policy import CompactionMode
from proxy.records.feature_mode import LayoutScope, PlanningMode
from proxy.store.sql.access.audit_log import AuditedChange, AuditLog, last_id
from proxy.store.sql.access.teams import KeyLimits, Teams
from proxy.store.sql.settings.compactions import Compactions
from proxy.store.sql.settings.layouts import Layouts
from proxy.store.sql.settings.pins import PinRow, Pins

NOW = 1_790_000_000.0


@pytest.fixture
def log(engine: Engine) -> AuditLog:
    return AuditLog(engine)


def changes(log: AuditLog) -> list[tuple[str, str, str]]:
    """Author, action and subject of each change, the oldest first."""
    entries = list(log.entries(100))
    return [(entry.who, entry.action, entry.subject) for entry in reversed(entries)]


def test_pages_of_the_log_go_on_behind_the_last_entry_and_are_narrowed(log: AuditLog) -> None:
    for number in range(5):
        who = "ann" if number % 2 else "ben"
        change = AuditedChange(who=who, action="reload", subject=str(number), team=f"t{number}")
        log.append(change, NOW + number)

    first = log.entries(2)
    assert [entry.subject for entry in first] == ["4", "3"]
    rest = log.entries(10, before=first[-1].id)
    assert [entry.subject for entry in rest] == ["2", "1", "0"]
    assert [entry.subject for entry in log.entries(10, who="ann")] == ["3", "1"]
    assert [entry.at for entry in log.entries(10, team="t3")] == [NOW + 3]


def test_changes_of_a_period_are_found_by_their_actions(log: AuditLog) -> None:
    for second, action in enumerate(("reload", "pin", "reload", "reload")):
        log.append(AuditedChange(who="ann", action=action, subject=str(second)), NOW + second)

    entries = log.changes_between(NOW, NOW + 3, {"reload"}, 10)
    assert [entry.subject for entry in entries] == ["2", "0"]
    assert len(log.changes_between(NOW, NOW + 9, {"reload", "pin"}, 3)) == 3


def test_the_last_change_of_a_subject_is_known_by_its_actions(log: AuditLog) -> None:
    for second, action in enumerate(("pin", "release", "reload")):
        log.append(AuditedChange(who="ann", action=action, subject="x"), NOW + second)
    log.append(AuditedChange(who="ann", action="pin", subject="y"), NOW + 9)

    last = log.last_change("x", ("pin", "release"))
    assert last is not None
    assert last.action == "release"
    assert log.last_change("z", ("pin",)) is None
    changes = log.last_changes(("pin", "release"))
    assert last_id(changes, "x", ("pin", "release")) == last.id
    assert last_id(changes, "z", ("pin",)) == ""


def test_changes_of_teams_and_keys_are_written_down_without_the_secret(
    engine: Engine, log: AuditLog
) -> None:
    teams = Teams(engine)
    team = teams.create("support", now=NOW, who="ann")
    limits = KeyLimits(expires=NOW + 60, models=frozenset({"small", "big"}))
    key, secret = teams.create_key(team.id, "ci", now=NOW + 1, limits=limits, who="ann")
    teams.keep_prompts(team.id, keeps=True, now=NOW + 2, who="ann")
    teams.revoke(key.id, now=NOW + 3, who="ben")
    teams.revoke(key.id, now=NOW + 4, who="ben")

    assert changes(log) == [
        ("ann", "create team", "support"),
        ("ann", "create key", key.id),
        ("ann", "keep prompts", "support"),
        ("ben", "revoke key", key.id),
    ]
    created = log.entries(10)[2]
    assert created.team == team.id
    assert created.after == {
        "name": "ci",
        "ends_in": secret[-4:],
        "feature": "",
        "expires": NOW + 60,
        "models": ["big", "small"],
    }
    assert secret not in repr(log.entries(10))


def test_a_change_that_fails_leaves_no_entry(engine: Engine, log: AuditLog) -> None:
    Teams(engine).create("support", now=NOW)
    with pytest.raises(ValueError, match="already"):
        Teams(engine).create("support", now=NOW + 1)
    with pytest.raises(ValueError, match="no team"):
        Teams(engine).create_key("team_x", "", now=NOW + 1)

    assert len(log.entries(10)) == 1


def test_decisions_about_layouts_compaction_and_pins_are_written_down(
    engine: Engine, log: AuditLog
) -> None:
    place = LayoutScope("team_1", "chat")
    layouts = Layouts(engine)
    layouts.propose(place, "digest", "{}", NOW)
    layouts.approve(place, 1, "ann", NOW + 1)
    layouts.rollback(place, "ann", NOW + 2)
    layouts.switch(place, PlanningMode.OFF, "ben", NOW + 3)
    layouts.suspend(place, "it harms", NOW + 4)
    layouts.resume(place, "ben", NOW + 5)
    layouts.resume(place, "ben", NOW + 6)
    Compactions(engine).choose(("team_1", "chat"), CompactionMode.FACTS, "cem", NOW + 7)
    pin = PinRow(objective="ttft", level=1, until=NOW + 99, why="", made=NOW + 8, who="dee")
    Pins(engine).set(pin)
    Pins(engine).release("ttft", NOW + 9, "dee")
    Pins(engine).release("ttft", NOW + 10, "dee")

    assert changes(log) == [
        ("ann", "approve layout", "chat"),
        ("ann", "roll back layout", "chat"),
        ("ben", "set layout mode", "chat"),
        ("ben", "resume layouts", "chat"),
        ("cem", "set compaction mode", "chat"),
        ("dee", "pin objective", "ttft"),
        ("dee", "release objective", "ttft"),
    ]
    approved = log.entries(10)[-1]
    assert approved.before == {"mode": None, "layout": 0, "suspended": ""}
    assert approved.after == {"mode": "apply", "layout": 1, "suspended": ""}


def test_a_start_is_marked_where_no_earlier_start_had_its_version(
    log: AuditLog,
) -> None:
    for second, version in enumerate(("gw 1", "gw 1", "gw 2", "gw 2", "gw 1")):
        log.append(AuditedChange(who="ci", action="deploy", subject="shop"), NOW + second)
        log.mark_version(version, NOW + second)

    marks = [subject for who, _, subject in changes(log) if who == "thriftgate"]
    assert marks == ["gw 1", "gw 2"]
