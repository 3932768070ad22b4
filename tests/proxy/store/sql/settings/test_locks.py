import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import urlsplit

import msgspec
import pytest
from sqlalchemy import Connection, Engine, event

from proxy.prefix.layouts.layout import Layout, LayoutMove
from proxy.prefix.prompts.prompt import PromptSlot
from proxy.records.feature_mode import FeatureState, LayoutScope, PlanningMode
from proxy.store.sql.database import open_database, write_transaction
from proxy.store.sql.settings import layout_rows as rows
from proxy.store.sql.settings.layouts import Layouts
from proxy.store.sql.settings.locks import APPROVAL_DELAY_S, GUARD, LockedSettings, singleton_lock
from tests.fakes.wire_cut import WireCut

NOW = 1_790_000_000.0
DAY = 86_400.0
PLACE = LayoutScope("team_1", "support", "claude")


@pytest.fixture
def connection(engine: Engine) -> Iterator[Connection]:
    with write_transaction(engine) as connection:
        yield connection


def locked_settings(
    connection: Connection, place: LayoutScope = PLACE, mode: PlanningMode = PlanningMode.OBSERVE
) -> LockedSettings:
    return LockedSettings(connection, place, mode)


def propose(connection: Connection, *digests: str) -> None:
    for digest in digests:
        rows.ensure_proposal(connection, PLACE, digest, layout(100), 0)


def layout(saving: int) -> str:
    """A layout with a move that saves so much."""
    move = LayoutMove(before=None, after=None, slot=PromptSlot.VARIABLE, label="", saving=saving)
    return msgspec.json.encode(Layout(moves=(move,), held_cost=100)).decode()


def test_a_place_nobody_decided_about_goes_by_the_mode_that_was_set(connection) -> None:
    hold = locked_settings(connection, mode=PlanningMode.AUTO)

    assert hold.own == FeatureState()
    assert hold.state == FeatureState(mode=PlanningMode.AUTO)
    assert hold.is_open(layout(1), NOW)


def test_a_scopes_state_is_reported_with_the_whole_features_decision(connection) -> None:
    locked_settings(connection, PLACE.all_families).decide("ann", NOW, mode=PlanningMode.AUTO.value)
    locked_settings(connection, PLACE.all_families).suspend("it cost more", NOW)
    hold = locked_settings(connection)

    assert (hold.own.mode, hold.own.suspended) == (None, "")
    assert (hold.state.mode, hold.state.suspended) == (PlanningMode.AUTO, "it cost more")
    assert not hold.is_open(layout(1), NOW)


def test_a_decision_is_known_to_the_next_decider(connection) -> None:
    propose(connection, "d1", "d2")
    hold = locked_settings(connection)
    first = hold.approve(1, "ann", NOW)
    second = hold.approve(2, "bob", NOW + 60)
    back = hold.rollback("cid", NOW + 120)

    assert (first.version, first.former, first.mode) == (1, 0, PlanningMode.APPLY)
    assert (second.version, second.former, second.active_from) == (
        2,
        1,
        NOW + 60 + APPROVAL_DELAY_S,
    )
    assert (back.version, back.former, back.changed_by) == (1, 2, "cid")
    assert hold.state == back == locked_settings(connection).state


def test_a_layout_is_measured_for_a_day_before_the_place_is_open_to_another(connection) -> None:
    propose(connection, "d1")
    hold = locked_settings(connection, mode=PlanningMode.AUTO)
    hold.approve(1, "ann", NOW)

    assert not hold.is_open(layout(9), NOW + APPROVAL_DELAY_S + DAY - 1)
    assert hold.is_open(layout(9), NOW + APPROVAL_DELAY_S + DAY)


def test_a_layout_that_saves_a_tenth_more_need_not_wait_a_day(connection) -> None:
    propose(connection, "d1")
    hold = locked_settings(connection, mode=PlanningMode.AUTO)
    hold.approve(1, "auto", NOW)

    assert hold.is_open(layout(10), NOW + 60)


@pytest.mark.parametrize("by", [GUARD, "ann"])
def test_after_a_rollback_to_no_layout_the_next_one_waits_a_day(connection, by: str) -> None:
    propose(connection, "d1")
    hold = locked_settings(connection, mode=PlanningMode.AUTO)
    hold.approve(1, "auto", NOW)
    hold.rollback(by, NOW + 60)

    assert not hold.is_open(layout(1_000), NOW + 120)
    assert hold.is_open(layout(1_000), NOW + 60 + APPROVAL_DELAY_S + DAY)


def test_a_missing_layout_is_neither_approved_nor_rolled_back(connection) -> None:
    with pytest.raises(ValueError, match="version 7"):
        locked_settings(connection).approve(7, "ann", NOW)
    with pytest.raises(ValueError, match="none to roll back"):
        locked_settings(connection).rollback("ann", NOW)


def test_every_decision_locks_its_place_once(engine: Engine) -> None:
    layouts, locks = Layouts(engine, mode=PlanningMode.AUTO), list[str]()

    def heard(_connection, _cursor, statement, *_rest) -> None:
        locks.extend(["lock"] if statement.startswith("INSERT INTO features") else [])

    event.listen(engine, "before_cursor_execute", heard)
    layouts.propose(PLACE, "d1", "[]", NOW)
    layouts.approve(PLACE, 1, "ann", NOW)
    layouts.rollback(PLACE, "ann", NOW)
    layouts.switch(PLACE, PlanningMode.OFF, "ann", NOW)
    layouts.suspend(PLACE, "it cost more", NOW)
    layouts.resume(PLACE, "ann", NOW)

    assert len(locks) == 6


def test_processes_that_decide_at_once_take_turns(engine: Engine) -> None:
    def decide(n: int) -> None:
        with write_transaction(engine) as connection:
            hold = locked_settings(connection)
            hold.decide("ann", NOW, version=hold.own.version + 1)

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(decide, range(8)))

    assert Layouts(engine).states().of(PLACE).version == 8


def test_the_first_on_a_database_is_alone_until_it_leaves(url):
    one, other = open_database(url), open_database(url)
    with singleton_lock(one) as first:
        with singleton_lock(other) as second:
            assert (first, second) == (True, False)
        with singleton_lock(other) as third:
            assert not third
    with singleton_lock(other) as last:
        assert last
    one.dispose()
    other.dispose()


def test_leaving_while_the_database_is_away_raises_nothing_and_releases_the_lock(postgres):
    server = urlsplit(postgres)
    user, _, _ = server.netloc.rpartition("@")
    with WireCut(server.hostname or "", server.port or 5432) as wire:
        url = server._replace(netloc=f"{user}@127.0.0.1:{wire.port}").geturl()
        one, other = open_database(url), open_database(postgres)
        with singleton_lock(one) as first:
            wire.close_connections()
        until = time.monotonic() + 20
        while not (is_released := _is_alone(other)) and time.monotonic() < until:
            time.sleep(0.05)

    assert first
    assert is_released
    one.dispose()
    other.dispose()


def _is_alone(engine: Engine) -> bool:
    with singleton_lock(engine) as is_alone:
        return is_alone


def test_on_different_databases_each_is_alone(tmp_path):
    engines = [open_database(f"sqlite:///{tmp_path}/{name}.db") for name in "ab"]
    with singleton_lock(engines[0]) as first, singleton_lock(engines[1]) as second:
        assert (first, second) == (True, True)
    for engine in engines:
        engine.dispose()
