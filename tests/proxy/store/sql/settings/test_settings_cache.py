import time
from pathlib import Path

import pytest
from sqlalchemy import Engine, update

from compaction.policy import CompactionMode
from proxy.records.feature_mode import LayoutScope, PlanningMode
from proxy.store.sql import schema
from proxy.store.sql.database import write_transaction
from proxy.store.sql.settings.compactions import Compactions
from proxy.store.sql.settings.layout_rows import UNKNOWN_MODE, write_settings
from proxy.store.sql.settings.layouts import Layouts
from proxy.store.sql.settings.settings_cache import compaction_settings, layout_settings
from proxy.store.store import Store
from tests.fakes.databases import migrated_sqlite

NOW = 1_790_000_000.0
PLACE = LayoutScope("team_1", "support")
FEATURE = ("team_1", "support")


def test_settings_at_the_start_are_known_and_a_change_is_noticed(engine: Engine) -> None:
    layouts = Layouts(engine)
    layouts.switch(PLACE, PlanningMode.AUTO, "ann", NOW)
    board = layout_settings(layouts, every=60)
    board.start()
    first = board.current
    layouts.switch(PLACE, PlanningMode.OFF, "ann", NOW)
    board.refresh()
    second = board.current
    board.refresh()
    board.close()

    assert first.of(PLACE).mode is PlanningMode.AUTO
    assert second.of(PLACE).mode is PlanningMode.OFF
    assert board.current is second


def test_with_the_database_away_the_last_known_holds(engine: Engine) -> None:
    layouts = Layouts(engine)
    layouts.switch(PLACE, PlanningMode.AUTO, "ann", NOW)
    board = layout_settings(layouts)
    board.refresh()
    rename(engine, "meta", "away")
    for _ in range(2):
        board.refresh()
        assert board.trouble == "changes to layouts go unnoticed: the database cannot be reached"
        assert board.current.of(PLACE).mode is PlanningMode.AUTO
    rename(engine, "away", "meta")
    board.refresh()
    board.close()

    assert board.trouble is None


def test_a_change_by_one_process_is_known_to_another_before_it_takes_effect(tmp_path: Path) -> None:
    url = migrated_sqlite(tmp_path / "thriftgate.db")
    admin, gateway = Store.open(url, tmp_path / "a"), Store.open(url, tmp_path / "b")
    admin.layouts.switch(PLACE, PlanningMode.AUTO, "ann", NOW)
    decided = time.monotonic()
    while (
        gateway.board.current.of(PLACE).mode is PlanningMode.OBSERVE
        and time.monotonic() < decided + 9
    ):
        time.sleep(0.01)
    took = time.monotonic() - decided
    admin.close(10)
    gateway.close(10)

    assert gateway.board.current.of(PLACE).mode is PlanningMode.AUTO
    assert took < 5


def rename(engine: Engine, table: str, name: str) -> None:
    with write_transaction(engine) as connection:
        connection.exec_driver_sql(f"ALTER TABLE {table} RENAME TO {name}")


def test_with_a_mode_of_a_later_version_the_last_known_holds(engine: Engine) -> None:
    layouts = Layouts(engine)
    board = layout_settings(layouts)
    layouts.switch(PLACE, PlanningMode.AUTO, "ann", NOW)
    board.refresh()
    with write_transaction(engine) as connection:
        write_settings(connection, PLACE, changed_by="bob")
        connection.execute(update(schema.features).values(mode="of tomorrow"))
    board.refresh()

    assert board.current.of(PLACE).mode is PlanningMode.AUTO
    assert board.trouble is None


def test_a_row_that_cannot_be_read_is_told_with_its_mend_and_stops_nothing(
    engine: Engine, caplog: pytest.LogCaptureFixture
) -> None:
    layouts = Layouts(engine)
    layouts.switch(PLACE, PlanningMode.APPLY, "ann", NOW)
    family = LayoutScope(PLACE.team, PLACE.feature, "gpt")
    layouts.propose(family, "digest", "{broken", NOW)
    layouts.approve(family, 1, "ann", NOW)
    with write_transaction(engine) as connection:
        write_settings(connection, PLACE, mode="bold")
    board = layout_settings(layouts, every=60)
    board.start()
    board.close()

    assert board.trouble is None
    assert board.current.of(PLACE).is_off
    assert board.current.of(PLACE).suspended == UNKNOWN_MODE
    messages = [record.getMessage() for record in caplog.records if record.levelname == "ERROR"]
    assert messages[0].startswith("The mode of feature 'support' of team team_1 cannot be read: ")
    assert messages[0].endswith("thriftgate layout mode team_1 support observe")
    assert messages[1].startswith(
        "Layout 1 of feature 'support' of team team_1 on gpt moves no text"
    )
    assert messages[1].endswith("thriftgate layout rollback team_1 support --family gpt")
    layouts.switch(PLACE, PlanningMode.OBSERVE, "ann", NOW)
    assert not layouts.states().of(PLACE).is_off


def test_compaction_modes_that_hold_at_the_start_are_known_and_a_change_is_noticed(
    engine: Engine,
) -> None:
    compactions = Compactions(engine)
    compactions.choose(FEATURE, CompactionMode.FACTS, "ann", NOW)
    board = compaction_settings(compactions, every=60)
    board.start()
    first = board.current
    compactions.step_back(FEATURE, CompactionMode.TRIM, "lost", NOW)
    board.refresh()
    second = board.current
    board.refresh()
    board.close()

    assert first.of(*FEATURE).effective_mode(CompactionMode.OFF) is CompactionMode.FACTS
    assert second.of(*FEATURE).effective_mode(CompactionMode.OFF) is CompactionMode.TRIM
    assert board.current is second
    assert board.trouble is None


def test_with_the_database_away_the_last_known_compaction_modes_hold(engine: Engine) -> None:
    compactions = Compactions(engine)
    compactions.choose(FEATURE, CompactionMode.FACTS, "ann", NOW)
    board = compaction_settings(compactions)
    board.refresh()
    with engine.begin() as connection:
        connection.exec_driver_sql("ALTER TABLE meta RENAME TO away")
    board.refresh()
    trouble = board.trouble
    with engine.begin() as connection:
        connection.exec_driver_sql("ALTER TABLE away RENAME TO meta")
    board.close()

    assert trouble == "changes to compactions go unnoticed: the database cannot be reached"
    assert board.current.of(*FEATURE).mode is CompactionMode.FACTS
