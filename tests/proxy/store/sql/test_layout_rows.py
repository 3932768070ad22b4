import pytest
from sqlalchemy import Engine

from proxy.records.feature_mode import Mode, Place, Standing
from proxy.store.sql import layout_rows as rows
from proxy.store.sql.database import reading, writing
from proxy.store.sql.layout_rows import State

PLACE = Place("team_1", "support", "claude")
MICROS = 1_790_000_000_000_000


def test_a_place_nobody_decided_about_is_locked_as_it_stands(engine: Engine) -> None:
    with writing(engine) as connection:
        assert rows.locked(connection, PLACE) == rows.locked(connection, PLACE) == Standing()
    with reading(engine) as connection:
        assert rows.changes(connection) == 0


def test_what_is_written_is_read_back_in_seconds_and_counted(engine: Engine) -> None:
    with writing(engine) as connection:
        rows.locked(connection, PLACE)
        rows.locked(connection, PLACE.whole)
        written = rows.write(
            connection, PLACE, mode="auto", version=2, former=1, active_from=MICROS + 500_000
        )
        other = rows.locked(connection, PLACE.whole)

    assert written == Standing(mode=Mode.AUTO, version=2, former=1, active_from=MICROS / 1e6 + 0.5)
    assert other == Standing()
    with reading(engine) as connection:
        assert rows.changes(connection) == 1


def test_a_proposal_is_found_by_its_version_and_by_what_it_does(engine: Engine) -> None:
    with writing(engine) as connection:
        made = rows.proposed(connection, PLACE, "d1", "[1]", MICROS)
        again = rows.proposed(connection, PLACE, "d1", "[2]", MICROS + 9)
        rows.judge(connection, PLACE, 1, State.ROLLED_BACK, by="ann", micros=MICROS + 10**6)
        judged = rows.found(connection, PLACE, 1)
        late = rows.proposed(connection, PLACE, "d1", "[3]", MICROS + 9)
        with pytest.raises(ValueError, match="version 2"):
            rows.found(connection, PLACE, 2)

    assert (made.version, made.moves, made.made) == (1, "[1]", MICROS / 1e6)
    assert (again.version, again.moves, again.made) == (1, "[2]", MICROS / 1e6)
    assert (judged.state, judged.decided_by) == (State.ROLLED_BACK, "ann")
    assert judged.decided_at == MICROS / 1e6 + 1
    assert late == judged
