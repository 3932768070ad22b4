"""Features that planning harms, returned to being sent unmodified."""

import msgspec

from proxy.prefix.guard import ComparisonFinding
from proxy.records.feature_mode import FeatureStates, LayoutScope
from proxy.store.sql.layouts import Layouts
from proxy.store.sql.savings import Comparison, Savings


class Suspension(msgspec.Struct, frozen=True):
    """A feature that was suspended, and why."""

    place: LayoutScope
    reason: str


def suspend_harmful(
    savings: Savings, layouts: Layouts, since: float, now: float
) -> list[Suspension]:
    """The features that are suspended now because planning makes them worse; blocks.

    Each is measured since it was last decided about, for a decision may have mended it.

    Args:
        savings: What the ledger tells.
        layouts: What holds.
        since: Where measuring begins for features nobody decided about, in seconds since the epoch.
        now: The same.
    """
    standings = layouts.standings()
    found = []
    for each in savings.compare(since):
        place = LayoutScope(each.team, each.feature)
        begun = _measured_from(standings, place)
        if standings.of(place).is_off or begun > now:
            continue
        for judged in _compare_since(savings, each, begun) if begun > since else [each]:
            why = judged.verdict.why
            if judged.verdict.finding is ComparisonFinding.WORSE and layouts.suspend(
                place, why, now
            ):
                found.append(Suspension(place, why))
    return found


def _compare_since(savings: Savings, seen: Comparison, begun: float) -> list[Comparison]:
    return list(savings.compare(begun, team=seen.team, feature=seen.feature))


def _measured_from(standings: FeatureStates, place: LayoutScope) -> float:
    """When something was last decided about the feature, on whatever family."""
    return max(
        (held.measured_from for at, held in standings.places.items() if at.all_families == place),
        default=0.0,
    )
