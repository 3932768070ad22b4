import pytest

from compaction.policy import CompactionMode
from proxy.records.compaction_settings import FeatureSettings
from proxy.services.compaction.requested import Wish, wish

NOBODYS = FeatureSettings()
OFF = FeatureSettings(mode=CompactionMode.OFF)


def test_without_a_header_the_features_mode_holds():
    assert wish("", FeatureSettings(mode=CompactionMode.TRIM), CompactionMode.FACTS) == Wish(
        mode=CompactionMode.TRIM
    )
    assert wish(" ", NOBODYS, CompactionMode.FACTS) == Wish(mode=CompactionMode.FACTS)
    assert wish("", NOBODYS, CompactionMode.OFF).mode is CompactionMode.OFF


def test_a_caller_may_keep_a_call_as_it_came():
    assert (
        wish("OFF", FeatureSettings(mode=CompactionMode.FACTS), CompactionMode.FACTS).mode
        is CompactionMode.OFF
    )


@pytest.mark.parametrize("setting", [NOBODYS, OFF])
def test_a_dry_run_is_reckoned_whatever_was_chosen(setting):
    assert wish("dry-run", setting, CompactionMode.OFF) == Wish(
        mode=CompactionMode.FACTS, is_dry=True
    )


def test_a_caller_may_force_what_nobody_chose_otherwise():
    assert wish("force", NOBODYS, CompactionMode.OFF) == Wish(mode=CompactionMode.FACTS, force=True)
    assert wish("Force ", FeatureSettings(mode=CompactionMode.TRIM), CompactionMode.OFF) == Wish(
        mode=CompactionMode.TRIM, force=True
    )
    assert wish("force", OFF, CompactionMode.FACTS).mode is CompactionMode.OFF


def test_a_word_that_is_none_of_them_keeps_the_call_as_it_came_and_is_told():
    found = wish("fource", FeatureSettings(mode=CompactionMode.FACTS), CompactionMode.FACTS)

    assert found.mode is CompactionMode.OFF
    (note,) = found.notes
    assert note.startswith("x-thriftgate-compaction is off, dry-run or force, not 'fource'")
