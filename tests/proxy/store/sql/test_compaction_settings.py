from sqlalchemy import Engine

from compaction.policy import CompactionMode
from proxy.store.sql.compaction_settings import CompactionSettingsCache
from proxy.store.sql.compactions import Compactions

NOW = 1_790_000_000.0
PLACE = ("team_1", "support")


def test_what_holds_at_the_start_is_known_and_a_change_is_noticed(engine: Engine) -> None:
    compactions = Compactions(engine)
    compactions.choose(PLACE, CompactionMode.FACTS, "ann", NOW)
    board = CompactionSettingsCache(compactions, every=60)
    board.start()
    first = board.chosen
    compactions.step_back(PLACE, CompactionMode.TRIM, "lost", NOW)
    board.refresh()
    second = board.chosen
    board.refresh()
    board.close()

    assert first.of(*PLACE).effective_mode(CompactionMode.OFF) is CompactionMode.FACTS
    assert second.of(*PLACE).effective_mode(CompactionMode.OFF) is CompactionMode.TRIM
    assert board.chosen is second
    assert board.trouble is None


def test_with_the_database_away_the_last_known_holds(engine: Engine) -> None:
    compactions = Compactions(engine)
    compactions.choose(PLACE, CompactionMode.FACTS, "ann", NOW)
    board = CompactionSettingsCache(compactions)
    board.refresh()
    with engine.begin() as connection:
        connection.exec_driver_sql("ALTER TABLE meta RENAME TO away")
    board.refresh()
    trouble = board.trouble
    with engine.begin() as connection:
        connection.exec_driver_sql("ALTER TABLE away RENAME TO meta")
    board.close()

    assert trouble == "changes to compactions go unnoticed: the database is away"
    assert board.chosen.of(*PLACE).mode is CompactionMode.FACTS
