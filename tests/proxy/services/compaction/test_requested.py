import pytest

from compaction.policy import Mode
from proxy.records.compaction_settings import Setting
from proxy.services.compaction.requested import Wish, wish

NOBODYS = Setting()
OFF = Setting(mode=Mode.OFF)


def test_without_a_header_the_features_mode_holds():
    assert wish("", Setting(mode=Mode.TRIM), Mode.FACTS) == Wish(mode=Mode.TRIM)
    assert wish(" ", NOBODYS, Mode.FACTS) == Wish(mode=Mode.FACTS)
    assert wish("", NOBODYS, Mode.OFF).mode is Mode.OFF


def test_a_caller_may_keep_a_call_as_it_came():
    assert wish("OFF", Setting(mode=Mode.FACTS), Mode.FACTS).mode is Mode.OFF


@pytest.mark.parametrize("setting", [NOBODYS, OFF])
def test_a_dry_run_is_reckoned_whatever_was_chosen(setting):
    assert wish("dry-run", setting, Mode.OFF) == Wish(mode=Mode.FACTS, is_dry=True)


def test_a_caller_may_force_what_nobody_chose_otherwise():
    assert wish("force", NOBODYS, Mode.OFF) == Wish(mode=Mode.FACTS, force=True)
    assert wish("Force ", Setting(mode=Mode.TRIM), Mode.OFF) == Wish(mode=Mode.TRIM, force=True)
    assert wish("force", OFF, Mode.FACTS).mode is Mode.OFF


def test_a_word_that_is_none_of_them_keeps_the_call_as_it_came_and_is_told():
    found = wish("fource", Setting(mode=Mode.FACTS), Mode.FACTS)

    assert found.mode is Mode.OFF
    (note,) = found.notes
    assert note.startswith("x-thriftgate-compaction is off, dry-run or force, not 'fource'")
