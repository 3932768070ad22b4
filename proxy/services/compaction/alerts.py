"""Alerts and metrics about compacted features: stepped back, or more expensive."""

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Final

from prometheus_client import Metric
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from compaction.policy import CompactionMode
from proxy.records.compaction_settings import FeatureSettings, SettingsSnapshot
from proxy.services.compaction.live_quality import WINDOW_S, CompactionSums, Place
from slo.alert import Alert, Severity, format_amount, rounded_usd, stable_id
from slo.budgets.budget import BudgetUnit

_DAY_S: Final = 86_400


def stepped_back_alert(
    place: Place,
    team_name: str,
    modes: tuple[CompactionMode, CompactionMode],
    why: str,
    now: float,
) -> Alert:
    """The alert that the live quality check stepped a feature back.

    Args:
        modes: The mode before, and the one after.
    """
    before, after = modes
    return Alert(
        kind="compaction",
        subject=_feature_label(place, place[0]),
        severity=Severity.TICKET,
        title=f"Compaction of {_feature_label(place, team_name)}"
        f" was reduced from {before} to {after}",
        facts=(("found", why),),
        action=f"Conversations are compacted as {after} from now on, in all processes.",
        fix="Resume its compaction once the reason is fixed.",
        began=now,
        expires=now + WINDOW_S,
    )


def higher_cost_alert(place: Place, team_name: str, sums: CompactionSums, now: float) -> Alert:
    """The alert that a feature's prompts became smaller but more expensive; once a day."""
    day = str(int(now // _DAY_S))
    return Alert(
        id=stable_id("compaction", "dearer", *place, day),
        kind="compaction",
        subject=_feature_label(place, place[0]),
        severity=Severity.TICKET,
        title=f"Compaction of {_feature_label(place, team_name)}"
        f" cost {rounded_usd(-sums.nanos)} more than it saved",
        facts=(
            ("calls compacted", f"{sums.compacted:,}"),
            ("tokens not sent", f"{sums.tokens:,}"),
            ("saved", format_amount(BudgetUnit.USD, sums.nanos)),
        ),
        action="None: what was compacted stays compacted.",
        fix=(
            "Conversations may end soon after a compaction, or begin differently each time."
            " Choose a gentler mode, such as trim."
        ),
        began=now,
        expires=now + WINDOW_S,
    )


def _feature_label(place: Place, team: str) -> str:
    return f"feature {place[1] or '(none)'} of team {team}"


HOLDS: Final = "holds"
STEPPED_BACK: Final = "stepped_back"


class CompactedFeaturesCollector(Collector):
    """Counts compacted features by state."""

    def __init__(self, chosen: Callable[[], SettingsSnapshot]) -> None:
        self._chosen = chosen

    def collect(self) -> Iterator[Metric]:
        """The number of features in each state; those without a mode of their own are left out."""
        counts = Counter(map(_feature_state, self._chosen().features.values()))
        features = GaugeMetricFamily(
            "thriftgate_compacted_features",
            "Features whose compaction was chosen, by whether live quality stepped them back",
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
