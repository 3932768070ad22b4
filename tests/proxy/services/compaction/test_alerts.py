from prometheus_client import CollectorRegistry

from compaction.policy import CompactionMode
from proxy.records.compaction_settings import FeatureSettings, SettingsSnapshot
from proxy.services.compaction.alerts import (
    CompactedFeaturesCollector,
    higher_cost_alert,
    stepped_back_alert,
)
from proxy.services.compaction.live_quality import CompactionSums

NOW = 1_790_000_000.0
PLACE = ("team_1", "the chat")
MODES = (CompactionMode.FACTS, CompactionMode.TRIM)


def test_a_step_back_alert_says_what_was_found_and_how_to_fix_it():
    alert = stepped_back_alert(PLACE, "acme", MODES, "9 of 100", NOW)

    assert alert.title == (
        "Compaction of feature the chat of team acme was reduced from facts to trim"
    )
    assert ("found", "9 of 100") in alert.facts
    assert alert.subject == "feature the chat of team team_1", "by the team's id"
    assert alert.fix == "Resume its compaction once the reason is fixed."


def test_a_higher_cost_alert_is_sent_once_a_day():
    sums = CompactionSums(compacted=40, tokens=9_000, nanos=-2_000_000_000)
    midnight = NOW - NOW % 86_400
    times = (midnight - 1, midnight, midnight + 86_399, midnight + 86_400)
    before, first, last, after = (higher_cost_alert(PLACE, "acme", sums, time) for time in times)

    assert before.id != first.id == last.id != after.id
    assert first.title == (
        "Compaction of feature the chat of team acme cost $2.00 more than it saved"
    )
    assert ("saved", "-$2") in first.facts
    assert higher_cost_alert(("t", ""), "acme", sums, NOW).subject == "feature (none) of team t"


def test_compacted_features_are_counted_by_whether_they_were_stepped_back():
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
    snapshot = SettingsSnapshot(
        1, {("team_1", f"{n}"): setting for n, setting in enumerate(settings)}
    )
    registry = CollectorRegistry()
    registry.register(CompactedFeaturesCollector(lambda: snapshot))
    states = {
        state: registry.get_sample_value("thriftgate_compacted_features", {"state": state})
        for state in ("holds", "stepped_back")
    }

    assert states == {"holds": 2.0, "stepped_back": 2.0}
