from compaction.policy import CompactionMode
from proxy.records.compaction_settings import FeatureSettings, SettingsSnapshot


def test_nobodys_choice_is_the_default():
    assert (
        SettingsSnapshot().of("team_1", "chat").effective_mode(CompactionMode.TRIM)
        is CompactionMode.TRIM
    )


def test_a_persons_choice_goes_before_it_and_a_step_back_before_that():
    chosen = FeatureSettings(mode=CompactionMode.FACTS)
    stepped = FeatureSettings(mode=CompactionMode.FACTS, stepped=CompactionMode.TRIM)
    held = SettingsSnapshot(1, {("team_1", "chat"): chosen, ("team_1", "code"): stepped})

    assert held.of("team_1", "chat").effective_mode(CompactionMode.OFF) is CompactionMode.FACTS
    assert held.of("team_1", "code").effective_mode(CompactionMode.OFF) is CompactionMode.TRIM


def test_a_feature_that_is_not_listed_goes_by_what_holds_for_all_others():
    held = SettingsSnapshot(
        1,
        {("team_1", "chat"): FeatureSettings(mode=CompactionMode.FACTS)},
        FeatureSettings(mode=CompactionMode.OFF),
    )

    assert held.of("team_1", "chat").effective_mode(CompactionMode.TRIM) is CompactionMode.FACTS
    assert held.of("team_1", "code").effective_mode(CompactionMode.TRIM) is CompactionMode.OFF
