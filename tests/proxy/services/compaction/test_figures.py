from prometheus_client import CollectorRegistry

from compaction.policy import Mode
from proxy.records.compaction_settings import Chosen, Setting
from proxy.services.compaction.figures import FoldFigures


def test_features_are_counted_by_whether_they_were_stepped_back():
    settings = (
        Setting(mode=Mode.FACTS),
        Setting(mode=Mode.TRIM),
        Setting(mode=Mode.OFF),
        Setting(mode=Mode.FACTS, stepped=Mode.TRIM, why="9 of 100 lost"),
        Setting(stepped=Mode.OFF, why="9 of 100 lost"),
        Setting(),
    )
    held = Chosen(1, {("team_1", f"{n}"): setting for n, setting in enumerate(settings)})
    registry = CollectorRegistry()
    registry.register(FoldFigures(lambda: held))
    states = {
        state: registry.get_sample_value("thriftgate_compacted_features", {"state": state})
        for state in ("holds", "stepped_back")
    }

    assert states == {"holds": 2.0, "stepped_back": 2.0}
