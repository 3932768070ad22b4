from prometheus_client import CollectorRegistry

from compaction.policy import CompactionMode
from proxy.records.compaction_settings import FeatureSettings, SettingsSnapshot
from proxy.services.compaction.compacted_features import CompactedFeaturesCollector


def test_features_are_counted_by_whether_they_were_stepped_back():
    settings = (
        FeatureSettings(mode=CompactionMode.FACTS),
        FeatureSettings(mode=CompactionMode.TRIM),
        FeatureSettings(mode=CompactionMode.OFF),
        FeatureSettings(
            mode=CompactionMode.FACTS, stepped=CompactionMode.TRIM, why="9 of 100 lost"
        ),
        FeatureSettings(stepped=CompactionMode.OFF, why="9 of 100 lost"),
        FeatureSettings(),
    )
    held = SettingsSnapshot(1, {("team_1", f"{n}"): setting for n, setting in enumerate(settings)})
    registry = CollectorRegistry()
    registry.register(CompactedFeaturesCollector(lambda: held))
    states = {
        state: registry.get_sample_value("thriftgate_compacted_features", {"state": state})
        for state in ("holds", "stepped_back")
    }

    assert states == {"holds": 2.0, "stepped_back": 2.0}
