"""Finds the objectives that are missed now, also those without a fallback ladder; pure.

An objective is missed while one of its alerts is open or due. A ladder acts within seconds, and
alerts wait for minutes. So it is missed, too, while more calls of the last ten minutes missed it
than chance explains, and those of the last two minutes are no better. With too few calls to say so
it is unproven: neither healthy nor missed.
"""

from typing import Final

from proxy.services.objectives.judge import Judge
from proxy.services.objectives.objective_state import Miss, TrackedObjective
from slo.alert import Alert, format_rough_duration
from slo.budgets.tally import GoodBadCounts
from slo.objectives import burn
from slo.objectives.objective import BurnAlert, Metric

RECENT_WINDOW_S: Final = 600.0
"""Seconds of the calls that are recent."""
_LATEST_WINDOW_S: Final = 120.0
#: Fewest calls of the latest that show that an objective is met again.
_MIN_LATEST_CALLS: Final = 10
_PERCENT: Final = 100


def current_miss(
    track: TrackedObjective, judge: Judge, alert: Alert | None, before: Miss | None, now: float
) -> Miss | None:
    """The present miss of an objective, proven or not; None while it is met.

    Args:
        alert: Its open alert of a burning budget or a missed floor; None for none.
        before: Its last miss, which may go on.
    """
    proof = _reason(track, judge, now) or ("" if alert is None else alert.title)
    reason = proof or _doubt(track, judge, now)
    if not reason:
        return None
    began = now if alert is None else alert.began
    if before is not None and before.is_proven == bool(proof):
        began = min(before.since, began)
    return Miss(began, reason, is_proven=bool(proof))


def is_burning(track: TrackedObjective, alert: BurnAlert, judge: Judge, now: float) -> bool:
    """True if one of its burn alerts is due by what is known."""
    short = burn.short_window_s(alert)
    return judge.known_seconds(now) >= short and burn.is_burning(
        alert,
        track.objective,
        judge.counts(track, now, alert.over),
        judge.counts(track, now, short),
    )


def is_floor_missed(track: TrackedObjective, judge: Judge, now: float, *, was_missed: bool) -> bool:
    """True if less than its floor is read from caches, and was not surely more lately.

    Args:
        track: An objective of caches.
    """
    objective = track.objective
    if burn.is_cleared(objective, judge.counts(track, now, burn.FLOOR_CLEARED_WINDOW_S)):
        return False  # what was over well within the hour does not begin again for the rest of it
    return was_missed or burn.is_missed(
        objective, judge.counts(track, now, burn.FLOOR_MISSED_WINDOW_S)
    )


def _reason(track: TrackedObjective, judge: Judge, now: float) -> str:
    """Counts that show that it is missed; "" for none."""
    objective = track.objective
    if objective.metric is Metric.CACHE:
        if not is_floor_missed(track, judge, now, was_missed=False):
            return ""
        hour = judge.counts(track, now, burn.FLOOR_MISSED_WINDOW_S)
        return f"{(1 - hour.share) * _PERCENT:.1f} % of an hour's eligible tokens were read"
    if _is_missed_lately(track, judge, now):
        return _burn_text(track, judge, RECENT_WINDOW_S, now)
    burning = (
        alert for alert in burn.burn_alerts(objective) if is_burning(track, alert, judge, now)
    )
    alert = next(burning, None)
    return "" if alert is None else _burn_text(track, judge, alert.over, now)


def _doubt(track: TrackedObjective, judge: Judge, now: float) -> str:
    """Counts of recent calls that are too few to show that it is missed; "" for none."""
    counts = judge.counts(track, now, RECENT_WINDOW_S)
    if track.objective.metric is Metric.CACHE or not burn.is_unproven(counts, track.objective):
        return ""
    return f"too few calls to judge: {counts.bad} of {counts.n} missed it"


def _is_missed_lately(track: TrackedObjective, judge: Judge, now: float) -> bool:
    """True if recent calls miss it beyond chance, and the latest of them do not say otherwise."""
    objective = track.objective
    if not burn.is_beyond_chance(judge.counts(track, now, RECENT_WINDOW_S), objective):
        return False
    latest: GoodBadCounts = judge.counts(track, now, _LATEST_WINDOW_S)
    return latest.n < _MIN_LATEST_CALLS or burn.burn_rate(latest, objective) > 1


def _burn_text(track: TrackedObjective, judge: Judge, seconds: float, now: float) -> str:
    """The burn rate and the calls that missed over a time."""
    counts = judge.counts(track, now, seconds)
    window = format_rough_duration(min(seconds, max(judge.known_seconds(now), 1.0)))
    rate = burn.burn_rate(counts, track.objective)
    return f"burn {rate:.1f} over {window}: {counts.bad:,} of {counts.n:,} calls missed it"
