import pytest
from sqlalchemy import Engine, update

from compaction.policy import CompactionMode
from proxy.records.compaction_settings import FeatureSettings
from proxy.store.sql import schema
from proxy.store.sql.database import write_transaction
from proxy.store.sql.settings.compactions import Compactions

NOW = 1_790_000_000.0
PLACE = ("team_1", "support")


@pytest.fixture
def compactions(engine: Engine) -> Compactions:
    return Compactions(engine)


def test_no_compaction_is_chosen_to_begin_with(compactions: Compactions) -> None:
    assert compactions.all_settings().features == {}
    assert compactions.changes() == 0


def test_a_choice_holds_and_is_counted(compactions: Compactions) -> None:
    made = compactions.choose(PLACE, CompactionMode.FACTS, "ann", NOW, keep_turns=4, target=3_000)
    settings = compactions.all_settings()

    assert settings.of(*PLACE) == made
    assert made == FeatureSettings(
        mode=CompactionMode.FACTS,
        keep_turns=4,
        target=3_000,
        measured_from=NOW,
        changed_by="ann",
        changed_at=NOW,
    )
    assert settings.changes == compactions.changes() == 1


def test_a_step_back_holds_until_a_person_resumes(compactions: Compactions) -> None:
    compactions.choose(PLACE, CompactionMode.FACTS, "ann", NOW)
    first = compactions.step_back(PLACE, CompactionMode.TRIM, "9 of 100 lost", NOW + 1)
    again = compactions.step_back(PLACE, CompactionMode.TRIM, "10 of 100 lost", NOW + 2)
    held = compactions.all_settings().of(*PLACE)
    resumed = compactions.resume(PLACE, "bob", NOW + 3)
    after = compactions.all_settings().of(*PLACE)

    assert (first, again, resumed) == (True, False, True)
    assert (held.mode, held.stepped, held.why) == (
        CompactionMode.FACTS,
        CompactionMode.TRIM,
        "9 of 100 lost",
    )
    assert (held.stepped_at, held.measured_from) == (NOW + 1, NOW + 1)
    assert (after.mode, after.stepped, after.why, after.changed_by) == (
        CompactionMode.FACTS,
        None,
        "",
        "bob",
    )
    assert not compactions.resume(PLACE, "bob", NOW + 4)


def test_a_feature_that_nobody_chose_for_is_stepped_back_too(compactions: Compactions) -> None:
    assert compactions.step_back(PLACE, CompactionMode.OFF, "lost", NOW)
    assert (
        compactions.all_settings().of(*PLACE).effective_mode(CompactionMode.TRIM)
        is CompactionMode.OFF
    )


def test_a_feature_without_a_row_is_not_resumed_and_gets_none(compactions: Compactions) -> None:
    assert not compactions.resume(PLACE, "bob", NOW)
    assert compactions.all_settings().features == {}
    assert compactions.changes() == 0


def test_a_new_choice_ends_a_step_back(compactions: Compactions) -> None:
    compactions.step_back(PLACE, CompactionMode.TRIM, "lost", NOW)

    assert compactions.choose(PLACE, CompactionMode.FACTS, "ann", NOW).stepped is None
    assert not compactions.step_back(PLACE, CompactionMode.FACTS, "is so already", NOW)


def test_features_that_callers_name_are_bounded(engine: Engine) -> None:
    few = Compactions(engine, features=1)

    assert few.step_back(PLACE, CompactionMode.TRIM, "lost", NOW)
    assert not few.step_back(("team_1", "another"), CompactionMode.TRIM, "lost", NOW)
    assert few.step_back(PLACE, CompactionMode.OFF, "lost again", NOW)


def test_a_mode_that_this_version_does_not_know_is_off(
    compactions: Compactions, engine: Engine
) -> None:
    compactions.choose(PLACE, CompactionMode.FACTS, "ann", NOW)
    with write_transaction(engine) as connection:
        connection.execute(update(schema.compactions).values(mode="bold"))

    assert compactions.all_settings().of(*PLACE).mode is CompactionMode.OFF


def test_the_removed_mode_facts_model_goes_on_as_facts_and_says_so(
    compactions: Compactions, engine: Engine, caplog: pytest.LogCaptureFixture
) -> None:
    compactions.choose(PLACE, CompactionMode.FACTS, "ann", NOW)
    with write_transaction(engine) as connection:
        connection.execute(update(schema.compactions).values(mode="facts+model"))

    assert compactions.all_settings().of(*PLACE).mode is CompactionMode.FACTS
    assert "facts+model no longer exists" in caplog.text
