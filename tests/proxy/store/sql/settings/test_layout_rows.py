import pytest
from sqlalchemy import Engine

from proxy.records.feature_mode import FeatureState, LayoutScope, PlanningMode
from proxy.store.sql.database import read_transaction, write_transaction
from proxy.store.sql.settings import layout_rows as rows
from proxy.store.sql.settings.layout_rows import ProposalState

PLACE = LayoutScope("team_1", "support", "claude")
NOW = 1_790_000_000.0


def test_a_place_nobody_decided_about_is_locked_as_it_stands(engine: Engine) -> None:
    with write_transaction(engine) as connection:
        assert (
            rows.lock_settings(connection, PLACE)
            == rows.lock_settings(connection, PLACE)
            == FeatureState()
        )
    with read_transaction(engine) as connection:
        assert rows.count_changes(connection) == 0


def test_layout_rows_are_read_back_in_seconds_and_counted(engine: Engine) -> None:
    with write_transaction(engine) as connection:
        rows.lock_settings(connection, PLACE)
        rows.lock_settings(connection, PLACE.all_families)
        written = rows.write_settings(
            connection, PLACE, mode="auto", version=2, former=1, active_from=NOW + 0.5
        )
        other = rows.lock_settings(connection, PLACE.all_families)

    assert written == FeatureState(
        mode=PlanningMode.AUTO, version=2, former=1, active_from=NOW + 0.5
    )
    assert other == FeatureState()
    with read_transaction(engine) as connection:
        assert rows.count_changes(connection) == 1


def test_a_proposal_is_found_by_its_version_and_by_what_it_does(engine: Engine) -> None:
    with write_transaction(engine) as connection:
        made = rows.ensure_proposal(connection, PLACE, "d1", "[1]", NOW)
        again = rows.ensure_proposal(connection, PLACE, "d1", "[2]", NOW + 9e-6)
        undone = ProposalState.ROLLED_BACK
        rows.record_decision(connection, PLACE, 1, undone, decided_by="ann", decided_at=NOW + 1)
        judged = rows.find_proposal(connection, PLACE, 1)
        late = rows.ensure_proposal(connection, PLACE, "d1", "[3]", NOW + 9e-6)
        with pytest.raises(ValueError, match="version 2"):
            rows.find_proposal(connection, PLACE, 2)

    assert (made.version, made.moves, made.made) == (1, "[1]", NOW)
    assert (again.version, again.moves, again.made) == (1, "[2]", NOW + 9e-6)
    assert (judged.state, judged.decided_by) == (ProposalState.ROLLED_BACK, "ann")
    assert judged.decided_at == NOW + 1
    assert late == judged
