import pytest

from compaction.policy import CompactionMode
from proxy.records.compaction_settings import FeatureSettings
from proxy.services.compaction.policies import CompactionRequest, parse_compaction_request

NOBODYS = FeatureSettings()
OFF = FeatureSettings(mode=CompactionMode.OFF)


def test_without_a_header_the_features_mode_holds():
    assert parse_compaction_request(
        "", FeatureSettings(mode=CompactionMode.TRIM), CompactionMode.FACTS
    ) == CompactionRequest(mode=CompactionMode.TRIM)
    assert parse_compaction_request(" ", NOBODYS, CompactionMode.FACTS) == CompactionRequest(
        mode=CompactionMode.FACTS
    )
    assert parse_compaction_request("", NOBODYS, CompactionMode.OFF).mode is CompactionMode.OFF


def test_a_caller_may_have_a_call_sent_unmodified():
    assert (
        parse_compaction_request(
            "OFF", FeatureSettings(mode=CompactionMode.FACTS), CompactionMode.FACTS
        ).mode
        is CompactionMode.OFF
    )


@pytest.mark.parametrize("setting", [NOBODYS, OFF])
def test_a_dry_run_is_reckoned_whatever_was_chosen(setting):
    assert parse_compaction_request("dry-run", setting, CompactionMode.OFF) == CompactionRequest(
        mode=CompactionMode.FACTS, is_dry=True
    )


def test_a_caller_may_force_what_nobody_chose_otherwise():
    assert parse_compaction_request("force", NOBODYS, CompactionMode.OFF) == CompactionRequest(
        mode=CompactionMode.FACTS, force=True
    )
    assert parse_compaction_request(
        "Force ", FeatureSettings(mode=CompactionMode.TRIM), CompactionMode.OFF
    ) == CompactionRequest(mode=CompactionMode.TRIM, force=True)
    assert parse_compaction_request("force", OFF, CompactionMode.FACTS).mode is CompactionMode.OFF


def test_an_unknown_header_value_keeps_the_call_unmodified_and_is_noted():
    parsed = parse_compaction_request(
        "fource", FeatureSettings(mode=CompactionMode.FACTS), CompactionMode.FACTS
    )

    assert parsed.mode is CompactionMode.OFF
    (note,) = parsed.notes
    assert note.startswith("x-thriftgate-compaction is off, dry-run or force, not 'fource'")
