"""Burn rates of error budgets, and the alerts on them.

A target of 95 percent leaves an error budget of 5. The burn rate says how many times faster than
that calls go wrong: 1 uses it up exactly, and no burn is above 1 / (1 - target), which is 20 here:
then every call is bad. So the 14.4 that is customary for 99.9 percent means something else for
every target (72 percent of calls slow for a p95; nothing at all for a share of 70 percent, whose
burn ends at 3.3), and alerts are derived from the target here.

A cache floor has no error budget. It is missed when too little was read over an hour, beyond what
chance explains, and kept again when as surely more than its upper edge was read over a quarter of
an hour; between the two nothing changes.
"""

from math import log
from typing import Final

from slo.alert import Severity
from slo.budgets.tally import GoodBadCounts
from slo.objectives.objective import BurnAlert, Metric, Objective
from slo.wilson import lower_bound, upper_bound

#: Fewer events say nothing; one or two bad ones are no incident.
MIN_EVENTS: Final = 20
MIN_BAD_EVENTS: Final = 3
#: Seconds of the shortest and longest window that is counted: a twelfth of the first is ten
#: seconds.
MIN_ALERT_WINDOW_S: Final = 120.0
MAX_ALERT_WINDOW_S: Final = 3 * 86_400.0
#: Over which seconds a cache floor is missed, and kept again.
FLOOR_MISSED_WINDOW_S: Final = 3600.0
FLOOR_CLEARED_WINDOW_S: Final = 900.0
#: The most that may be wanted of a cache: 268 calls of which all is read are needed to show it.
MAX_CACHE_SHARE: Final = 0.99
#: Largest rounding error of a product.
FLOAT_TOLERANCE: Final = 1e-9

_SHORT_WINDOW_DIVISOR: Final = 12
_CLEAR_BAND: Final = 0.03
#: For a p95: 30 percent slow for half an hour, 15 for six hours, 7.5 for three days. Above it,
#: at most the usual burns. Source: Google, The Site Reliability Workbook (2018), chapter 5.
_USUAL_ALERTS: Final = (
    (6.0, 14.4, 1800.0, Severity.PAGE),
    (3.0, 6.0, 21_600.0, Severity.PAGE),
    (1.5, 1.5, 259_200.0, Severity.TICKET),
)
_P95: Final = 20.0


def max_burn_rate(target: float) -> float:
    """The burn at which every call is bad: 20 for a target of 0.95.

    Args:
        target: The share of good events wanted, above 0 and below 1.
    """
    return round(1 / (1 - target), 6)


def short_window_s(alert: BurnAlert) -> float:
    """The seconds at the end of an alert's window in which it must still burn."""
    return alert.over / _SHORT_WINDOW_DIVISOR


def clear_share(objective: Objective) -> float:
    """The share read from which on a missed cache floor counts as kept again."""
    if objective.clear is not None:
        return objective.clear
    return min(round(objective.target + _CLEAR_BAND, 9), MAX_CACHE_SHARE)


def burn_alerts(objective: Objective) -> tuple[BurnAlert, ...]:
    """The burn alerts of an objective: its own, else those that its target calls for.

    Of a p95 these are 6 over 30 minutes and 3 over 6 hours, which page, and 1.5 over 3 days. Every
    target's lie as far between 1 and its largest burn, on a logarithmic scale. A cache has none.
    """
    if objective.alerts or objective.metric is Metric.CACHE:
        return objective.alerts
    scale = log(max_burn_rate(objective.target)) / log(_P95)
    return tuple(
        BurnAlert(burn=min(round(burn**scale, 3), max_burn), over=over, severity=severity)
        for burn, max_burn, over, severity in _USUAL_ALERTS
    )


def burn_rate(counts: GoodBadCounts, objective: Objective) -> float:
    """Number of times faster than it may the error budget burned; 0.0 where nothing was counted."""
    return counts.share / (1 - objective.target)


def is_burning(
    alert: BurnAlert, objective: Objective, over: GoodBadCounts, lately: GoodBadCounts
) -> bool:
    """True if the burn alert is due.

    Its burn was reached over the whole window and still is in the last twelfth; so many events were
    counted that it is no accident that the budget burns.

    Args:
        over: Counts over ``alert.over``.
        lately: Counts over its last twelfth, ``short_window_s(alert)``.
    """
    bad_share = min(alert.burn * (1 - objective.target), 1.0) - FLOAT_TOLERANCE
    if over.share < bad_share or lately.share < bad_share:
        return False
    return is_beyond_chance(over, objective)


def is_beyond_chance(counts: GoodBadCounts, objective: Objective) -> bool:
    """True if more is bad than the objective allows, which 19 times of 20 chance does not explain.

    Of fewer than 20 events nothing is said, nor of fewer than 3 bad ones.
    """
    return _is_judgeable(counts) and _is_above_target(counts, objective)


def is_unproven(counts: GoodBadCounts, objective: Objective) -> bool:
    """True if more is bad than chance explains, of fewer events than a judgement takes.

    Source: Google, The Site Reliability Workbook, Alerting on SLOs, low-traffic services.
    """
    return not _is_judgeable(counts) and _is_above_target(counts, objective)


def _is_judgeable(counts: GoodBadCounts) -> bool:
    return counts.n >= MIN_EVENTS and counts.bad >= MIN_BAD_EVENTS


def _is_above_target(counts: GoodBadCounts, objective: Objective) -> bool:
    return lower_bound(counts.bad, counts.n) > 1 - objective.target


def is_missed(objective: Objective, hour: GoodBadCounts) -> bool:
    """True if less than its floor is read from the cache, which chance does not explain.

    Args:
        objective: A cache's.
        hour: Tokens read and not read in the last ``FLOOR_MISSED_WINDOW_S`` seconds.
    """
    read, counted = _calls(objective, hour)
    return counted >= MIN_EVENTS and upper_bound(read, counted) < objective.target


def is_cleared(objective: Objective, quarter: GoodBadCounts) -> bool:
    """True if as much as its upper edge is read from the cache again, which is no accident.

    Args:
        objective: A cache's.
        quarter: Tokens read and not read in the last ``FLOOR_CLEARED_WINDOW_S`` seconds.
    """
    read, counted = _calls(objective, quarter)
    return counted >= MIN_EVENTS and lower_bound(read, counted) >= clear_share(objective)


def _calls(objective: Objective, counts: GoodBadCounts) -> tuple[float, float]:
    """Calls that were read from the cache, and all of them, where tokens were counted.

    Tokens of one prompt are read together or not at all: they are no more evidence than one call.
    Each prompt is taken to have the least length, so that calls are never too few and a missed
    floor is noticed sooner, not later.
    """
    return counts.good / objective.min_prompt, counts.n / objective.min_prompt
