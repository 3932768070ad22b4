"""The number of features compacted and stepped back, for Prometheus."""

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Final

from prometheus_client import Metric
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from compaction.policy import CompactionMode
from proxy.records.compaction_settings import FeatureSettings, SettingsSnapshot

HOLDS: Final = "holds"
STEPPED_BACK: Final = "stepped_back"


class CompactedFeaturesCollector(Collector):
    """Counts the features whose compaction somebody chose, or the live quality check stepped back.

    Args:
        chosen: What holds for features now.
    """

    def __init__(self, chosen: Callable[[], SettingsSnapshot]) -> None:
        self._chosen = chosen

    def collect(self) -> Iterator[Metric]:
        """The features by how they stand; none of those that nobody chose and nobody stepped."""
        counts = Counter(map(_feature_state, self._chosen().features.values()))
        features = GaugeMetricFamily(
            "thriftgate_compacted_features",
            "Features whose compaction was chosen, by whether the live proof stepped them back",
            labels=["state"],
        )
        for state in (HOLDS, STEPPED_BACK):
            features.add_metric([state], counts[state])
        yield features


def _feature_state(setting: FeatureSettings) -> str:
    """The state of a feature; "" where it is not compacted by anybody's choice."""
    if setting.stepped is not None:
        return STEPPED_BACK
    return HOLDS if setting.mode not in {None, CompactionMode.OFF} else ""
